"""Which of two settings is better, in words that claim no more than the seeds show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from twofold.lab import statistics
from twofold.lab.statistics import ENOUGH, Estimate, Scores

Decision = Literal["better", "worse", "undecided", "too few", "unfinished"]
_ERROR = 1 - statistics.LEVEL


@dataclass(frozen=True)
class Verdict:
    """`name` against `baseline`: P(name > baseline), the p value of equal settings, what is decided and why."""

    name: str
    baseline: str
    improvement: Estimate
    p: float  # of a permutation test, corrected for the number of comparisons made at once
    comparisons: int
    decision: Decision
    seeds: int  # of the side that has fewer
    words: str

    @property
    def sentence(self) -> str:
        """The words with what they are about, for a list of several."""
        return f"{self.name} against {self.baseline}: {self.words}"


def judge(name: str, baseline: str, ours: Scores, theirs: Scores) -> Verdict:
    """Ours against theirs; both the bootstrap interval and the permutation test must agree on a winner.

    The percentile interval alone calls equal settings different in 6 to 8 % of comparisons of ten seeds; with the
    test it is 4 to 6 %, whatever the shape, spread and number of the scores (docs/lab.md has the table).
    """
    estimate = statistics.improvement_interval(ours, theirs)
    p = statistics.permutation_p(ours, theirs)
    seeds = min(len(s) for s in (*ours, *theirs))
    return _decided(Verdict(name, baseline, estimate, p, 1, "undecided", seeds, ""))


def corrected(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Several verdicts made at once: each must be surer, so that all together err in 5 % of cases (Holm)."""
    values = statistics.holm([v.p for v in verdicts])
    changed = [replace(v, p=p, comparisons=len(verdicts)) for v, p in zip(verdicts, values, strict=True)]
    return [_decided(v) for v in changed]


def waiting(verdict: Verdict, unfinished: Sequence[str]) -> Verdict:
    """No verdict while seeds of it are not finished: looking until it pleases is how false verdicts are made."""
    words = f"no verdict yet: {_and(unfinished)} not finished; {_numbers(verdict)}"
    return replace(verdict, decision="unfinished", words=words)


def _decided(verdict: Verdict) -> Verdict:
    estimate = verdict.improvement
    assert estimate.low is not None and estimate.high is not None
    decision: Decision = "undecided"
    if verdict.seeds < ENOUGH:
        decision = "too few"
    elif verdict.p <= _ERROR and not estimate.low <= 0.5 <= estimate.high:
        decision = "better" if estimate.value > 0.5 else "worse"
    return replace(verdict, decision=decision, words=_words(replace(verdict, decision=decision)))


def _words(verdict: Verdict) -> str:
    numbers = _numbers(verdict)
    if verdict.decision == "better":
        return f"{verdict.name} is better: {numbers}"
    if verdict.decision == "worse":
        return f"{verdict.name} is worse: {numbers}"
    if verdict.decision == "too few":
        have = f"{verdict.seeds} seed{'s' if verdict.seeds != 1 else ''} each"
        return f"too few seeds for a verdict: {numbers} with {have}, verdicts need {ENOUGH}"
    return f"not decided: {numbers}; {_more_seeds(verdict.improvement.value)}"


def _numbers(verdict: Verdict) -> str:
    estimate = verdict.improvement
    p = f"p = {verdict.p:.3f}" if verdict.p >= 0.001 else "p < 0.001"
    many = f" (of {verdict.comparisons} comparisons)" if verdict.comparisons > 1 else ""
    return f"P = {estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}], {p}{many}"


def _more_seeds(probability: float) -> str:
    """What it would take to decide: an answer before more seeds are run."""
    shown = round(probability, 2)
    needed = statistics.seeds_needed(shown)
    if needed is None or needed > 1000:
        return f"nearly equal: even a true 0.60 needs {statistics.seeds_needed(0.6)} seeds each"
    return f"a true {shown:.2f} needs {needed} seeds each"


def _and(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
