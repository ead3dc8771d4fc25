"""Policies that meet partners: episodes together, tables of all pairs, and how returns grow from the first step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from twofold.base.errors import UserError
from twofold.base.progress import tracked
from twofold.base.statistics import half_interval, summaries
from twofold.core.evaluate import evaluate
from twofold.core.experience import Array, Obs
from twofold.core.protocols import Policy, State, World
from twofold.show import style
from twofold.store.policy_file import LoadedPolicy
from twofold.team.seating import Group, Seating, greedy
from twofold.team.sets import PartnerSet
from twofold.team.worlds.partnered import Seated, inner_world
from twofold.team.worlds.space import Stepped, Values, shape_of


def kind_of(found: PartnerSet, name: str) -> str:
    """'train', 'homologue' (unseen, of an algorithm that was trained with) or 'non-homologue'."""
    if name in found.train or not found.train:
        return "train"
    algorithms = {p.algorithm for p in found.of(found.train)}
    return "homologue" if found.of((name,))[0].algorithm in algorithms else "non-homologue"


class Nobody:
    """The policy of no seat at all, for worlds in which everybody is seated."""

    def __init__(self, rows: int) -> None:
        self._nothing = np.zeros((rows, 0), np.int64)

    def reset(self, rows: Array) -> None: ...

    def act(self, obs: Obs) -> Array:
        return self._nothing

    random = act

    def state_dict(self) -> State:
        return {}

    def load_state_dict(self, state: State) -> None: ...


class Recorded(Seated):
    """A seated world that writes down the rewards of every row's first episode, [N, limit]."""

    def __init__(self, inner: World, seating: Seating) -> None:
        super().__init__(inner, seating)
        limit = shape_of(self.single_observation_space).limit
        self.rewards, self._at = np.zeros((self.num_envs, limit)), 0
        self._over = np.zeros(self.num_envs, bool)

    def step(self, actions: Array) -> Stepped:
        stepped = super().step(actions)
        if self._at < self.rewards.shape[1]:
            self.rewards[:, self._at] = np.where(self._over, 0.0, stepped[1])
        self._at += 1
        self._over |= stepped[2] | stepped[3]
        return stepped


@dataclass(frozen=True)
class Met:
    """Episodes with a partner, in the order of their seeds."""

    metrics: dict[str, Array]  # by name, [E]
    rewards: Array  # [E, limit], nought behind the end


def meet(
    world: tuple[str, Values],
    first: LoadedPolicy,
    second: LoadedPolicy,
    *,
    episodes: int,
    seed: int,
    seats: int = 1,
) -> Met:
    """Episodes in which `first` has `seats` seats and `second` the rest.

    `first` may be a policy of the whole team, or one trained on the seats that partners left free.
    """
    inner = inner_world(*world, episodes, "eval")
    seated, policy = _seated(inner, first, second, seats)
    found = evaluate(seated, policy, [seed + i for i in range(episodes)])
    seated.close()
    return Met(found, seated.rewards)


def _seated(inner: World, first: LoadedPolicy, second: LoadedPolicy, seats: int) -> tuple[Recorded, Policy]:
    """The world with both at their seats, and what acts for the free ones."""
    whole, own = shape_of(inner.single_observation_space), shape_of(first.observation_space)
    rows, sizes = inner.num_envs, {"agents": whole.agents, "rows": inner.num_envs}
    if (own.agents, own.obs) == (whole.agents, whole.obs):
        groups = [Group(seats, (0,)), Group(whole.agents - seats, (1,))]
        return Recorded(
            inner, Seating([greedy(first, rows), greedy(second, rows)], groups, **sizes, free=0, rotate=True)
        ), Nobody(rows)
    seating = Seating(
        [greedy(second, rows)], [Group(whole.agents - seats, (0,))], **sizes, free=own.agents, rotate=True
    )
    return Recorded(inner, seating), greedy(first, rows)


@dataclass(frozen=True)
class CrossPlay:
    """What policies reach with partners: [policies, partners], and reward curves by kind of partner."""

    metric: str
    policies: list[str]
    partners: list[str]
    kinds: list[str]  # of the partners: train, homologue or non-homologue
    mean: Array
    low: Array  # of the 95 % interval
    high: Array
    curves: dict[str, Array]  # return so far, [episodes, limit]


def cross_play(
    found: PartnerSet,
    policies: dict[str, LoadedPolicy],
    *,
    episodes: int,
    seed: int,
    seats: int = 1,
    metric: str | None = None,
) -> CrossPlay:
    """Every policy with every partner; without a metric battles won where there are battles, else the return."""
    world = (found.about.world, found.about.world_args)
    mean, low, high = np.zeros((3, len(policies), len(found.partners)))
    curves: dict[str, list[Array]] = {}
    partners = tracked(found.partners, "playing with partners", len(found.partners))
    for column, partner in enumerate(partners):
        second = partner.load()
        for row, (name, first) in enumerate(policies.items()):
            met = meet(world, first, second, episodes=episodes, seed=seed, seats=seats)
            metric = metric or ("battle_won" if "battle_won" in met.metrics else "return")
            if metric not in met.metrics:
                raise UserError(f"--metric={metric}: this world has {', '.join(met.metrics)}")
            of = summaries(met.metrics)[metric]
            mean[row, column], low[row, column], high[row, column] = of["mean"], of["low"], of["high"]
            label = f"{name} with {kind_of(found, partner.name)}"
            curves.setdefault(label, []).append(met.rewards.cumsum(-1))
    joined = {name: np.concatenate(parts) for name, parts in curves.items()}
    names = [partner.name for partner in found.partners]
    kinds = [kind_of(found, name) for name in names]
    return CrossPlay(metric or "return", list(policies), names, kinds, mean, low, high, joined)


def draw_cross_play(found: CrossPlay, path: Path) -> None:
    """The matrix as a heat map with its numbers and intervals."""
    rows, columns, mean = found.policies, found.partners, found.mean
    figure, panels = style.new_figure(2.6 + 0.9 * len(columns), 1.9 + 0.6 * len(rows))
    axes = panels[0, 0]
    image = axes.imshow(mean, cmap="cividis", aspect="auto")  # the same order of brightness for every eye
    axes.grid(visible=False)
    marked = [style.literal(f"{name} ({kind})") for name, kind in zip(columns, found.kinds, strict=True)]
    axes.set_xticks(range(len(columns)), marked, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), [style.literal(r) for r in rows])
    middle = (mean.max() + mean.min()) / 2
    for i, j in np.ndindex(*mean.shape):
        colour = "black" if mean[i, j] > middle else "white"
        text = f"{mean[i, j]:.2f}\n{found.low[i, j]:.2f} to {found.high[i, j]:.2f}"
        axes.text(j, i, text, ha="center", va="center", color=colour, fontsize=7)
    figure.colorbar(image, label=style.literal(found.metric))
    style.title(axes, "Cross-play")
    style.write_figure(figure, path)


def draw_adaptation(curves: dict[str, Array], path: Path) -> None:
    """Return so far over the steps since a partner was met, mean and 95 % interval."""
    figure, panels = style.new_figure()
    axes = panels[0, 0]
    for index, (name, curve) in enumerate(curves.items()):
        mean, colour = curve.mean(0), style.colour(index)
        spread = curve.std(0, ddof=1) if len(curve) > 1 else np.zeros_like(mean)
        half = np.array([half_interval(float(one), len(curve)) for one in spread])
        label = style.literal(f"{name} ({len(curve)} episodes)")
        axes.plot(mean, color=colour, linestyle=style.dash(index), linewidth=2, label=label)
        axes.fill_between(range(len(mean)), mean - half, mean + half, color=colour, alpha=0.16, linewidth=0)
    axes.set(xlabel="steps since the partner was met", ylabel="return so far")
    style.title(axes, "Getting used to a partner", "mean over episodes with its 95 % interval")
    style.legend(axes)
    style.write_figure(figure, path)
