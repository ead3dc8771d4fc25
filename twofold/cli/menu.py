"""The commands of every domain: what each asks for, and examples that work."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from twofold.base.command import Command, asks, needed, option, place, settings_given

_RUN = "a run directory, or a policy file"
_IMPORT = "your own worlds, networks or learners: a file.py or a module; may be given again"
_CONFIG = "the algorithm: a preset (twofold list) or a .yaml file"
_WORLD = "the environment: a preset (twofold list) or a .yaml file"
_ZOO = "in place of RUN: a trained policy that is shipped (twofold list)"


@asks
class Train:
    config: str | None = option(f"{_CONFIG} (default td3)", default=None, metavar="NAME", kind="config")
    env_config: str | None = option(
        f"{_WORLD}, or a Gymnasium id (default pendulum)", default=None, metavar="NAME", kind="env-config"
    )
    run: Path | None = option(
        "the run directory; a run of the same settings in it is resumed", default=None, metavar="DIR"
    )
    runs: Path = option(
        "where new run directories are made", default=Path("runs"), metavar="DIR", kind="folder"
    )
    seeds: str | None = option(
        "several runs, as 1..5 or 1,2,7: each a run of its own, then a report", default=None, metavar="SEEDS"
    )
    jobs: int = option("trainings at once, with --seeds", default=2, metavar="N", least=1)
    on: str = option("with --seeds: here, ray:auto, ray:HOST:PORT or slurm", default="here", metavar="PLACE")
    from_: Path | None = option(
        "the settings of another run; a seed or others may be added", default=None, metavar="RUN", kind="run"
    )
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")
    observer: str | None = option(
        "record the run with Sacred too: sacred:DIR", default=None, metavar="KIND:PLACE"
    )
    settings: dict[str, object] = settings_given(factory=dict)


TRAIN = Command(
    "train",
    "train a policy",
    Train,
    "twofold.cli.running:train",
    more="Stop it with Ctrl-C whenever you like. The same command with --run, or `twofold resume RUN`, continues "
    "exactly where it was.\nSettings, lowest first: defaults < --env-config < --config < command line. PyMARL's `with` "
    "before settings is accepted, and so are the names of SB3, CleanRL and PyMARL where they mean the same "
    "(total_timesteps, learning_rate, learning_starts, t_max, ...).",
    matters=(
        ("seed=0", "of everything random in the run"),
        ("trainer.steps=300_000", "environment steps of the whole run"),
        ("trainer.warmup=1_000", "random steps before learning begins"),
        ("trainer.rows=8", "environments stepped together; trainer.workers=4 puts them into processes"),
        ("trainer.eval_every=5_000", "steps between evaluations; trainer.eval_episodes of them each"),
        ("trainer.stop_at=-150", "end early once a validation return is this good"),
        ("learner.gamma=0.99", "discount"),
        ("learner.actor_lr=3e-4", "learning rate; learner.critic_lr, or learning_rate for both"),
        ("learner.expl_noise=0.1", "standard deviation of the exploration noise"),
        ("networks.actor_hidden=[256,256]", "hidden layers; networks.critic_hidden, or net_arch for both"),
        ("replay.batch_size=256", "transitions of one update; replay.buffer_size of them are kept"),
        ("env_args.id=Hopper-v5", "the environment, with --env-config=gym"),
    ),
    examples=(
        "twofold train --env-config=pendulum --run=runs/first trainer.steps=8_000 trainer.warmup=1_000",
        "twofold train --config=td3 --env-config=halfcheetah seed=1",
        "twofold train --env-config=gym env_args.id=Hopper-v5 trainer.steps=300_000 trainer.rows=4",
        "twofold train --config=ddpg --env-config=pendulum with learner.gamma=0.98",
        "twofold train --config=qmix --env-config=skirmish with env_args.map_name=3m t_max=500_000",
        "twofold train --env-config=pendulum --seeds=1..3 --jobs=2 trainer.steps=8_000 trainer.warmup=1_000",
        "twofold train --from=runs/first seed=4",
    ),
)


@asks
class Resume:
    run: Path = needed("a run directory", "RUN", type=Path, kind="run")
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")


@asks
class Eval:
    run: str | None = place(_RUN, "RUN", default=None, kind="run")
    zoo: str | None = option(_ZOO, default=None, metavar="NAME", kind="zoo")
    episodes: int = option("how many episodes", default=100, metavar="N", least=1)
    seed: int = option("of the first episode; the next ones follow", default=3_000_000, metavar="N", least=0)
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")


@asks
class Play:
    run: str | None = place(_RUN, "RUN", default=None, kind="run")
    zoo: str | None = option(_ZOO, default=None, metavar="NAME", kind="zoo")
    out: Path | None = option(
        "the video, .mp4 or .gif (default RUN/videos/best_seedN.mp4)",
        default=None,
        metavar="FILE",
        short="-o",
        kind="file",
    )
    human: bool = option("open a window in place of writing a video", default=False)
    seed: int = option("of the episode", default=3_000_000, metavar="N", least=0)
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")


@asks
class Show:
    run: Path | None = place(
        "a run directory; without one, what `train` would take", "RUN", default=None, kind="run"
    )
    config: str | None = option(f"{_CONFIG} (default td3)", default=None, metavar="NAME", kind="config")
    env_config: str | None = option(
        f"{_WORLD} (default pendulum)", default=None, metavar="NAME", kind="env-config"
    )
    explain: str | None = option(
        "what each setting means, its type, bounds and other names; of one section: --explain=learner",
        default=None, metavar="SECTION", bare="all",
    )  # fmt: skip
    schema: bool = option("a JSON schema with which editors complete and check YAML files", default=False)
    all: bool = option("settings that were left at their defaults, too", default=False)
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")
    settings: dict[str, object] = settings_given(factory=dict)


@asks
class List:
    word: str | None = place("only what has this word in it", "WORD", default=None)
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")


@asks
class Export:
    run: str | None = place(_RUN, "RUN", default=None, kind="run")
    zoo: str | None = option(_ZOO, default=None, metavar="NAME", kind="zoo")
    out: Path | None = option(
        "the file (default RUN/policy.onnx)", default=None, metavar="FILE", short="-o", kind="file"
    )
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")


@asks
class Demo:
    """Nothing is asked."""


@asks
class Check:
    config: str | None = option(
        "also check this algorithm with its networks", default=None, metavar="NAME", kind="config"
    )
    env_config: str | None = option(
        f"{_WORLD} (default gym)", default=None, metavar="NAME", kind="env-config"
    )
    import_: tuple[str, ...] = option(_IMPORT, default=(), metavar="FILE", kind="file")
    settings: dict[str, object] = settings_given(factory=dict)


@asks
class Doctor:
    """Nothing is asked."""


@asks
class Completion:
    shell: Literal["bash", "zsh"] = place("which shell: bash or zsh", "SHELL", default="bash")


COMMANDS = (
    TRAIN,
    Command(
        "resume",
        "continue a stopped run to its end, bit for bit as if it had not been stopped",
        Resume,
        "twofold.cli.running:resume",
        examples=("twofold resume runs/first",),
    ),
    Command(
        "eval",
        "score a policy on fresh seeds",
        Eval,
        "twofold.cli.running:evaluate",
        more="Mean, standard deviation and 95 % interval of every metric, on seeds that training never saw.",
        examples=("twofold eval runs/first --episodes=20", "twofold eval --zoo=hopper --episodes=5"),
    ),
    Command(
        "play",
        "a video of one episode, or a window",
        Play,
        "twofold.cli.running:play",
        examples=("twofold play runs/first", "twofold play --zoo=hopper --out=hopper.gif"),
    ),
    Command(
        "show",
        "a run's state and settings, and where each value comes from",
        Show,
        "twofold.cli.showing:show",
        matters=(
            ("learner", "the algorithm: learning rates, discount, noise"),
            ("trainer", "how long, how many environments, evaluations, checkpoints"),
            ("networks", "sizes and kinds of the networks"),
            ("replay", "what is kept of the past"),
            ("env_args", "the environment's own settings"),
        ),
        examples=(
            "twofold show runs/first",
            "twofold show --explain=learner",
            "twofold show --config=td3_paper --env-config=hopper",
        ),
    ),
    Command(
        "list",
        "environments, algorithms, presets, trained policies",
        List,
        "twofold.cli.showing:list_all",
        examples=("twofold list", "twofold list qmix"),
    ),
    Command(
        "export",
        "a policy as ONNX, with scaling inside",
        Export,
        "twofold.cli.running:export",
        more="The file takes raw observations and returns real actions; it is compared with the policy before it is "
        "written.",
        examples=("twofold export runs/first", "twofold export --zoo=hopper --out=hopper.onnx"),
    ),
    Command(
        "check",
        "what is wrong with an environment, a learner or networks of yours",
        Check,
        "twofold.cli.running:check",
        more="Shapes, finite values, episodes that are a function of seed and actions, exact resume. With --config "
        "also the learner and its networks.",
        matters=(
            ("env_args.id=Hopper-v5", "the environment, with --env-config=gym"),
            ("env=mine/point", "a world that a file of yours registers"),
            ("networks.name=mine/gated", "networks of yours, with --config"),
            ("learner.name=mine/imitation", "a learner of yours, with --config"),
        ),
        examples=(
            "twofold check --env-config=gym env_args.id=Hopper-v5",
            "twofold check --config=td3 --env-config=pendulum",
        ),
    ),
    Command(
        "demo",
        "train on Pendulum for a minute and show it before and after",
        Demo,
        "twofold.cli.running:demo",
        examples=("twofold demo",),
    ),
    Command(
        "doctor",
        "versions, engines, missing extras, and what to do about them",
        Doctor,
        "twofold.cli.doctor:doctor",
        examples=("twofold doctor",),
    ),
    Command(
        "completion",
        "completion for your shell",
        Completion,
        "twofold.cli.completion:completion",
        more="For bash, once:  twofold completion bash >> ~/.bashrc\n"
        "For zsh, once:   twofold completion zsh >> ~/.zshrc   (behind compinit)",
        examples=("twofold completion bash", "twofold completion zsh"),
    ),
)


def all_commands() -> dict[str, tuple[Command, ...]]:
    """Every command by heading: those of every domain, of the lab, and of each domain."""
    from twofold.lab.menu import COMMANDS as LAB
    from twofold.settings.domains import domains

    found = {"": (train(), *COMMANDS[1:]), "many runs": LAB}
    return found | {name: domain.commands for name, domain in domains().items() if domain.commands}


def train() -> Command:
    """`train` with the options that domains add."""
    from twofold.settings.domains import domains

    theirs = [domain.train_options for domain in domains().values() if domain.train_options]
    made = dataclasses.make_dataclass("Train", [], bases=(*theirs, Train), frozen=True)
    return dataclasses.replace(TRAIN, asks=made)
