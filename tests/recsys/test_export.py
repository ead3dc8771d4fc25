"""The actor as a numpy file: the example of the page, without torch and twofold, ranks as the actor does."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from twofold.base.errors import UserError
from twofold.recsys.asking import Question
from twofold.recsys.export import write_actor
from twofold.recsys.recommend import load_recommender
from twofold.recsys.seen import Seen

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recsys.md"
ALONE = "import sys\nsys.modules['torch'] = sys.modules['twofold'] = None\n"


def example():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if "actor.npz" in block]
    return found


def test_the_example_ranks_as_the_actor_does_without_torch_and_twofold(run, tmp_path):
    policy = load_recommender(run)
    write_actor(policy, tmp_path / "actor.npz")
    command = [sys.executable, "-c", ALONE + example()]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    asked = policy._asked(Question("17"))
    seen = Seen(policy._obs(np.array([asked.user]), [asked]), asked.forbidden[None])
    nearest = policy.chooser.tables.top(seen, policy.nets.acting(seen).detach(), 10).numpy()[0]
    assert [line.split()[0] for line in printed.splitlines()] == [
        policy.labels.items[item] for item in nearest
    ]


def test_the_example_has_at_most_twenty_lines():
    assert len(example().strip().splitlines()) <= 20


def test_the_file_must_be_named_for_what_it_is(run, tmp_path):
    with pytest.raises(UserError, match=r"name it \.npz"):
        write_actor(load_recommender(run), tmp_path / "actor.onnx")
