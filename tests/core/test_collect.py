from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pytest
from parts import ACTIONS, OBS, Counter, batch

from twofold.base.errors import NonFiniteError
from twofold.core.collect import Collector, EarlyLimit
from twofold.core.experience import Transition
from twofold.core.replay import Ring
from twofold.core.seeding import TEST, VALIDATION, episode_seed
from twofold.core.writers import TransitionWriter
from twofold.rows.envs import EnvRows


class Scripted:
    """A policy that says whether its action was drawn at random."""

    def __init__(self) -> None:
        self.resets: list[Any] = []

    def reset(self, rows: Any) -> None:
        self.resets.append(rows.copy())

    def act(self, obs: Any) -> Any:
        return np.zeros((len(obs), 2), np.float32)

    def random(self, obs: Any) -> Any:
        return np.ones((len(obs), 2), np.float32)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


def refuse(name: str, *, at: str, evidence: dict[str, Any]) -> NoReturn:
    raise NonFiniteError(f"{name} is not finite {at} among {sorted(evidence)}")


def collector(
    env: Any = Counter, rows: int = 1, warmup: int = 0, seed: int = 0, early: EarlyLimit | None = None
) -> Collector[Transition]:
    writer = TransitionWriter(rows, OBS, ACTIONS, n_step=1, gamma=0.99)
    replay = Ring(100, batch(0), np.random.default_rng(0))
    made = Collector(
        EnvRows(env, rows),
        Scripted(),
        writer,
        replay,
        seed=seed,
        warmup=warmup,
        refuse=refuse,
        early=early,
    )
    made.start()
    return made


def test_warm_up_counts_world_steps_and_then_the_policy_acts() -> None:
    made = collector(rows=2, warmup=6)
    for _ in range(5):
        made.step()
    assert made.replay.take(np.arange(10)).action[:, 0].tolist() == [1] * 6 + [0] * 4


def test_a_time_limit_is_stored_as_not_terminated_with_the_true_next_observation() -> None:
    made = collector(lambda: Counter(3, terminates=False))
    for _ in range(4):
        made.step()
    items = made.replay.take(np.arange(4))
    assert items.terminated.tolist() == [0, 0, 0, 0]
    assert items.next_obs[:, 1].tolist() == [1, 2, 3, 1]
    assert items.obs[:, 1].tolist() == [0, 1, 2, 0]


def test_an_early_limit_cuts_episodes_until_its_step_and_is_no_termination() -> None:
    made = collector(lambda: Counter(5, terminates=True), early=EarlyLimit(steps=2, until=5))
    for _ in range(11):
        made.step()
    items = made.replay.take(np.arange(11))
    # Cut after 2 and 4 steps of the run; at step 5 the limit is over, and the third episode is as long as the world's.
    assert items.obs[:, 1].tolist() == [0, 1, 0, 1, 0, 1, 2, 3, 4, 0, 1]
    assert items.next_obs[:, 1].tolist() == [1, 2, 1, 2, 1, 2, 3, 4, 5, 1, 2]
    assert items.terminated.tolist() == [0] * 8 + [1, 0, 0]
    # Only the world knows who won, and only of the episode that it ended itself.
    assert [sorted(episode) for episode in made.finished] == [["length", "return"]] * 2 + [
        ["length", "return", "won"]
    ]
    assert made.drain() == {"collect/return": 3.0, "collect/length": 3.0, "collect/won": 1.0}


def test_an_episode_that_ends_at_the_early_limit_itself_is_the_worlds() -> None:
    made = collector(lambda: Counter(2, terminates=True), early=EarlyLimit(steps=2, until=100))
    for _ in range(2):
        made.step()
    assert made.replay.take(np.arange(2)).terminated.tolist() == [0, 1]
    assert made.finished[0]["won"] == 1.0


def test_a_real_end_is_stored_as_terminated_whatever_its_reward() -> None:
    made = collector(lambda: Counter(2, terminates=True))
    for _ in range(2):
        made.step()
    assert made.replay.take(np.arange(2)).terminated.tolist() == [0, 1]


def test_every_episode_gets_a_seed_of_its_own_that_meets_no_evaluation_seed() -> None:
    seeds = {episode_seed(run, row, n) for run in range(3) for row in range(4) for n in range(50)}
    assert len(seeds) == 600
    assert min(seeds) > TEST + 1_000_000 > VALIDATION
    made = collector(lambda: Counter(1))
    starts = set()
    for _ in range(5):
        starts.add(float(made.obs[0, 0]))
        made.step()
    assert len(starts) == 5


def test_finished_episodes_report_return_length_and_the_worlds_metrics() -> None:
    made = collector(lambda: Counter(4), rows=2)
    for _ in range(4):
        made.step()
    assert made.drain() == {"collect/return": 4.0, "collect/length": 4.0, "collect/won": 1.0}
    assert made.drain() == {}


@pytest.mark.parametrize("where", ["obs", "reward"])
def test_a_nan_from_the_world_stops_with_the_tensor_named_and_the_arrays_handed_over(where: str) -> None:
    class Broken(Counter):
        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            bad = float("nan") if self.steps == 2 else 0.0
            return (
                (obs + bad, reward, *(terminated, truncated, info))
                if where == "obs"
                else (obs, reward + bad, terminated, truncated, info)
            )

    made = collector(Broken)
    made.step()
    with pytest.raises(
        NonFiniteError,
        match=rf"^{where} of row 0 is not finite at step 1 among .*'{'next_obs' if where == 'obs' else where}'",
    ):
        made.step()
    assert made.replay.added == 1


def test_a_million_finished_episodes_fit_into_a_checkpoint() -> None:
    made = collector(lambda: Counter(1))
    made.finished = [{"return": float(i), "won": 1.0} for i in range(1000)] + [{"return": 2.0}]
    state = made.state_dict()["finished"]
    assert set(state) == {"return", "won"} and state["return"].shape == (1001,)
    wanted = made.drain()
    again = collector(lambda: Counter(1))
    again.load_state_dict(made.state_dict() | {"finished": state})
    assert str(again.drain()) == str(wanted)
