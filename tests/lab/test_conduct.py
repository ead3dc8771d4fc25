"""An experiment from its file to its report, with real trainings that are killed on the way."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from digest import digest
from jobs.test_jobs import FAKE, Silent, processes_of, wait_until

from twofold import api
from twofold.lab.conduct import conduct

TINY = {
    "trainer.steps": 600,
    "trainer.warmup": 100,
    "trainer.eval_every": 200,
    "trainer.eval_episodes": 1,
    "trainer.test_episodes": 1,
    "trainer.log_every": 50,
    "trainer.save_every": 50,
    "trainer.tensorboard": False,
    "replay.batch_size": 16,
    "replay.buffer_size": 300,
    "networks.actor_hidden": [8],
    "networks.critic_hidden": [8],
}
COORDINATOR = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from jobs.test_jobs import Silent
from twofold.lab.conduct import conduct
sys.exit(conduct(Path({file!r}), Path({folder!r}), Silent(), jobs=2).exit_code)
"""


def experiment(folder: Path, seeds: str) -> Path:
    path = folder / "experiment.yaml"
    settings = "\n".join(f"  {key}: {value}" for key, value in TINY.items())
    variants = "variants: {default: {}, hasty: {learner.gamma: 0.5}}"
    path.write_text(f"title: tiny\nseeds: {seeds}\nset:\n{settings}\n{variants}\n")
    return path


def alone(folder: Path, seed: int, **changed: float) -> dict[str, str]:
    api.train("td3", "pendulum", run=folder, **{**TINY, "seed": seed, **changed})
    return digest(folder)


def test_an_experiment_ends_with_a_report_and_equals_runs_made_one_by_one(tmp_path: Path) -> None:
    path, folder = experiment(tmp_path, "3"), tmp_path / "runs"
    found = conduct(path, folder, Silent())
    assert found.exit_code == 0 and found.report is not None
    (table,) = found.report.comparison.tables
    assert [(row.name, row.seeds) for row in table.rows] == [("default", (3,)), ("hasty", (3,))]
    assert "<h1>tiny</h1>" in found.report.page.read_text()
    assert (folder / "experiment.yaml").read_bytes() == path.read_bytes()
    assert digest(folder / "pendulum" / "default" / "seed_3") == alone(tmp_path / "alone", 3)


@pytest.mark.slow
def test_real_trainings_survive_kills_of_coordinator_and_children(tmp_path: Path) -> None:
    path, folder, chance = experiment(tmp_path, "1..3"), tmp_path / "runs", random.Random(0)
    code = COORDINATOR.format(tests=str(FAKE.parent.parent), file=str(path), folder=str(folder))
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", code])
        time.sleep(5 + 8 * chance.random())
        victims = [pid for pid in processes_of(folder) if pid != process.pid]
        if victims and chance.random() < 0.7:
            subprocess.run(["kill", "-9", str(chance.choice(victims))], check=False)
            time.sleep(2 * chance.random())
        process.kill()
        process.wait()
        wait_until(lambda: processes_of(folder) == [], 60)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    for variant, changed in (("default", {}), ("hasty", {"learner.gamma": 0.5})):
        for seed in (1, 2, 3):
            made = digest(folder / "pendulum" / variant / f"seed_{seed}")
            assert made == alone(tmp_path / f"alone_{variant}_{seed}", seed, **changed)
