"""The engine in C against autograd, against itself, and in the learner."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from native_parts import double, needs_native
from parts import ACTIONS, OBS, Networks, batch, small_td3

from twofold.base import tree
from twofold.base.errors import ConfigError
from twofold.core.experience import Transition
from twofold.core.schedules import Schedule
from twofold.core.seeding import Generators
from twofold.learners.config import TD3Config
from twofold.learners.engine import Autograd, Engine
from twofold.learners.fused import FusedTD3
from twofold.learners.native import NativeTD3, refusal
from twofold.learners.nets import Nets
from twofold.learners.td3 import TD3
from twofold.native.library import Library
from twofold.nets import MLP, Twin

pytestmark = needs_native


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return double(tmp_path_factory.mktemp("native"))


class With(Networks):
    """Networks trained by an engine that is made here."""

    def __init__(self, actor: MLP, critic: Twin, built: Library | None) -> None:
        super().__init__(actor, critic)
        self.built = built

    def engine(self, nets: Nets, cfg: TD3Config, rng: np.random.Generator) -> Engine[Any]:
        return Autograd(nets, cfg) if cfg.engine == "autograd" else NativeTD3(nets, cfg, built=self.built)


def learner(
    built: Library | None = None,
    engine: str = "native",
    hidden: tuple[int, ...] = (16, 12),
    activation: str = "relu",
    layer_norm: bool = False,
    actor_norm: bool = False,
    dtype: torch.dtype = torch.float64,
    **settings: Any,
) -> TD3:
    generator = torch.Generator().manual_seed(3)
    shared = {"activation": activation, "generator": generator}
    actor = MLP(3, hidden, 2, output="tanh", layer_norm=actor_norm, **shared)
    critic = Twin(3, 2, hidden, layer_norm=layer_norm, **shared)
    return TD3(
        TD3Config(engine=engine, **settings),
        networks=With(actor.to(dtype), critic.to(dtype), built),
        observation_space=OBS,
        action_space=ACTIONS,
        rngs=Generators(0),
    )


def items(size: int, seed: int, dtype: Any = np.float64) -> Transition:
    """A batch as replay gives it: columns of one block, with discounts of several n and some ends."""
    block = np.random.default_rng(seed).standard_normal((size, 11)).astype(dtype)
    obs, action, next_obs, rest = np.split(block, [3, 5, 8], axis=1)
    action[...] = action.clip(-1, 1)
    rest[:, 1] = rest[:, 1] > 1
    rest[:, 2] = np.where(rest[:, 2] > 0, 0.99, 0.99**3)
    return Transition(obs, action, rest[:, 0], next_obs, rest[:, 1], rest[:, 2])


def after(made: TD3, updates: int, size: int = 32, dtype: Any = np.float64) -> dict[str, Any]:
    for seed in range(updates):
        made.update(items(size, seed, dtype))
        assert made.first_bad() is None
    return {name: np.asarray(leaf) for name, leaf in tree.items(made.state_dict()) if np.ndim(leaf)}


def difference(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest relative to the largest number, of every network and moment."""
    assert ours.keys() == theirs.keys()
    return max(float(np.abs(ours[k] - theirs[k]).max() / np.abs(theirs[k]).max()) for k in ours)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tanh": {"activation": "tanh"},
    "elu": {"activation": "elu"},
    "layer norm": {"layer_norm": True},
    "layer norm, elu": {"layer_norm": True, "activation": "elu"},
    "actor layer norm": {"actor_norm": True, "activation": "tanh"},
    "three layers": {"hidden": (7, 33, 16), "layer_norm": True},
    "one layer": {"hidden": (40,)},
    "no hidden layer": {"hidden": ()},
    "layers of one unit": {"hidden": (1, 1), "activation": "tanh"},
    "Huber": {"huber": 0.5},
    "clipped": {"grad_clip": 0.1},
    "weight decay": {"weight_decay": 0.1},
    "schedules": {
        "lr_decay": Schedule(1.0, 0.1, over=80, per="update"),
        "reward_floor": Schedule(-1.0, per="update"),
        "reward_scale": 0.5,
    },
    "averaged": {"actor_average": 0.9},
    "hard targets": {"tau": 1.0},
    "DDPG": {"twin": False, "policy_delay": 1, "policy_noise": 0},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_hundred_updates_equal_those_of_autograd(
    built: Library, options: dict[str, Any], threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    ours = after(learner(built, **options), 100)
    torch.set_num_threads(before)
    theirs = after(learner(engine="autograd", **options), 100)
    assert difference(ours, theirs) < 1e-5
    assert difference(after(learner(built, **options), 0), theirs) > 1e-3


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_hundred_updates_in_float32_equal_those_of_autograd(activation: str, layer_norm: bool) -> None:
    made = {"activation": activation, "layer_norm": layer_norm, "dtype": torch.float32, "hidden": (64, 64)}
    ours, theirs = (after(learner(engine=e, **made), 100, 64, np.float32) for e in ("native", "autograd"))
    for name in ("actor", "critic", "target_actor", "target_critic"):
        for key in (k for k in ours if k.startswith(f"{name}.")):
            gap = np.linalg.norm(ours[key] - theirs[key]) / np.linalg.norm(theirs[key])
            assert gap < 1e-4, key


@pytest.mark.parametrize("size", [1, 2, 7, 100, 130, 300])
def test_batches_of_any_size_are_served(built: Library, size: int) -> None:
    options = {"hidden": (16, 12), "layer_norm": True}
    ours, theirs = learner(built, **options), learner(engine="autograd", **options)
    assert difference(after(ours, 4, size), after(theirs, 4, size)) < 1e-9
    assert ours.metrics() == pytest.approx(theirs.metrics(), rel=1e-9)


def test_bytes_are_the_same_with_one_thread_with_two_and_again() -> None:
    found = []
    before = torch.get_num_threads()
    for threads in (1, 2, 2, 1):
        torch.set_num_threads(threads)
        made = learner(hidden=(256, 256), layer_norm=True, grad_clip=1.0, dtype=torch.float32)
        found.append(after(made, 12, 256, np.float32))
    torch.set_num_threads(before)
    assert all(tree.equal(found[0], other) for other in found[1:])


def test_gradients_overwrite_those_of_the_batch_before(built: Library) -> None:
    made, given = learner(built, layer_norm=True), items(8, 0)
    grads = []
    for _ in range(2):
        seen = made.engine.tensors(given)
        made.engine.critic_gradients(seen, seen.reward)
        made.engine.actor_gradients(seen)
        grads.append(torch.cat([made.nets.critic.grads, made.nets.actor.grads]))
    assert torch.equal(grads[0], grads[1])


def test_the_actor_step_leaves_critic_gradients_and_values_alone(built: Library) -> None:
    made = learner(built)
    seen = made.engine.tensors(items(8, 0))
    made.engine.critic_gradients(seen, seen.reward)
    grads, values = made.nets.critic.grads.clone(), made.engine.values.clone()
    made.engine.actor_gradients(seen)
    assert torch.equal(made.nets.critic.grads, grads) and torch.equal(made.engine.values, values)


def test_target_of_a_terminated_row_is_its_reward(built: Library) -> None:
    made, given = learner(built), items(4, 0)
    seen = made.engine.tensors(replace(given, terminated=np.ones(4)))
    assert torch.equal(made.engine.target(seen, seen.reward, None), seen.reward)


@pytest.mark.parametrize("field", ["obs", "next_obs", "reward", "action"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "elu"])
def test_what_is_not_finite_in_a_batch_is_seen(activation: str, field: str) -> None:
    made, given = learner(activation=activation, dtype=torch.float32), items(8, 0, np.float32)
    getattr(given, field)[3] = np.nan
    made.update(given)
    assert made.first_bad() == "critic loss"


def test_observations_of_another_type_are_read_anew_in_every_update() -> None:
    one, other = (learner(dtype=torch.float32) for _ in range(2))
    wide, narrow = items(16, 0, np.float64), items(16, 0, np.float32)
    for seed in range(3):
        for name, leaf in tree.items(items(16, seed, np.float32)):
            getattr(wide, name)[...] = leaf
            getattr(narrow, name)[...] = leaf
        one.update(wide)
        other.update(narrow)
    assert torch.equal(one.nets.actor.values, other.nets.actor.values)


def test_a_forked_child_can_go_on_alone() -> None:
    program = (
        "import os, torch; from parts import batch, small_td3\n"
        "torch.set_num_threads(2); made = small_td3(engine='native'); made.update(batch(64))\n"
        "child = os.fork()\n"
        "made.update(batch(64, seed=1))\n"
        "if child: assert os.waitpid(child, 0)[1] == 0\n"
        "else: del made; os._exit(0)\n"
    )
    here = Path(__file__).parents[1]
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, cwd=here)


# ---- in the learner ----


def test_what_it_cannot_do_is_refused_by_name_and_left_to_another_engine() -> None:
    generator = torch.Generator()
    actor, critic = (
        MLP(3, [8], 2, output="tanh", generator=generator),
        Twin(3, 2, [8], generator=generator),
    )

    def reason(actor: Any, critic: Any) -> str:
        return str(refusal(Nets.of(actor, critic, averaged=False)))

    assert reason(actor, critic) == "None"
    assert "plain MLPs, not Linear" in reason(torch.nn.Linear(3, 2), critic)
    assert "output tanh, not linear" in reason(MLP(3, [8], 2, generator=generator), critic)
    gelu = Twin(3, 2, [8], activation="gelu", generator=generator)
    assert "relu, tanh, elu, not gelu" in reason(actor, gelu)
    assert "at most 7 hidden layers, not 8" in reason(actor, Twin(3, 2, [4] * 8, generator=generator))
    assert "what the actor sees" in reason(actor, Twin(4, 2, [8], generator=generator))
    assert "not torch.float64" in reason(actor.double(), critic.double())
    nets = Nets.of(MLP(3, [8], 2, output="tanh", generator=generator), gelu, averaged=False)
    with pytest.raises(ConfigError, match=r"learner\.engine=native has the activations .* use engine=auto"):
        NativeTD3(nets, TD3Config())
    assert isinstance(Networks(nets.actor.module, gelu).engine(nets, TD3Config(), None), FusedTD3)


def test_where_it_was_not_built_auto_does_without_and_native_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(small_td3().engine, NativeTD3)
    for place in ("choice", "native"):
        monkeypatch.setattr(f"twofold.learners.{place}.absent", lambda: "it was not built: install")
    assert isinstance(small_td3().engine, FusedTD3)
    with pytest.raises(ConfigError, match=r"learner\.engine=native.* it was not built"):
        small_td3(engine="native")


def test_a_resumed_learner_keeps_the_engine_it_began_with_unless_asked() -> None:
    began, asked = small_td3(engine="fused"), small_td3(engine="native")
    began.update(batch(8))
    state = began.state_dict()
    resumed = small_td3()
    resumed.load_state_dict(state)
    assert isinstance(resumed.engine, FusedTD3) and resumed.engine.nets is resumed.nets
    asked.load_state_dict(state)
    assert isinstance(asked.engine, NativeTD3)
    old = {name: value for name, value in state.items() if name != "engine"}
    resumed = small_td3()
    resumed.load_state_dict(old)  # of a checkpoint from before there was a native engine
    assert isinstance(resumed.engine, FusedTD3)


@pytest.mark.parametrize("order", [("fused", "native"), ("native", "autograd"), ("native", "fused")])
def test_engines_may_change_between_resumes(order: tuple[str, str]) -> None:
    whole, first, second = (small_td3(engine=e) for e in ("autograd", *order))
    for i in range(40):
        whole.update(batch(16, seed=i))
    for i in range(20):
        first.update(batch(16, seed=i))
    second.load_state_dict(first.state_dict())
    second.rng.bit_generator.state = first.rng.bit_generator.state
    for i in range(20, 40):
        second.update(batch(16, seed=i))
    for name in ("actor", "critic", "target_actor", "target_critic"):
        ours, theirs = (getattr(made.nets, name).values for made in (second, whole))
        assert torch.allclose(ours, theirs, atol=1e-5)
