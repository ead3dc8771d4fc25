"""One TD3 of one library on HalfCheetah-v5, timed from inside the environment; called by bench.py.

    python benchmarks/bench_systems.py stable-baselines3 --threads 2

Runs in the venv of the library it measures, so it imports none of them before it is told which. All have
256-256 networks, batches of 256, learning rate 3e-4, a policy delay of 2, one update for each step, a replay of
a million, random steps at first, TensorBoard on, evaluation off; everything else is the library's own default.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import bench_checkouts
import gymnasium as gym
from updates import machine_seconds

ENVIRONMENT = "HalfCheetah-v5"
CLOCKED = "ClockedHalfCheetah-v5"
HIDDEN, BATCH, LEARNING_RATE, DELAY, REPLAY, NOISE = (256, 256), 256, 3e-4, 2, 1_000_000, 0.1
FOREVER = 100_000_000
EPISODE = 1_000  # steps of HalfCheetah


@dataclass(frozen=True)
class Window:
    """Which part of the training is timed."""

    warmup: int = 1_000  # random steps, without updates
    skip: int = 300  # learning steps before the clock starts: compilation, allocation
    steps: int = 1_000  # at least so many are timed: a whole episode, a reset and our log line are in it
    seconds: float = 5.0  # ... and for at least so long

    def __post_init__(self) -> None:
        if self.warmup + self.skip < EPISODE:
            raise ValueError("the clock would start within our first evaluation, which is one episode")


@dataclass(frozen=True)
class Timing:
    """What the clock saw."""

    steps: int
    seconds: float
    steps_per_second: float
    steps_per_cpu_second: float  # by the processor time of this process: hardly touched by busy neighbours
    own_cores: float  # processor time of this process, all threads, for each second
    others_cores: float  # the same of everything else on the machine


class Finished(BaseException):
    """Ends the training from inside the environment; no library catches it."""

    def __init__(self, timing: Timing) -> None:
        super().__init__(timing)
        self.timing = timing


class Clock(gym.Wrapper):
    """Times the steps of a training from the first one after the window opens."""

    def __init__(self, env: gym.Env, window: Window) -> None:
        super().__init__(env)
        self.window, self.steps, self.start = window, 0, 0.0

    def step(self, action: Any) -> Any:
        timed = self.steps - self.window.warmup - self.window.skip
        if timed == 0:
            self.start, self.own, self.machine = time.perf_counter(), time.process_time(), machine_seconds()
        elif timed >= self.window.steps and time.perf_counter() - self.start >= self.window.seconds:
            raise Finished(self._timing(timed))
        self.steps += 1
        return self.env.step(action)

    def _timing(self, steps: int) -> Timing:
        seconds, own = time.perf_counter() - self.start, time.process_time() - self.own
        others = machine_seconds() - self.machine - own
        return Timing(steps, seconds, steps / seconds, steps / own, own / seconds, max(0.0, others) / seconds)


def register(window: Window) -> None:
    """The clocked environment under a name of its own, so that every library can make it as it likes."""
    gym.register(CLOCKED, entry_point=partial(_clocked, window))


def _clocked(window: Window, **settings: Any) -> gym.Env:
    return Clock(gym.make(ENVIRONMENT, disable_env_checker=True, **settings), window)


def make() -> gym.Env:
    """The environment for the libraries that take an instance; like ours, without Gymnasium's passive checks."""
    return gym.make(CLOCKED, disable_env_checker=True)


def twofold(threads: int, window: Window, folder: str) -> None:
    _ours(
        "td3",
        threads,
        window,
        folder,
        learner={"actor_lr": LEARNING_RATE, "critic_lr": LEARNING_RATE, "policy_delay": DELAY},
        networks={"actor_hidden": HIDDEN, "critic_hidden": HIDDEN},
        replay={"buffer_size": REPLAY, "batch_size": BATCH},
    )


def twofold_plus(threads: int, window: Window, folder: str) -> None:
    # All that learns does so from the start, as it does for the most of a run.
    _ours("td3_plus", threads, window, folder, learner={"actor_after": 0})


def _ours(preset: str, threads: int, window: Window, folder: str, **settings: Any) -> None:
    from twofold import api

    api.train(
        preset,
        "halfcheetah",
        run=os.path.join(folder, "run"),
        threads=threads,
        env_args={"id": CLOCKED},
        # The untrained policy is always evaluated: one episode, in a world of its own, before the clock starts.
        trainer={"steps": FOREVER, "warmup": window.warmup, "eval_every": FOREVER, "eval_episodes": 1},
        **settings,
    )


def stable_baselines3(threads: int, window: Window, folder: str) -> None:
    import torch
    from stable_baselines3 import TD3

    torch.set_num_threads(threads)
    model = TD3("MlpPolicy", make(), policy_delay=DELAY, device="cpu", **_sb3_settings(window, folder))
    model.learn(FOREVER)


def sbx(threads: int, window: Window, folder: str) -> None:
    import torch
    from sbx import TD3

    torch.set_num_threads(threads)  # its replay hands out torch tensors; JAX takes as many cores as it may
    model = TD3("MlpPolicy", make(), policy_delay=DELAY, **_sb3_settings(window, folder))
    model.learn(FOREVER)


def sbx_sac(threads: int, window: Window, folder: str) -> None:
    import torch
    from sbx import SAC

    torch.set_num_threads(threads)
    model = SAC(
        "MlpPolicy", make(), qf_learning_rate=1e-3, learning_starts=window.warmup, tensorboard_log=folder
    )
    model.learn(FOREVER)


def _sb3_settings(window: Window, folder: str) -> dict[str, Any]:
    import numpy as np
    from stable_baselines3.common.noise import NormalActionNoise

    return {
        "learning_rate": LEARNING_RATE,
        "buffer_size": REPLAY,
        "learning_starts": window.warmup,
        "batch_size": BATCH,
        "train_freq": 1,
        "gradient_steps": 1,
        "action_noise": NormalActionNoise(np.zeros(6), np.full(6, NOISE)),
        "policy_kwargs": {"net_arch": list(HIDDEN)},
        "tensorboard_log": folder,
        "seed": 0,
    }


def tianshou(threads: int, window: Window, folder: str) -> None:
    import torch
    from tianshou.data import Collector, ReplayBuffer
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils import TensorboardLogger
    from torch.utils.tensorboard import SummaryWriter

    torch.set_num_threads(threads)
    env = make()
    algorithm = _tianshou_algorithm(env)
    collector = Collector(algorithm, env, ReplayBuffer(REPLAY), exploration_noise=True)
    collector.reset()
    collector.collect(n_step=window.warmup, random=True)
    algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            max_epochs=1,
            epoch_num_steps=FOREVER,
            collection_step_num_env_steps=1,
            update_step_num_gradient_steps_per_sample=1.0,
            batch_size=BATCH,
            logger=TensorboardLogger(SummaryWriter(folder)),
            show_progress=False,
        )
    )


def _tianshou_algorithm(env: gym.Env) -> Any:
    from tianshou.algorithm import TD3
    from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.exploration import GaussianNoise
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorDeterministic, ContinuousCritic

    obs, action = env.observation_space.shape, env.action_space.shape
    body = Net(state_shape=obs, hidden_sizes=HIDDEN)
    policy = ContinuousDeterministicPolicy(
        actor=ContinuousActorDeterministic(preprocess_net=body, action_shape=action),
        exploration_noise=GaussianNoise(sigma=NOISE),
        action_space=env.action_space,
    )
    critics = [
        ContinuousCritic(
            preprocess_net=Net(state_shape=obs, action_shape=action, hidden_sizes=HIDDEN, concat=True)
        )
        for _ in range(2)
    ]
    adam = partial(AdamOptimizerFactory, lr=LEARNING_RATE)
    return TD3(
        policy=policy,
        policy_optim=adam(),
        critic=critics[0],
        critic_optim=adam(),
        critic2=critics[1],
        critic2_optim=adam(),
        update_actor_freq=DELAY,
    )


def cleanrl(script: str, threads: int, window: Window, folder: str, checkout: str) -> None:
    settings = {
        "env_id": CLOCKED,
        "total_timesteps": FOREVER,
        "learning_rate": LEARNING_RATE,
        "buffer_size": REPLAY,
        "batch_size": BATCH,
        "learning_starts": window.warmup,
        "policy_frequency": DELAY,
        "exploration_noise": NOISE,
    }
    bench_checkouts.cleanrl(checkout, script, threads, settings, folder)


def authors(threads: int, window: Window, folder: str, checkout: str) -> None:
    bench_checkouts.authors(checkout, make(), threads, BATCH, window.warmup, NOISE)


SYSTEMS: dict[str, Callable[[int, Window, str], None]] = {
    "twofold": twofold,
    "stable-baselines3": stable_baselines3,
    "sbx-rl": sbx,
    "tianshou": tianshou,
}
# Other algorithms, which sac.py compares.
OTHERS: dict[str, Callable[[int, Window, str], None]] = {"twofold-plus": twofold_plus, "sbx-sac": sbx_sac}
# Measured where a checkout is given: the name of the checkout, and what runs it.
CHECKOUTS: dict[str, tuple[str, Callable[[int, Window, str, str], None]]] = {
    "cleanrl": ("cleanrl", partial(cleanrl, "td3_continuous_action.py")),
    "cleanrl-jax": ("cleanrl", partial(cleanrl, "td3_continuous_action_jax.py")),
    "td3-authors": ("td3", authors),
}


def run(name: str, threads: int, window: Window, checkout: str | None) -> dict[str, Any]:
    """Train until the clock ends it."""
    register(window)
    with tempfile.TemporaryDirectory() as folder:
        try:
            if checkout is None:
                (SYSTEMS | OTHERS)[name](threads, window, folder)
            else:
                CHECKOUTS[name][1](threads, window, folder, os.path.abspath(checkout))
        except Finished as finished:
            return asdict(finished.timing) | {"versions": versions()}
    raise RuntimeError(f"{name} ended before its clock")


def versions() -> dict[str, str]:
    """Of what the speed depends on and is installed here."""
    wanted = ("torch", "jax", "numpy", "gymnasium", "mujoco", "stable-baselines3", "sbx-rl", "tianshou")
    installed = {
        d.metadata["Name"].lower().replace("_", "-"): d.version for d in importlib.metadata.distributions()
    }
    return {name: installed[name] for name in wanted if name in installed}


def main() -> None:
    """Parse, place, run, print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("system", choices=[*SYSTEMS, *OTHERS, *CHECKOUTS])
    parser.add_argument("--checkout", help="folder of a code that is no package")
    parser.add_argument("--threads", type=int, default=1)
    for field, value in asdict(Window()).items():
        parser.add_argument(f"--{field}", type=type(value), default=value)
    given = vars(parser.parse_args())
    name, threads, checkout = given.pop("system"), given.pop("threads"), given.pop("checkout")
    if hasattr(os, "sched_setaffinity"):  # JAX sizes its pool by the CPUs it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    with contextlib.redirect_stdout(sys.stderr):  # what a library prints is no result
        found = run(name, threads, Window(**given), checkout)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
