"""The short form of `make fuzz`: everything that ever broke, and a few random cases of every target."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from run import attack, corpus
from targets import TARGETS, Case, Target

FEW = 12


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    pytest.importorskip({"structures": "ase", "csv": "pyarrow"}.get(request.param, "numpy"))
    made = TARGETS[request.param]()
    logging.disable(logging.CRITICAL)
    yield made
    logging.disable(logging.NOTSET)
    made.close()


def test_what_once_broke_is_refused_in_one_line_or_taken(target: Target) -> None:
    for case in corpus(target.name):
        target(case)


def test_a_few_random_cases_are_refused_in_one_line_or_taken(target: Target) -> None:
    assert attack(target, 1, FEW) >= FEW


def test_a_case_is_kept_as_it_was() -> None:
    case = Case("raw", bytes(range(256)))
    assert Case.from_json(case.to_json()) == case
