from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold import api
from twofold.assemble import assemble
from twofold.base.errors import UserError
from twofold.core.trainer import Trainer
from twofold.settings.config import load
from twofold.store.run import Run

SMALL = {
    "networks": {"actor_hidden": [16], "critic_hidden": [16]},
    "replay": {"batch_size": 16, "buffer_size": 5000},
}


def trainer(folder: Path, **settings: Any) -> Trainer[Any]:
    own = {
        "steps": 300,
        "warmup": 50,
        "eval_every": 100,
        "eval_episodes": 1,
        "log_every": 100,
        "tensorboard": False,
    }
    own |= settings.pop("trainer", {})
    return assemble(
        Run.create(folder, load("td3", "pendulum", trainer=own, **SMALL, **settings), "test")
    ).trainer


def finished(made: Trainer[Any]) -> None:
    """Train, and choose among the finalists."""
    made.train()
    made.keeper.choose(made)


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_one_update_for_each_step_after_the_warm_up(tmp_path: Path) -> None:
    made = trainer(tmp_path / "r")
    made.train()
    assert made.steps == 300 and made.learner.updates == 251


@pytest.mark.parametrize(("rows", "ratio", "updates"), [(4, 1.0, 252), (4, 0.125, 31), (1, 2.0, 502)])
def test_the_update_ratio_holds_for_any_number_of_rows(
    tmp_path: Path, rows: int, ratio: float, updates: int
) -> None:
    made = trainer(tmp_path / "r", trainer={"rows": rows, "updates_per_item": ratio})
    made.train()
    assert made.learner.updates == updates


@pytest.mark.parametrize(("warmup", "warned"), [(299, False), (300, True), (5_000, True)])
def test_a_run_that_is_all_warm_up_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, warmup: int, warned: bool
) -> None:
    trainer(tmp_path / "r", trainer={"warmup": warmup}).train()
    assert ("all warm-up" in caplog.text and "trainer.steps=300" in caplog.text) is warned


def test_evaluations_are_step_exact_and_begin_with_the_untrained_policy(tmp_path: Path) -> None:
    trainer(tmp_path / "r").train()
    assert [r["step"] for r in records(tmp_path / "r", "evaluations.jsonl")] == [0, 100, 200, 300]


def test_a_run_ends_early_when_a_validation_return_is_good_enough(tmp_path: Path) -> None:
    trainer(tmp_path / "whole").train()
    scores = [r["return"]["mean"] for r in records(tmp_path / "whole", "evaluations.jsonl")]
    first = int(np.argmax(np.array(scores) >= max(scores[:3])))  # reached before the end
    made = trainer(tmp_path / "early", trainer={"stop_at": max(scores[:3])})
    made.train()
    assert made.steps == 100 * first < 300
    made.keeper.run.close()
    again = trainer(tmp_path / "early", trainer={"stop_at": max(scores[:3])})
    again.train()  # nothing is left to do
    assert again.steps == made.steps and again.learner.updates == made.learner.updates


def test_evaluation_does_not_touch_training(tmp_path: Path) -> None:
    often = trainer(tmp_path / "a", trainer={"eval_every": 10, "eval_episodes": 2})
    seldom = trainer(tmp_path / "b", trainer={"eval_every": 300})
    often.train()
    seldom.train()
    assert often.learner.nets.actor.values.equal(seldom.learner.nets.actor.values)
    ours, theirs = (t.replay.take(np.arange(300)) for t in (often, seldom))
    assert ours.obs.tobytes() == theirs.obs.tobytes()


def test_the_same_seed_gives_the_same_run_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trainer(tmp_path / name, seed=seed).train()
    a, b, c = ((tmp_path / n / "metrics.jsonl").read_bytes() for n in "abc")
    assert a == b != c


def test_losses_values_and_returns_are_logged_and_speed_apart(tmp_path: Path) -> None:
    trainer(tmp_path / "r").train()
    named = set().union(*(r.keys() for r in records(tmp_path / "r", "metrics.jsonl")))
    assert {"step", "updates", "collect/return", "critic/loss", "critic/q_mean", "actor/loss"} <= named
    assert {"steps_per_second", "updates_per_second"} <= records(tmp_path / "r", "timing.jsonl")[-1].keys()


def test_the_best_policy_is_the_one_with_the_best_validation_score(tmp_path: Path) -> None:
    from twofold.store.policy_file import unseal

    trainer(tmp_path / "r").train()
    scores = {r["step"]: r["return"]["mean"] for r in records(tmp_path / "r", "evaluations.jsonl")}
    _, about = unseal(tmp_path / "r" / "best.safetensors")
    assert about["score"]["step"] == max(scores, key=lambda s: (scores[s], -s))


def test_the_final_score_is_on_test_seeds_and_leaves_the_last_weights_in_place(tmp_path: Path) -> None:
    made = trainer(tmp_path / "r", trainer={"test_episodes": 2})
    made.train()
    before = made.learner.nets.actor.values.clone()
    assert made.keeper.test(made)["eval"]["return"]["episodes"] == 2
    assert before.equal(made.learner.nets.actor.values)


def test_a_second_validation_on_other_seeds_chooses_among_the_finalists(tmp_path: Path) -> None:
    from twofold.store.policy_file import unseal

    settings = {"eval_every": 50, "finalists": 3, "finalist_episodes": 2}
    finished(trainer(tmp_path / "r", trainer=settings))
    first = {r["step"]: r["return"]["mean"] for r in records(tmp_path / "r", "evaluations.jsonl")}
    best = sorted(first, key=first.__getitem__)[-3:]
    assert {p.stem for p in (tmp_path / "r").glob("finalist_*")} == {f"finalist_{step}" for step in best}
    record = json.loads((tmp_path / "r" / "finalists.json").read_text())
    second = {int(step): score["mean"] for step, score in record["return"].items()}
    assert record["seeds"] == [1_000_001, 1_000_002] and set(second) == set(best)
    assert record["chosen"] == max(second, key=second.__getitem__)
    _, about = unseal(tmp_path / "r" / "best.safetensors")
    assert about["score"]["step"] == record["chosen"]


def test_a_run_that_goes_on_chooses_among_all_its_finalists(tmp_path: Path) -> None:
    settings = {"eval_every": 50, "finalists": 3, "finalist_episodes": 1}
    finished(trainer(tmp_path / "whole", trainer=settings))
    finished(trainer(tmp_path / "parts", trainer=settings | {"steps": 200}))
    finished(trainer(tmp_path / "parts", trainer=settings))
    whole, parts = ((tmp_path / n / "finalists.json").read_bytes() for n in ("whole", "parts"))
    assert whole == parts


def test_all_engines_give_the_same_training_run(tmp_path: Path) -> None:
    made = {}
    for engine in ("auto", "fused", "autograd"):  # auto is the native engine where it was built
        made[engine] = trainer(tmp_path / engine, learner={"engine": engine})
        made[engine].train()
    *ours, theirs = (t.learner.nets.critic.values for t in made.values())
    assert all(float((values - theirs).norm() / theirs.norm()) < 1e-4 for values in ours)


def test_a_run_directory_with_other_settings_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path / "r")
    with pytest.raises(
        UserError, match=r"holds a run with other settings \(learner.gamma: 0.99 there, 0.5 now"
    ):
        trainer(tmp_path / "r", learner={"gamma": 0.5})


def test_a_finished_run_goes_on_for_more_steps_as_if_they_had_been_asked_for_at_once(tmp_path: Path) -> None:
    own = {
        "warmup": 50,
        "eval_every": 100,
        "eval_episodes": 1,
        "test_episodes": 1,
        "tensorboard": False,
        "log_every": 100,
    }
    for name, lengths in (("longer", (200, 400)), ("at once", (400,))):
        for steps in lengths:
            settings = {**SMALL, "trainer": {**own, "steps": steps}}
            api.train("td3", "pendulum", run=tmp_path / name, **settings)
    for log in ("metrics.jsonl", "evaluations.jsonl", "test.json", "config.json"):
        assert (tmp_path / "longer" / log).read_bytes() == (tmp_path / "at once" / log).read_bytes()
    with pytest.raises(UserError, match=r"trainer.steps: 400 there, 200 now"):
        api.train("td3", "pendulum", run=tmp_path / "longer", **{**SMALL, "trainer": {**own, "steps": 200}})


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not a run directory: nothing was touched"):
        trainer(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"
