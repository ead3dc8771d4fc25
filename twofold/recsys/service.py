"""A recommender for many askers at once: questions that wait are answered together; feedback is remembered."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from twofold.base.errors import UserError
from twofold.recsys.asking import Entry, Lists, Question, Recommendation
from twofold.recsys.menu import By
from twofold.recsys.recommend import Recommender

MOST_ITEMS = 1_000  # of one list
MOST_HISTORY = 5_000  # entries of one history
MOST_WAITING = 2_000  # questions that wait for an answer
MOST_USERS = 100_000  # whose feedback is remembered, those heard of last
MOST_TOGETHER = 64  # questions answered in one pass

Name = str | int


class Strict(BaseModel):
    """A request or an answer: unknown names and other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Rated(Strict):
    """An item of a history."""

    item: Name = Field(description="as named in the data")
    rating: float | None = Field(default=None, description="on the scale of the data; absent: as expected")


class Ask(Strict):
    """A question for items."""

    user: Name | None = Field(
        default=None, description="as named in the data; absent or unknown: an average user"
    )
    history: list[Rated] = Field(
        [], max_length=MOST_HISTORY, description="what was shown before, oldest first"
    )
    k: int = Field(default=10, ge=1, le=MOST_ITEMS, description="how many items")
    repeats: bool = Field(default=False, description="items of the history may come again")
    rated: bool = Field(default=False, description="items that the user rated in the data may come again")
    by: By | None = Field(
        default=None,
        description="who ranks; absent: as the service was started, which is the policy unless it says",
    )


class Item(Strict):
    """A recommended item."""

    item: str
    title: str
    value: float = Field(description="what the critic expects of showing it now")
    expected_rating: float
    reasons: list[str]


class Answer(Strict):
    """Recommended items, best first."""

    user: Name | None
    known: bool = Field(description="whether the user is in the data; if not, an average user is meant")
    items: list[Item]


class Feedback(Strict):
    """What a user was shown or has rated."""

    user: Name
    item: Name
    rating: float | None = Field(
        default=None, description="on the scale of the data; absent: it was only shown"
    )
    quit: bool = Field(
        default=False,
        description="the user left at this item: policies trained with env_args.stream learn from it",
    )


class Noted(Strict):
    """That feedback was heard."""

    user: Name
    remembered: int = Field(description="entries of this user since the service was started")


class Health(Strict):
    """What is served."""

    status: Literal["ok"] = "ok"
    policy: str
    data: str = Field(description="digest of the ratings that the policy was trained on")
    users: int
    items: int
    low: float
    high: float


class Refused(Strict):
    """Why a request was not answered."""

    error: str


class Busy(UserError):
    """More questions wait than can be answered soon."""


@dataclass
class Service:
    """A recommender, and what was heard of its users since it was started."""

    recommender: Recommender
    by: By = "policy"  # who ranks, unless a question says
    heard: OrderedDict[str, list[Entry]] = field(default_factory=OrderedDict)
    _waiting: list[tuple[Ask, asyncio.Future[Answer]]] = field(default_factory=list)
    _working: bool = False

    def health(self) -> Health:
        labels = self.recommender.labels
        source, digest = self.recommender.loaded.source, labels.digest
        return Health(
            policy=source,
            data=digest,
            users=len(labels.users),
            items=len(labels.items),
            low=labels.low,
            high=labels.high,
        )

    async def recommend(self, ask: Ask) -> Answer:
        """The answer to one question; questions that come meanwhile are answered together after it."""
        if len(self._waiting) >= MOST_WAITING:
            raise Busy(f"{MOST_WAITING} questions are waiting: ask again in a second")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((ask, future))
        if not self._working:
            self._working = True
            asyncio.get_running_loop().call_soon(self._answer_waiting)
        return await future

    def _answer_waiting(self) -> None:
        """Answer what waits, at most this many at once; others get a turn in between."""
        now, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
        open_ones = [(ask, future) for ask, future in now if not future.cancelled()]
        answers: Sequence[Answer | Exception]
        try:
            answers = self.answers([ask for ask, _ in open_ones])
        except Exception as error:  # a fault of ours is an answer, too: whoever asks must not wait for ever
            answers = [error] * len(open_ones)
        for (_, future), answer in zip(open_ones, answers, strict=True):
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        self._working = bool(self._waiting)
        if self._working:
            asyncio.get_running_loop().call_soon(self._answer_waiting)

    def answers(self, asks: Sequence[Ask]) -> list[Answer | UserError]:
        """All answers at once; a bad question gets its own error and spoils no other."""
        answers: dict[int, Answer | UserError] = {}
        questions = [self._question(ask) for ask in asks]
        groups: dict[By, list[int]] = {}
        for row, (ask, question) in enumerate(zip(asks, questions, strict=True)):
            by = ask.by or self.by
            if (fault := self._fault(question, by)) is not None:
                answers[row] = fault
            else:
                groups.setdefault(by, []).append(row)
        for by, rows in groups.items():
            found = self.recommender.answers([questions[n] for n in rows], max(asks[n].k for n in rows), by)
            answers |= {n: self._answer(asks[n], found, place) for place, n in enumerate(rows)}
        return [answers[row] for row in range(len(asks))]

    def _answer(self, ask: Ask, found: Lists, place: int) -> Answer:
        """One row of the lists, as it is sent."""
        items = self.recommender.described(ask.user, found, place)[: ask.k]
        known = ask.user is not None and self.recommender.knows(ask.user)
        return Answer.model_construct(user=ask.user, known=known, items=[_item(one) for one in items])

    def _question(self, ask: Ask) -> Question:
        """With what was heard of the user since the service was started."""
        history = [_entry(one.item, one.rating) for one in ask.history]
        heard = [] if ask.user is None else self.heard.get(str(ask.user), [])
        return Question(ask.user, [*heard, *history], ask.repeats, ask.rated)

    def _fault(self, question: Question, by: By) -> UserError | None:
        try:
            self.recommender.check(question.history)
            self.recommender.check_ranking(by)
        except UserError as error:
            return error
        return None

    def feedback(self, told: Feedback) -> Noted:
        """Remember what a user was shown or has rated; it counts in the next answers to that user."""
        entry = _entry(told.item, told.rating)
        self.recommender.check([entry])
        name = str(told.user)
        entries = self.heard.setdefault(name, [])
        self.recommender.saw(entries, entry, told.quit)
        entries.append(entry)
        del entries[:-MOST_HISTORY]
        self.heard.move_to_end(name)
        while len(self.heard) > MOST_USERS:
            self.heard.popitem(last=False)
        return Noted(user=told.user, remembered=len(entries))


def _entry(item: Name, rating: float | None) -> Entry:
    return item if rating is None else (item, rating)


def _item(found: Recommendation) -> Item:
    return Item.model_construct(
        item=found.name,
        title=found.title,
        value=round(found.value, 5),
        expected_rating=round(found.expected_rating, 3),
        reasons=list(found.reasons),
    )
