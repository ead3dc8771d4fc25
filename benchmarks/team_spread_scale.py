"""Why returns of today's simple_spread differ from published ones: two fixed policies under three reward settings.

python benchmarks/team_spread_scale.py -> benchmarks/results/team/team_spread_scale.{json,md}
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

from twofold.team.worlds.packages import ParticleConfig, mpe

RESULTS = Path(__file__).resolve().parent / "results" / "team"
EPISODES, STEPS = 1000, 25
SCALES = {  # local_ratio and the factor on the return
    "today's default (half the distances, half the collisions)": (0.5, 1.0),
    "distances and collisions in full, as the first particle games paid": (0.5, 2.0),
    "distances alone": (0.0, 1.0),
}


def random(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 5, obs.shape[:2])


def assigned(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Agent i walks to landmark i, without looking at the others."""
    offset = obs[..., 4:10].reshape(*obs.shape[:2], 3, 2)[:, np.arange(3), np.arange(3)]
    axis = np.abs(offset).argmax(-1)
    ahead = np.take_along_axis(offset, axis[..., None], -1)[..., 0] > 0
    return np.where(np.abs(offset).max(-1) < 0.05, 0, 1 + 2 * axis + ahead)


def score(policy, local_ratio: float) -> tuple[float, float]:
    """Mean team return and half its 95 % interval."""
    world = mpe(ParticleConfig(kwargs={"local_ratio": local_ratio}), rows=EPISODES, purpose="eval")
    rng, returns = np.random.default_rng(0), np.zeros(EPISODES)
    obs, _ = world.reset(seed=list(range(EPISODES)))
    for _ in range(STEPS):
        obs, reward, *_ = world.step(policy(obs["obs"], rng))
        returns += reward
    return float(returns.mean()), float(1.96 * returns.std(ddof=1) / np.sqrt(EPISODES))


def main() -> None:
    found = {}
    for name, (ratio, factor) in SCALES.items():
        for policy in (random, assigned):
            mean, half = score(policy, ratio)
            found[name, policy.__name__] = (factor * mean, factor * half)
    RESULTS.mkdir(exist_ok=True)
    record = {"mpe2": version("mpe2"), "scores": {f"{s}: {p}": v for (s, p), v in found.items()}}
    (RESULTS / "team_spread_scale.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [
        "# MPE simple_spread: the scale of returns",
        "",
        "| reward | policy | return of 25 steps |",
        "|---|---|---|",
    ]
    lines += [
        f"| {scale} | {policy} | {mean:.1f} ± {half:.1f} |" for (scale, policy), (mean, half) in found.items()
    ]
    lines += [
        "",
        f"mpe2 {version('mpe2')}, {EPISODES} episodes, the sum of three agents' rewards. Today's package pays an agent",
        "(1 - local_ratio) of the shared distances and local_ratio of its own collisions, 0.5 each by default: half of",
        "what the first particle games paid. So random play scores above the published -126.6 (QMIX) and -131.0 (VDN),",
        "which lie between random play and a fixed assignment when the return is doubled.",
        "",
        "    python benchmarks/team_spread_scale.py",
    ]
    (RESULTS / "team_spread_scale.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
