"""The command line as a user types it, with wrong input on purpose."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from twofold.cli import main
from twofold.cli.arguments import parse

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


def test_grammar_takes_flags_pairs_and_the_word_with() -> None:
    words = ["--config=x", "--debug", "with", "a.b=3", "--actor-lr", "1e-4", "--run", "here", "place"]
    typed = parse(words, ("config", "run"))
    assert typed.options == {"config": "x", "run": "here"}
    assert typed.settings == {"debug": True, "a.b": 3, "actor-lr": 1e-4}
    assert typed.places == ["place"]


def test_help_does_not_import_torch() -> None:
    code = "import sys; from twofold.cli import main; main(['--help']); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "twofold train" in done.stdout


@pytest.mark.parametrize("command", ["train", "resume", "eval", "play", "show", "list", "export", "check"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"usage: twofold {command}" in capsys.readouterr().out


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
    assert {"command", "commit", "packages", "machine"} <= provenance.keys()


def test_show_names_the_layer_of_each_value(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run)]) == 0
    out = capsys.readouterr().out
    assert "command line" in out and "algs/td3.yaml" in out and "envs/pendulum.yaml" in out


def test_eval_plot_and_list_work_on_it(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(run), "--episodes=2"]) == 0
    assert main(["plot", str(run), f"--out={tmp_path / 'c.png'}"]) == 0
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert "95 % interval" in out and "control/gym" in out and "td3_paper" in out
    assert (tmp_path / "c.png").stat().st_size > 1000


def test_play_writes_a_video(run: Path, tmp_path: Path) -> None:
    assert main(["play", str(run), f"--out={tmp_path / 'p.mp4'}"]) == 0
    assert (tmp_path / "p.mp4").stat().st_size > 1000


def test_export_agrees_with_the_policy(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    assert main(["export", str(run), f"--out={tmp_path / 'p.onnx'}"]) == 0
    assert float(capsys.readouterr().out.split(": ")[-1].rstrip(")\n")) < 1e-4


def test_the_same_command_goes_on_with_its_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "metrics.jsonl").read_bytes()
    assert main(["train", *QUICK, f"--run={run}"]) == 0
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_run_repeats_another_with_a_new_seed(run: Path, tmp_path: Path) -> None:
    assert main(["train", f"--from={run}", "--seed=4", f"--run={tmp_path / 'again'}"]) == 0
    values = json.loads((tmp_path / "again" / "config.json").read_text())["values"]
    assert values["seed"] == 4 and values["networks.actor_hidden"] == [8]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["trian"], "no command 'trian'; did you mean 'train'"),
        (["train", "learner.gama=1"], "unknown setting 'learner.gama'; did you mean 'learner.gamma'"),
        (["train", "--gamma=high"], "learner.gamma must be a finite number"),
        (["train", "--env-config=gym", "env_args.id=Nope-v1"], "no Gymnasium environment 'Nope-v1'"),
        (["train", "--env-config=gym", "env_args.id=CartPole-v1"], "TD3 needs continuous actions"),
        (["train", "somewhere"], "'somewhere' is not a setting"),
        (["train", "--import=nowhere.py"], "nowhere.py: no such file"),
        (["eval", "nowhere"], "no policy file nowhere"),
        (["resume", "nowhere"], "nowhere is not a run directory"),
        (["plot", "nowhere"], "nowhere is not a directory"),
        (["eval"], "give exactly one place"),
        (["eval", "x", "--epsodes=3"], "unknown option 'epsodes'"),
    ],
)
def test_a_users_mistake_is_one_message(
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in failing(capsys, *argv)
    assert os.listdir(tmp_path) == [] or argv[0] == "train"


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
