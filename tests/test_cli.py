"""The command line as a user types it, with wrong input on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from twofold.cli import main

QUICK = [
    "--config=td3",
    "--env-config=pendulum",
    "trainer.steps=120",
    "trainer.warmup=50",
    "trainer.eval_every=60",
    "trainer.eval_episodes=1",
    "trainer.test_episodes=2",
    "trainer.tensorboard=false",
    "networks.actor_hidden=[8]",
    "networks.critic_hidden=8",
    "--batch_size=8",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", *QUICK, f"--run={folder}"]) == 0
    return folder


def failing(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message and message.count("twofold: ") == 1
    return message


def test_help_does_not_import_torch() -> None:
    code = "import sys; from twofold.cli import main; main(['--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "twofold train" in done.stdout


def test_train_writes_an_ordinary_run_directory(run: Path) -> None:
    names = {p.name for p in run.iterdir()}
    assert {
        "config.json",
        "provenance.json",
        "metrics.jsonl",
        "evaluations.jsonl",
        "best.safetensors",
    } <= names
    assert {"checkpoints", "curve.png", "test.json"} <= names
    provenance = json.loads((run / "provenance.json").read_text())
    assert {"command", "commit", "imports", "packages", "machine"} <= provenance.keys()


def test_show_says_where_a_run_stands_and_then_what_was_set_first_of_all_by_the_user(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    places = [
        out.index(word) for word in ("checkpoints at steps", "command line", "algs/td3", "envs/pendulum")
    ]
    assert places == sorted(places)
    assert "built in" not in out and "more are at their defaults (--all shows them)" in out


def test_show_refuses_settings_beside_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has its own settings: leave out learner.gamma" in failing(
        capsys, "show", str(run), "learner.gamma=1"
    )
    assert "leave out --config" in failing(capsys, "show", str(run), "--config=ddpg")


def test_show_explains_settings_that_have_a_word_in_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--explain=noise"]) == 0
    out = capsys.readouterr().out
    assert "learner.expl_noise" in out and "learner.noise_clip" in out and "trainer.steps" not in out


def test_show_explains_a_section_in_two_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--explain", "learner"]) == 0
    assert "learner.gamma\n" in capsys.readouterr().out


def test_eval_plot_and_list_work_on_it(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--episodes=2"]) == 0
    assert main(["plot", str(run), f"--out={tmp_path / 'c.png'}"]) == 0
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "95 % interval" in out and "control/gym" in out and "td3_paper" in out
    assert (tmp_path / "c.png").stat().st_size > 1000


def test_list_shows_what_has_a_word_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "qmix"]) == 0
    out = capsys.readouterr().out
    assert "qmix_plus" in out and "pendulum" not in out
    assert "nothing has 'nonsense'" in failing(capsys, "list", "nonsense")


def test_a_switch_takes_no_word_from_the_runs_behind_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from twofold.lab import figures

    drawn: list[Path] = []
    monkeypatch.setattr(figures, "draw_curves", lambda folders, out, **_: (drawn.extend(folders) or out, []))
    assert main(["plot", "--mean", str(run), str(run)]) == 0
    assert drawn == [run, run]


def test_a_run_that_has_not_begun_is_left_out_of_a_plot_and_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_bytes((run / "config.json").read_bytes())
    assert main(["plot", str(run), str(tmp_path / "empty"), f"--out={tmp_path / 'c.png'}"]) == 0
    assert "left out" in capsys.readouterr().err
    assert (tmp_path / "c.png").exists()


def test_play_writes_a_video_into_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(run)]) == 0
    assert (run / "videos" / "best_seed3000000.mp4").stat().st_size > 1000


def test_a_policy_of_the_zoo_never_writes_over_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twofold.cli import menu
    from twofold.cli.running import _beside

    monkeypatch.chdir(tmp_path)
    (tmp_path / "hopper.mp4").touch()
    assert _beside(menu.Play(zoo="hopper"), "play.mp4") == Path("hopper_2.mp4")


def test_export_agrees_with_the_policy_and_says_what_goes_in_and_out(
    run: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["export", str(run)]) == 0
    out, err = capfd.readouterr()
    assert err == "" and len(out.splitlines()) == 4
    assert "obs [rows, 3] float32" in out and "action [rows, 1] float32" in out
    assert (run / "policy.onnx").exists()


def test_the_same_command_goes_on_with_its_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    assert main(["train", *QUICK, f"--run={run}"]) == 0
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_repeats_another_with_a_new_seed(run: Path, tmp_path: Path) -> None:
    assert main(["train", f"--from={run}", "--seed=4", f"--run={tmp_path / 'again'}"]) == 0
    values = json.loads((tmp_path / "again" / "config.json").read_text())["values"]
    assert values["seed"] == 4 and values["networks.actor_hidden"] == [8]


def test_from_refuses_a_preset_beside_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = failing(capsys, "train", f"--from={run}", "--config=ddpg")
    assert "brings the settings of that run: leave out --config" in message


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["trian"], "no command 'trian'; did you mean 'train'"),
        (["train", "learner.gama=1"], "unknown setting 'learner.gama'; did you mean 'learner.gamma'"),
        (["train", "--gamma=high"], "learner.gamma must be a finite number"),
        (["train", "--env-config=gym", "env_args.id=Nope-v1"], "no Gymnasium environment 'Nope-v1'"),
        (["train", "--env=Nope-v1"], "no Gymnasium environment 'Nope-v1'"),
        (
            ["train", "--env-config=gym", "env_args.id=CartPole-v1"],
            "Discrete actions for one agent are not here",
        ),
        (["train", "somewhere"], "'somewhere' is not a setting"),
        (["train", "--run"], "--run needs a value"),
        (["train", "--run", "--config=td3"], "--run needs a value"),
        (["train", "--run="], "--run needs a value"),
        (["resume", "R", "trainer.steps=10"], "takes RUN and no settings, got 'trainer.steps=10'"),
        (["play", "R", "--out=film.doc"], "film.doc: a video ends in .mp4, .gif, .mkv, .mov"),
        (
            ["train", "--run", "trainer.steps=10"],
            "--run needs a value: --run=...; 'trainer.steps=10' behind it",
        ),
        (["train", "--env-confg=pendulum"], "did you mean '--env-config'"),
        (["train", "--import=nowhere.py"], "nowhere.py: no such file"),
        (["train", "--partners=x"], "--partners=x belongs to a mixed team: add --multi_algs"),
        (["train", "--on=ray:auto"], "--on=ray:auto is for several runs at once: add --seeds"),
        (["fit", "env_args.path=ratings.csv"], "since env_args.data is synthetic: add --env-config=ratings"),
        (
            ["train", "--config=sac"],
            "--config=sac is not here: for one agent there are td3_plus, td3 and ddpg",
        ),
        (["train", "--config=mappo"], "--config=mappo is not here: policy-gradient teams"),
        (["train", "--config=nonsense"], "no --config named 'nonsense'; a path to a .yaml"),
        (["eval", "nowhere"], "no policy file nowhere"),
        (["eval", "hopper"], "no policy file hopper; the trained policy of that name is --zoo=hopper"),
        (["resume", "nowhere"], "nowhere is not a run directory"),
        (["resume"], "twofold resume needs RUN: a run directory"),
        (["resume", "a", "b"], "takes RUN, got 2 words: 'b' is one too many"),
        (["plot", "nowhere"], "nowhere is not a directory"),
        (["plot"], "twofold plot needs RUN ..."),
        (["plot", "a", "--metrc=x"], "unknown option '--metrc' of twofold plot; did you mean '--metric'"),
        (["plot", "a", "--mean=yes"], "--mean is a switch and takes no value"),
        (["list", "--al"], "unknown option '--al' of twofold list"),
        (["demo", "--steps=3"], "unknown option '--steps' of twofold demo"),
        (["demo", "now"], "twofold demo takes no words"),
        (["eval"], "name one policy"),
        (["eval", "x", "--zoo=hopper"], "both RUN and --zoo were given"),
        (
            ["eval", "x", "--epsodes=3"],
            "unknown option '--epsodes' of twofold eval; did you mean '--episodes'?",
        ),
        (["eval", "--zoo", "hopper", "--episode=5"], "did you mean '--episodes'"),
        (["eval", "x", "--episodes=some"], "--episodes must be a whole number, got 'some'"),
        (["eval", "x", "--episodes=0"], "--episodes must be at least 1"),
        (["play", "x", "--human", "--out=a.mp4"], "--human opens a window and writes no video"),
        (["relax", "Cu", "--rattle=nan"], "--rattle must be a finite number"),
        (["relax", "--fmaxx=1", "Cu"], "did you mean '--fmax'"),
        (["recommend", "x", "--usr=3"], "did you mean '--user'"),
        (["partners", "mke"], "no command 'twofold partners mke'; did you mean 'make'"),
        (["partners", "gather", "set"], "twofold partners gather needs RUN ..."),
        (["compare", "runs", "--score=best"], "--score must be one of test, last, area, got 'best'"),
        (
            ["--seed=3", "train", "--config=td3"],
            "stand behind the command: twofold train --seed=3 --config=td3",
        ),
        (["--seed=3"], "'--seed=3' is not a command"),
        (["completion", "fish"], "must be one of bash, zsh, got 'fish'"),
    ],
)
def test_a_users_mistake_is_one_message_and_leaves_nothing_behind(
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in failing(capsys, *argv)
    assert os.listdir(tmp_path) == []


def test_a_policy_for_another_world_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from twofold.store.checkpoint import pack
    from twofold.store.policy_file import seal, unseal

    arrays, about = unseal(run / "best.safetensors")
    about["values"]["env_args.id"] = "Hopper-v5"
    (tmp_path / "moved.safetensors").write_bytes(seal(pack(arrays)[0] and arrays, about))
    message = failing(capsys, "eval", str(tmp_path / "moved.safetensors"), "--episodes=1")
    assert (
        "the policy was trained for are not this world's: of shape (3,) there, of shape (11,) here" in message
    )


def test_five_lines_of_python(tmp_path: Path) -> None:
    import twofold

    own = {"steps": 60, "warmup": 50, "eval_episodes": 1, "test_episodes": 1, "tensorboard": False}
    run = twofold.train(config="td3", env_config="pendulum", seed=1, run=tmp_path / "r", trainer=own)
    assert run.evaluate(episodes=1)["eval"]["return"]["episodes"] == 1
    action = run.policy.act([1.0, 0.0, 0.0])
    assert action.shape == (1,) and abs(action[0]) <= 2
