"""Putting a run together leaves the caller's process as it was."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from twofold.assemble import torch_as


def test_torch_computes_as_the_caller_had_it_afterwards() -> None:
    torch.set_flush_denormal(False)
    before = torch.get_num_threads()
    tiny = torch.tensor([1e-310], dtype=torch.float64)
    assert float(tiny * 1.0) != 0.0
    with torch_as(before + 1):
        assert torch.get_num_threads() == before + 1 and float(tiny * 1.0) == 0.0
    assert torch.get_num_threads() == before and float(tiny * 1.0) != 0.0


def test_training_leaves_matplotlib_and_threads_alone(tmp_path: Path) -> None:
    code = (
        "import torch, matplotlib\n"
        "torch.set_num_threads(2); matplotlib.rcParams['backend'] = 'svg'\n"
        "import twofold\n"
        "twofold.train(run='r', trainer={'steps': 40, 'warmup': 20, 'eval_episodes': 1, 'test_episodes': 1,\n"
        "              'tensorboard': False}, replay={'batch_size': 8})\n"
        "assert torch.get_num_threads() == 2 and matplotlib.get_backend() == 'svg'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
