"""Shared by all tests: one torch thread, and small parts to build with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import torch

torch.set_num_threads(1)
