"""The Python side: train, iterate, load_run, policies on batches, check_env."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from parts import Counter

import twofold
from twofold.base.errors import UserError
from twofold.rows.check import check_world
from twofold.store.policy_file import zoo_path

SHORT: dict[str, Any] = {
    "trainer": {
        "steps": 60,
        "warmup": 20,
        "log_every": 10,
        "eval_every": 30,
        "eval_episodes": 1,
        "test_episodes": 1,
        "tensorboard": False,
    },
    "replay": {"batch_size": 8, "buffer_size": 200},
    "networks": {"actor_hidden": [8], "critic_hidden": [8]},
}


def steps(count: int) -> dict[str, Any]:
    return SHORT | {"trainer": SHORT["trainer"] | {"steps": count}}


def test_what_is_public_is_what_dir_shows() -> None:
    shown = set(dir(twofold))
    assert {"train", "iterate", "load_run", "load_policy", "check_env", "__version__"} <= shown
    assert not {"Any", "TYPE_CHECKING", "annotations"} & shown
    assert all(getattr(twofold, name) is not None for name in twofold.__all__)


# ---- what `env` may be ----


def test_a_class_is_trained_on_and_loaded_again(tmp_path: Path) -> None:
    run = twofold.train(env=Counter, run=tmp_path / "r", **SHORT)
    assert run.settings["env_args.id"] == "python:parts.Counter"
    assert run.test["eval"]["return"]["mean"] == 5.0  # one for each of five steps
    again = twofold.load_run(tmp_path / "r", env=Counter)
    assert again.test["eval"]["return"]["mean"] == 5.0 and again.finished and again.step == 60


def test_a_function_is_trained_on(tmp_path: Path) -> None:
    def short() -> gym.Env[Any, Any]:
        return Counter(length=3)

    assert twofold.train(env=short, run=tmp_path / "r", **SHORT).test["eval"]["length"]["mean"] == 3


def test_a_gymnasium_id_is_trained_on_and_names_the_folder(tmp_path: Path) -> None:
    run = twofold.train(env="Pendulum-v1", runs=tmp_path, **SHORT)
    assert run.settings["env_args.id"] == "Pendulum-v1" and run.folder.parent.name == "Pendulum-v1"


def test_a_misspelt_id_names_the_right_one() -> None:
    with pytest.raises(UserError, match="did you mean 'Pendulum-v1'"):
        twofold.check_env("Pendulm-v1")


def test_an_environment_without_an_end_is_cut_where_the_settings_say(tmp_path: Path) -> None:
    class Endless(Counter):
        def __init__(self) -> None:
            super().__init__(length=10**9)

    settings = SHORT | {"env_args": {"max_episode_steps": 7}}
    run = twofold.train(env=Endless, run=tmp_path / "r", **settings)
    assert run.test["eval"]["length"]["mean"] == 7


def test_one_environment_cannot_be_trained_and_evaluated_at_once() -> None:
    with pytest.raises(UserError, match=r"env=Counter or env=lambda: Counter\(\.\.\.\)"):
        twofold.train(env=Counter())  # type: ignore[arg-type]


def test_an_environment_that_is_not_here_any_more_is_asked_for(tmp_path: Path) -> None:
    run = twofold.train(env=Counter, run=tmp_path / "r", **SHORT)
    text = (run.folder / "config.json").read_text().replace("parts.Counter", "elsewhere.Lost")
    (run.folder / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"twofold\.load_run\(PATH, env=Lost\)"):
        twofold.load_run(run.folder).resume(steps=80)


def test_what_no_file_defines_is_not_sent_to_worker_processes(tmp_path: Path) -> None:
    many = SHORT | {"trainer": SHORT["trainer"] | {"rows": 2, "workers": 2}}
    with pytest.raises(UserError, match=r"trainer\.workers=0"):
        twofold.train(env=lambda: Counter(), run=tmp_path / "r", **many)


# ---- runs ----


def same_files(one: Path, other: Path) -> bool:
    names = ("metrics.jsonl", "evaluations.jsonl", "best.safetensors", "test.json")
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_a_loop_that_was_left_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    twofold.train(env=Counter, run=tmp_path / "whole", **SHORT)
    for now in twofold.iterate(env=Counter, run=tmp_path / "cut", **SHORT):
        if now.step == 30:
            break
    assert twofold.load_run(tmp_path / "cut").step == 30
    moments = list(twofold.iterate(env=Counter, run=tmp_path / "cut", **SHORT))
    assert [now.step for now in moments] == [40, 50, 60]
    assert same_files(tmp_path / "whole", tmp_path / "cut")


def test_a_moment_says_where_the_training_is(tmp_path: Path) -> None:
    moments = list(twofold.iterate(env=Counter, run=tmp_path / "r", **SHORT))
    assert [now.step for now in moments] == [0, 10, 20, 30, 40, 50, 60] and moments[-1].total == 60
    assert moments[-1].best == 5.0 and moments[-1].scores["eval"]["return"]["episodes"] == 1
    assert moments[-1].metrics["updates"] == 41
    assert moments[-1].policy.act(np.zeros((4, 3))).shape == (4, 2)


def test_between_two_moments_torch_and_signals_are_the_callers(tmp_path: Path) -> None:
    before, mine = torch.get_num_threads(), signal.getsignal(signal.SIGINT)
    torch.set_num_threads(2)
    tiny = torch.tensor([1e-310], dtype=torch.float64)
    torch.set_flush_denormal(False)
    try:
        for _ in twofold.iterate(env=Counter, run=tmp_path / "r", **SHORT):
            assert torch.get_num_threads() == 2 and signal.getsignal(signal.SIGINT) is mine
            assert float(tiny * 1.0) != 0.0
    finally:
        torch.set_num_threads(before)


def test_a_run_gives_its_metrics_as_arrays(tmp_path: Path) -> None:
    run = twofold.train(env=Counter, run=tmp_path / "r", **SHORT)
    metrics, curve = run.metrics(), run.evaluations()
    assert metrics["step"].tolist() == [0, 10, 20, 30, 40, 50, 60]
    assert metrics["updates"][-1] == 41 and np.isnan(metrics["critic/loss"][0])
    assert curve["step"].tolist() == [0, 30, 60] and curve["return"].tolist() == [5.0, 5.0, 5.0]
    assert run.evaluations(what="std")["return"].tolist() == [0.0, 0.0, 0.0]


def test_a_run_gives_its_metrics_as_a_data_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is optional")
    run = twofold.train(env=Counter, run=tmp_path / "r", **SHORT)
    assert run.metrics().frame().set_index("step")["updates"][60] == 41


def test_a_loaded_run_resumes_for_more_steps(tmp_path: Path) -> None:
    twofold.train(env=Counter, run=tmp_path / "whole", **steps(90))
    twofold.train(env=Counter, run=tmp_path / "longer", **SHORT)
    run = twofold.load_run(tmp_path / "longer").resume(steps=90)
    assert run.step == 90 and run.finished
    assert json.loads((tmp_path / "longer" / "test.json").read_text())["step"] == 90
    assert run.metrics()["step"][-1] == 90


def test_a_run_is_not_made_shorter(tmp_path: Path) -> None:
    run = twofold.train(env=Counter, run=tmp_path / "r", **SHORT)
    with pytest.raises(UserError, match=r"trainer\.steps"):
        run.resume(steps=30)


def test_a_run_films_its_policy(tmp_path: Path) -> None:
    run = twofold.train(env="Pendulum-v1", run=tmp_path / "r", **SHORT)
    assert run.video(tmp_path / "film.mp4").stat().st_size > 1_000


# ---- policies ----


def test_a_batch_is_acted_on_as_its_rows_are() -> None:
    policy = twofold.load_policy(zoo_path("hopper"))
    obs = np.random.default_rng(0).standard_normal((5, 11))
    together = policy.act(obs)
    assert together.shape == (5, 3)
    assert np.allclose(together, [policy.act(row) for row in obs], atol=1e-6)


def test_predict_is_what_stable_baselines_users_know() -> None:
    policy = twofold.load_policy(zoo_path("hopper"))
    obs = np.zeros(11, np.float32)
    action, state = policy.predict(obs, deterministic=True)
    assert np.array_equal(action, policy.act(obs))
    again, _ = policy.predict(obs, state=state, episode_start=np.array([True]))
    assert np.array_equal(again, action)


def test_a_policy_that_is_saved_acts_the_same(tmp_path: Path) -> None:
    policy = twofold.load_policy(zoo_path("hopper"))
    other = twofold.load_policy(policy.save(tmp_path / "copy.safetensors"))
    assert np.array_equal(policy.act(np.ones(11)), other.act(np.ones(11)))


def team_policy(tmp_path: Path) -> twofold.LoadedPolicy:
    small = SHORT | {"networks": {"hidden": 8}, "replay": {"batch_size": 2, "buffer_size": 20}}
    small["trainer"] = SHORT["trainer"] | {"warmup": 0}
    return twofold.train("iql", "two_step", run=tmp_path / "team", **small).policy


def test_a_team_remembers_every_row_of_a_batch_since_its_reset(tmp_path: Path) -> None:
    policy = team_policy(tmp_path)
    space = policy.observation_space
    space.seed(1)
    first, second = space.sample(), space.sample()
    batch = {name: np.stack([first[name], second[name]]) for name in first}
    assert policy.act(batch).shape == (2, *policy.action_space.shape)
    hidden = np.array(policy.policy.state_dict()["hidden"])
    assert hidden.any() and policy.rows == 2
    policy.reset(2)
    assert not np.array(policy.policy.state_dict()["hidden"]).any()
    assert policy.act(first).shape == policy.action_space.shape and policy.rows == 1


def test_predict_hands_the_memory_of_a_team_over(tmp_path: Path) -> None:
    policy = team_policy(tmp_path)
    obs = policy.observation_space.sample()
    _, state = policy.predict(obs)
    kept = np.array(state["hidden"])
    policy.predict(obs, state=state)  # must not change what was handed out
    assert np.array_equal(kept, np.array(state["hidden"])) and kept.any()


# ---- checking ----


def test_an_environment_is_checked_as_object_class_function_and_id() -> None:
    made = Counter()
    for env in (made, Counter, lambda: Counter(length=3), "Pendulum-v1", "pendulum"):
        assert twofold.check_env(env) == []
    made.reset(seed=1)  # it is still its owner's


def test_check_env_says_what_is_wrong() -> None:
    class Unseeded(Counter):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            obs, info = super().reset(seed=seed)
            return obs + np.random.random(), info

    assert "function of (seed, actions)" in twofold.check_env(Unseeded)[0]


class Forgetful(VectorEnv):
    """Keeps nothing of the contract that can be seen from outside."""

    num_envs, single_observation_space = 2, Box(-1, 1, (3,), np.float32)
    single_action_space = Box(0, 5, (1,), np.float32)


def test_a_world_that_breaks_the_contract_is_told_how_to_keep_it() -> None:
    said = "\n".join(twofold.check_env(Forgetful()))
    assert "the method snapshot is missing" in said and "the method restore is missing" in said
    assert "AutoresetMode.DISABLED" in said
    assert "Box(0.0, 5.0, (1,), float32)" in said and "[-1, 1]" in said


def test_a_world_that_resets_itself_is_refused() -> None:
    class Selfish(Forgetful):
        metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        single_action_space = Box(-1, 1, (1,), np.float32)

        def snapshot(self) -> dict[str, Any]:
            return {}

        def restore(self, snapshot: dict[str, Any]) -> None:
            """Nothing to take back."""

    assert check_world(Selfish()) and "wait at the end" in check_world(Selfish())[0]  # type: ignore[arg-type]


# ---- as others see it ----


def test_a_world_is_a_plain_environment_for_the_tools_of_others() -> None:
    from gymnasium.utils.env_checker import check_env as gymnasium_checks

    env = twofold.make_env("pendulum")
    gymnasium_checks(env, skip_render_check=True)
    assert env.action_space.high.tolist() == [2.0]  # type: ignore[attr-defined]
    theirs = gym.make("Pendulum-v1")
    ours, other = env.reset(seed=3)[0], theirs.reset(seed=3)[0]
    for _ in range(5):
        assert np.allclose(ours, other, atol=1e-5)
        ours, other = env.step(np.array([0.7], np.float32))[0], theirs.step(np.array([0.7], np.float32))[0]


def test_a_team_is_a_plain_environment_too() -> None:
    env = twofold.make_env("two_step")
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
    assert isinstance(reward, float) and isinstance(terminated, bool) and isinstance(truncated, bool)
