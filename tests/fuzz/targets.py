"""What is attacked: each target takes hostile input in one of its slots, and may only succeed or refuse in one line."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import signal
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from hostile_inputs import contents, documents, either
from hypothesis import strategies as st

from twofold import api
from twofold.base.errors import UserError

SECONDS = 60  # after which a case counts as a hang, on a machine that is busy with other things
SMALL = {
    "trainer.steps": 30,
    "trainer.warmup": 10,
    "trainer.eval_every": 15,
    "trainer.eval_episodes": 1,
    "trainer.test_episodes": 1,
    "trainer.log_every": 10,
    "trainer.save_every": 15,
    "trainer.tensorboard": False,
    "replay.batch_size": 4,
    "replay.buffer_size": 20,
}


@dataclass(frozen=True)
class Case:
    """One attack: the slot that is filled, and with what."""

    slot: str
    content: bytes

    def to_json(self) -> str:
        return json.dumps({"slot": self.slot, "content": self.content.decode("latin-1")})

    @classmethod
    def from_json(cls, line: str) -> Case:
        record = json.loads(line)
        return cls(record["slot"], record["content"].encode("latin-1"))


class Hang(BaseException):
    """A case took too long."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise Hang(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Target(ABC):
    """Something that reads what others wrote."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix=f"twofold-fuzz-{self.name}-", dir=_memory()))

    @abstractmethod
    def cases(self) -> st.SearchStrategy[Case]: ...

    @abstractmethod
    def take(self, case: Case) -> None:
        """Read the case as a user would have it read."""

    def __call__(self, case: Case) -> None:
        """Passes if the case is taken or refused with one line; everything else is a finding."""
        with time_limit(SECONDS):
            try:
                self.take(case)
            except UserError as error:
                assert 0 < len(str(error)) < 5_000, repr(str(error)[:300])

    def close(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def put(self, name: str, content: bytes) -> Path:
        path = self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def slots(**each: st.SearchStrategy[bytes]) -> st.SearchStrategy[Case]:
    return st.one_of(*(st.builds(Case, st.just(slot), content) for slot, content in each.items()))


def quietly(argv: list[str]) -> tuple[int, str]:
    """A command's exit code and what it said."""
    from twofold.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(argv)
        except SystemExit as ended:  # argparse
            code = ended.code if isinstance(ended.code, int) else 2
    return code, said.getvalue()


@cache
def finished_run() -> Path:
    """A run of ours that came to its end; it is made once."""
    place = Path(tempfile.mkdtemp(prefix="twofold-fuzz-run-", dir=_memory()))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    hidden = {"networks.actor_hidden": [4], "networks.critic_hidden": [4]}
    short = {"env_args.kwargs": {"max_episode_steps": 5}}
    api.train("td3", "pendulum", run=place / "run", **SMALL, **hidden, **short)
    return place / "run"


class OfRun(Target):
    """A target that attacks a finished run of ours."""

    @cached_property
    def run(self) -> Path:
        shutil.copytree(finished_run(), self.place / "run")
        return self.place / "run"

    def record(self, name: str) -> Any:
        return json.loads((self.run / name).read_bytes())


class Policy(OfRun):
    """Policy files: changed bytes, and changed descriptions with a right checksum."""

    name = "policy"

    def cases(self) -> st.SearchStrategy[Case]:
        from twofold.store.policy_file import unseal

        path = self.run / "best.safetensors"
        return slots(about=documents(unseal(path)[1]), raw=contents(path.read_bytes()))

    def take(self, case: Case) -> None:
        from twofold.store.policy_file import load_policy, seal, unseal

        content = case.content
        if case.slot == "about":
            content = seal(unseal(self.run / "best.safetensors")[0], json.loads(content))
        policy = load_policy(self.put("policy.safetensors", content))
        assert np.isfinite(policy.act(np.zeros(policy.observation_space.shape, np.float32))).all()
        _ = policy.config


class Checkpoint(OfRun):
    """Checkpoints whose state or manifest was changed and signed again, and logs that do not fit."""

    name = "checkpoint"

    def cases(self) -> st.SearchStrategy[Case]:
        folder = self._newest(self.run)
        raw = {n: contents((folder / n).read_bytes()) for n in ("state.safetensors", "MANIFEST.json")}
        manifest = json.loads((folder / "MANIFEST.json").read_bytes())
        state = json.loads((folder / "state.json").read_bytes())
        return slots(state=documents(state), manifest=documents(manifest), **raw)

    @staticmethod
    def _newest(run: Path) -> Path:
        return max((run / "checkpoints").glob("step_*"))

    def take(self, case: Case) -> None:
        from twofold.assemble import assemble
        from twofold.store.run import Run

        copy = self.place / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.run, copy)
        self._fill(self._newest(copy), case)
        parts = assemble(Run.open(copy))
        try:
            parts.keeper.resume(parts.trainer)
        finally:
            parts.close()
            parts.keeper.run.close()

    def _fill(self, folder: Path, case: Case) -> None:
        from twofold.store import files
        from twofold.store.checkpoint import _own_checksum

        manifest = json.loads((folder / "MANIFEST.json").read_bytes())
        if case.slot == "state":
            (folder / "state.json").write_bytes(case.content)
            size, digest = len(case.content), files.checksum(case.content)
            manifest["files"]["state.json"] = {"bytes": size, "blake2b": digest}
        elif case.slot == "manifest":
            manifest = json.loads(case.content)
        else:
            (folder / case.slot).write_bytes(case.content)
            return
        if isinstance(manifest, dict):
            manifest.pop("blake2b", None)
            manifest["blake2b"] = _own_checksum(manifest)
        (folder / "MANIFEST.json").write_bytes(json.dumps(manifest).encode())


class Config(OfRun):
    """Settings: YAML files of a user, and config.json of a run."""

    name = "config"

    def cases(self) -> st.SearchStrategy[Case]:
        text = (
            b"extends: td3\nseed: 3\nenv_args: {id: Pendulum-v1, kwargs: {g: 9.8}}\nlearner:\n  gamma: 0.9\n"
        )
        text += b"networks:\n  actor_hidden: [8, 8]\ntrainer:\n  steps: 1_000\n  rows: 2\n"
        values = self.record("config.json")["values"]
        return slots(yaml=contents(text), run=either(self.record("config.json")), values=documents(values))

    def take(self, case: Case) -> None:
        from twofold.settings.config import from_values, layers_for, resolve
        from twofold.store.run import Run

        if case.slot == "yaml":
            resolve(layers_for(str(self.put("mine.yaml", case.content)), "pendulum", {}))
        elif case.slot == "run":
            Run.open(self.put("other/config.json", case.content).parent)
        else:
            values = json.loads(case.content)
            from_values(values if isinstance(values, dict) else {}, "the fuzzer")


class Logs(OfRun):
    """What `show`, `runs` and the page read of a run of somebody else."""

    name = "logs"
    FILES = ("test.json", "provenance.json", "state.json", "finalists.json")
    LINES = ("evaluations.jsonl", "metrics.jsonl", "starts.jsonl")

    def cases(self) -> st.SearchStrategy[Case]:
        found = {name: either(self.record(name)) for name in self.FILES if (self.run / name).exists()}
        for name in self.LINES:
            lines = (self.run / name).read_bytes().splitlines()
            first, rest = json.loads(lines[0]), b"\n".join(lines[1:]) + b"\n"
            changed = documents(first).map(lambda line, rest=rest: line + b"\n" + rest)
            found[name] = st.one_of(changed, contents((self.run / name).read_bytes()))
        return slots(**found)

    def take(self, case: Case) -> None:
        from twofold.lab.runs import read_run

        folder = self.place / "read"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.run, folder, ignore=shutil.ignore_patterns("checkpoints"))
        (folder / case.slot).write_bytes(case.content)
        code, said = quietly(["show", str(folder)])
        assert code in (0, 2) and "Traceback" not in said, said[-500:]
        read_run(folder)


class Ratings(Target):
    """Ratings of a user: CSV of any encoding, Parquet."""

    name = "csv"
    TEXT = "user,item,rating,time\n" + "".join(
        f"u{i % 7},film {i % 5},{i % 5 + 1},{1_600_000_000 + i}\n" for i in range(40)
    )

    def cases(self) -> st.SearchStrategy[Case]:
        text = self.TEXT.encode()
        found = {
            "csv": contents(text),
            "tsv": contents(text.replace(b",", b"\t")),
            "utf16": contents(self.TEXT.encode("utf-16")),
        }
        with contextlib.suppress(ImportError):
            found["parquet"] = contents(self._parquet())
        return slots(**found)

    def _parquet(self) -> bytes:
        import pyarrow
        from pyarrow import parquet

        rows = [line.split(",") for line in self.TEXT.splitlines()]
        columns = {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}
        sink = io.BytesIO()
        parquet.write_table(pyarrow.table(columns), sink)
        return sink.getvalue()

    def take(self, case: Case) -> None:
        from twofold.recsys.loaders import load

        load("ratings", self.put(f"ratings.{'csv' if case.slot == 'utf16' else case.slot}", case.content))


class Maps(Target):
    """Maps of skirmishes; one that is taken is played for two steps."""

    name = "maps"

    def cases(self) -> st.SearchStrategy[Case]:
        import twofold.team.worlds as worlds

        found = sorted(Path(worlds.__path__[0]).rglob("3m.json")) or sorted(
            Path(worlds.__path__[0]).rglob("*.json")
        )
        return slots(map=either(json.loads(found[0].read_bytes())))

    def take(self, case: Case) -> None:
        from twofold.rows.world import make_world
        from twofold.settings.config import load

        path = self.put("mine.json", case.content)
        config = load("iql", "skirmish", **{"env_args.map_name": str(path)}).config
        world = make_world(config, purpose="train", rows=1)
        world.reset(seed=[1], options={"reset_mask": np.ones(1, bool)})
        for _ in range(2):
            world.step(np.zeros((1, *(world.single_action_space.shape or ())), np.int64))


class Partners(Target):
    """Sets of partners from elsewhere."""

    name = "partners"

    @cached_property
    def set(self) -> Path:
        from twofold.team.sets import About, Partner, write_partners

        agents = {"networks.hidden": 4, "replay.batch_size": 2, "replay.buffer_size": 4}
        run = self.place / "partner"
        api.train("iql", "two_step", run=run, **{**SMALL, **agents})
        folder = self.place / "set"
        folder.mkdir()
        shutil.copy(run / "best.safetensors", folder / "iql_s1.safetensors")
        partner = Partner("iql_s1", "iql", folder / "iql_s1.safetensors")
        write_partners(folder, [partner], About(world="team/two_step"), ["iql_s1"], [])
        return folder

    def cases(self) -> st.SearchStrategy[Case]:
        return slots(partners=either(self.right))

    @cached_property
    def right(self) -> Any:
        """What stood there before anything was put in its place."""
        return json.loads((self.set / "partners.json").read_bytes())

    def take(self, case: Case) -> None:
        from twofold.team.sets import read_partners

        assert self.right  # looked at before it is written over
        (self.set / "partners.json").write_bytes(case.content)
        found = read_partners(self.set)
        found.of(found.train)


class Structures(Target):
    """Crystals of a user, as extended XYZ and as a table."""

    name = "structures"
    XYZ = b'2\nLattice="3 0 0 0 3 0 0 0 3" Properties=species:S:1:pos:R:3 pbc="T T T"\nCu 0.0 0.0 0.0\nCu 1.5 1.5 1.5\n'
    CIF = b"data_cu\n_cell_length_a 3.6\n_cell_length_b 3.6\n_cell_length_c 3.6\n_cell_angle_alpha 90\n"
    CIF += b"_cell_angle_beta 90\n_cell_angle_gamma 90\n_symmetry_space_group_name_H-M 'P 1'\n"
    CIF += b"loop_\n_atom_site_label\n_atom_site_fract_x\n"
    CIF += b"_atom_site_fract_y\n_atom_site_fract_z\nCu 0 0 0\n"

    def cases(self) -> st.SearchStrategy[Case]:
        return slots(xyz=contents(self.XYZ), cif=contents(self.CIF), name=contents(b"Cu*2x1x1"))

    def take(self, case: Case) -> None:
        from twofold.crystal.structures import load

        if case.slot == "name":
            load(case.content.decode("latin-1"))
        else:
            load(self.put(f"mine.{case.slot}", case.content))


WORDS = [
    "train", "resume", "eval", "play", "plot", "export", "check", "show", "list", "compare", "report",
    "runs", "lab", "page", "partners", "fit", "recommend", "serve", "standings", "ope", "relax", "demo",
    "help", "--help", "-h", "--version", "--run", "--run=", "--config", "--config=td3", "--config=tdd3",
    "--env-config=pendulum", "--env-config=x", "--env=team/skirmish", "--env", "--import=nothere.py",
    "--import", "--import=..", "--out=x", "--episodes=-1", "--episodes=x", "--seed=1e400", "--zoo=pendulum",
    "--zoo=x", "--partners=x", "--from=x", "--observer=x", "--jobs=0", "--port=99999999", "--user",
    "--user=é", "--set", "--rattle=nan", "seed=2024-13-45", "seed=" + "9" * 400, "trainer.steps=0",
    "trainer.steps=-1", "trainer.stepz=5", "learner=td3", "learner.gamma=2", "=", "==", "a=b=c", "-", "--",
    "---", "", " ", "\x00", "\x1b[31m", "\ud800", "nothere", "/dev/null", "/", "x" * 400, "{", "[1,2",
    "env_args.kwargs={", "env_args.kwargs.x=2024-01-01", "networks.actor_hidden=[1000000,1000000]", "make",
    "show", "split", "gather",
]  # fmt: skip


class Commands(Target):
    """Command lines: nothing is trained or served here, everything up to it happens."""

    name = "commands"

    def cases(self) -> st.SearchStrategy[Case]:
        words = st.one_of(st.sampled_from(WORDS), st.text(max_size=12))
        lines = st.lists(words, min_size=1, max_size=6)
        return lines.map(lambda words: Case("argv", json.dumps(words).encode()))

    def take(self, case: Case) -> None:
        argv = json.loads(case.content)
        folder = self.place / "here"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with contextlib.chdir(folder), _nothing_is_run():
            code, said = quietly(argv)
        assert code in (0, 1, 2), (code, said[-300:])
        assert "Traceback" not in said, said[-2000:]


@contextlib.contextmanager
def _nothing_is_run() -> Iterator[None]:
    """Commands end where the long work would begin."""
    from unittest import mock

    def ended(*_: Any, **__: Any) -> Any:
        raise UserError("this is where the work begins")

    places = [
        "twofold.assemble.run_to_end",
        "twofold.api.run_to_end",
        "twofold.demo.demo",
        "twofold.assemble.score",
    ]
    places += [
        "twofold.recsys.prepare.fit_into",
        "twofold.recsys.commands.serve",
        "twofold.lab.page.server.serve",
        "twofold.api.check_world",
    ]
    with contextlib.ExitStack() as stack:
        for place in places:
            stack.enter_context(mock.patch(place, ended))
        yield


TARGETS: dict[str, type[Target]] = {
    target.name: target
    for target in (Policy, Checkpoint, Config, Logs, Ratings, Maps, Partners, Structures, Commands)
}
