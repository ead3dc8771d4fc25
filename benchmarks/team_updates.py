"""QMIX updates against the pure matrix products of the same update, on one thread, interleaved.

python benchmarks/team_updates.py -> benchmarks/results/team/team_updates.{json,md}
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import torch

from twofold.core.seeding import Generators
from twofold.team.agents import AgentsConfig, TeamNetworks
from twofold.team.episodes import Episode
from twofold.team.learner import QConfig, QLearner
from twofold.team.worlds.space import TeamShape, team_space

RESULTS = Path(__file__).resolve().parent / "results" / "team"
BATCH = 32


@dataclass(frozen=True)
class Size:
    name: str
    shape: TeamShape
    hidden: int


SIZES = [
    Size("LBF 8x8: 2 agents, 50 steps, GRU 128", TeamShape(2, 12, 24, 6, 50, False), 128),
    Size("skirmish 8m: 8 agents, 60 steps, GRU 64", TeamShape(8, 80, 168, 14, 60, False), 64),
]


def episodes(shape: TeamShape) -> Episode:
    """A batch of full-length random episodes."""
    rng = np.random.default_rng(0)
    time_shape = (BATCH, shape.limit + 1)
    obs = {
        "obs": rng.normal(size=(*time_shape, shape.agents, shape.obs)).astype(np.float32),
        "state": rng.normal(size=(*time_shape, shape.state)).astype(np.float32),
        "avail": np.ones((*time_shape, shape.agents, shape.actions), np.uint8),
        "step": np.zeros(time_shape, np.int32),
    }
    action = rng.integers(0, shape.actions, (BATCH, shape.limit, shape.agents)).astype(np.int16)
    flags = np.zeros((BATCH, shape.limit), np.uint8)
    return Episode(obs, action, rng.normal(size=flags.shape).astype(np.float32), flags, np.ones_like(flags))


def learner(size: Size) -> QLearner:
    space = team_space(size.shape)
    actions = gym.spaces.MultiDiscrete([size.shape.actions] * size.shape.agents)
    nets = TeamNetworks(AgentsConfig(hidden=size.hidden), space, actions, torch.Generator().manual_seed(0))
    return QLearner(
        QConfig(mixer="qmix"),
        networks=nets,
        observation_space=space,
        action_space=actions,
        rngs=Generators(0),
    )


class Products:
    """Only the matrix products of one QMIX update, each into memory that exists already."""

    def __init__(self, size: Size, cfg: QConfig) -> None:
        shape, h = size.shape, size.hidden
        self.steps, rows = shape.limit + 1, shape.agents * BATCH
        inputs, flat = shape.obs + shape.actions + shape.agents, (shape.limit + 1) * rows
        make = torch.randn
        self.x, self.entered, self.gates, self.q = (
            make(flat, inputs),
            make(flat, h),
            make(flat, 3 * h),
            make(flat, shape.actions),
        )
        self.memory, self.step_gates = make(self.steps, rows, h), make(self.steps, rows, 3 * h)
        self.enter, self.inner, self.leave = make(inputs, h), make(h, 3 * h), make(h, shape.actions)
        self.d_enter, self.d_inner, self.d_leave = map(torch.empty_like, (self.enter, self.inner, self.leave))
        mixed, embed, hyper = shape.limit * BATCH, cfg.mixing_embed_dim, cfg.hypernet_embed
        sizes = [
            (shape.state, 2 * hyper + 2 * embed),
            (hyper, shape.agents * embed),
            (hyper, embed),
            (embed, 1),
        ]
        self.mixer = [(make(mixed, a), make(a, b), make(mixed, b), make(a, b)) for a, b in sizes]
        self.values, self.weights, self.out = (
            make(mixed, 1, shape.agents),
            make(mixed, shape.agents, embed),
            make(mixed, 1, embed),
        )
        self.d_weights, self.d_values = torch.empty_like(self.weights), torch.empty_like(self.values)

    def forward(self) -> None:
        torch.mm(self.x, self.enter, out=self.entered)
        torch.mm(self.entered, self.inner, out=self.gates)
        for t in range(self.steps):
            torch.mm(self.memory[t], self.inner, out=self.step_gates[t])
        torch.mm(self.entered, self.leave, out=self.q)
        for x, w, y, _ in self.mixer:
            torch.mm(x, w, out=y)
        torch.bmm(self.values, self.weights, out=self.out)

    def backward(self) -> None:
        for index, (x, w, y, d_w) in enumerate(self.mixer):
            torch.mm(x.t(), y, out=d_w)
            if index:  # nothing below the state needs a gradient
                torch.mm(y, w.t(), out=x)
        torch.bmm(self.values.transpose(1, 2), self.out, out=self.d_weights)
        torch.bmm(self.out, self.weights.transpose(1, 2), out=self.d_values)
        torch.mm(self.entered.t(), self.q, out=self.d_leave)
        torch.mm(self.q, self.leave.t(), out=self.entered)
        for t in range(self.steps):
            torch.mm(self.step_gates[t], self.inner.t(), out=self.memory[t])
        torch.mm(self.entered.t(), self.gates, out=self.d_inner)
        torch.mm(self.entered.t(), self.gates, out=self.d_inner)
        torch.mm(self.gates, self.inner.t(), out=self.entered)
        torch.mm(self.x.t(), self.entered, out=self.d_enter)

    def __call__(self) -> None:
        self.forward()  # target
        self.forward()  # online
        self.backward()


def timed(work: Any) -> float:
    """Seconds of this process's own computing: waiting for a busy neighbour does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def compare(size: Size, rounds: int = 60) -> dict[str, Any]:
    """Both in turn, so that a busy neighbour disturbs both; medians, and the least disturbed of each."""
    team, batch = learner(size), episodes(size.shape)
    products = Products(size, team.cfg)
    pairs = [(timed(lambda: team.update(batch)), timed(products)) for _ in range(rounds)][5:]
    ours, limit = zip(*pairs, strict=True)
    return {
        "name": size.name,
        "update_ms": 1e3 * statistics.median(ours),
        "products_ms": 1e3 * statistics.median(limit),
        "share_median": statistics.median(limit) / statistics.median(ours),
        "share_least_disturbed": min(limit) / min(ours),
        "updates_per_second": 1 / statistics.median(ours),
        "rounds": len(pairs),
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    found = [compare(size) for size in SIZES]
    about = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "load": os.getloadavg()[0],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "team_updates.json").write_text(json.dumps({"about": about, "sizes": found}, indent=1))
    lines = ["# QMIX updates against their matrix products (batch 32, one thread)", ""]
    lines += [
        "| size | update ms | products ms | share, medians | share, least disturbed |",
        "|---|---|---|---|---|",
    ]
    for f in found:
        shares = f"{f['share_median']:.2f} | {f['share_least_disturbed']:.2f}"
        lines.append(f"| {f['name']} | {f['update_ms']:.1f} | {f['products_ms']:.1f} | {shares} |")
    lines += [
        "",
        "Times are of the process alone (CPU time), both in turn; `load` is the machine's load average.",
    ]
    lines += [f"{about}", "", "    python benchmarks/team_updates.py"]
    (RESULTS / "team_updates.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
