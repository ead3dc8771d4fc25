"""Map, stack and index over nested dicts and dataclasses of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from twofold.base.values import Array

Tree = TypeVar(
    "Tree"
)  # nested dicts and dataclasses of arrays; what is not known here is what the leaves become

# Any: a leaf, or a tree of them; Python has no type for "the same shape with other leaves", the caller names it.
Branch: TypeAlias = Any


# Every step of a training asks: to ask the dataclass each time takes longer than to copy the arrays.
_FIELDS: dict[type, tuple[str, ...] | None] = {}


def _children(tree: object) -> dict[str, Branch] | None:
    """The named parts of a dict or dataclass; None for a leaf."""
    if isinstance(tree, dict):
        return tree
    kind = type(tree)
    if kind not in _FIELDS:
        _FIELDS[kind] = _field_names(kind)
    names = _FIELDS[kind]
    return None if names is None else {name: getattr(tree, name) for name in names}


def _field_names(kind: type) -> tuple[str, ...] | None:
    """Those of a dataclass; None for any other type."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def _rebuild(like: Branch, children: dict[str, Branch]) -> Branch:
    return children if isinstance(like, dict) else dataclasses.replace(like, **children)


def map(function: Callable[..., object], tree: object, *rest: object) -> Branch:
    """A tree of the same shape with `function` applied to corresponding leaves; None leaves stay None."""
    if tree is None:
        return None
    children = _children(tree)
    if children is None:
        return function(tree, *rest)
    others = [_children(other) or {} for other in rest]
    return _rebuild(tree, {k: map(function, v, *(o[k] for o in others)) for k, v in children.items()})


def items(tree: object, prefix: str = "") -> Iterator[tuple[str, Branch]]:
    """Every leaf with its dotted path, in definition order; None leaves are left out."""
    children = _children(tree)
    if children is None:
        if tree is not None:
            yield prefix, tree
        return
    for key, child in children.items():
        yield from items(child, f"{prefix}.{key}" if prefix else str(key))


def leaves(tree: object) -> list[Branch]:
    """Every leaf, in definition order."""
    return [leaf for _, leaf in items(tree)]


def index(tree: Tree, at: Array | slice | int) -> Tree:
    """The tree with every leaf indexed by `at` along its first axes."""
    found: Tree = map(lambda leaf: leaf[at], tree)
    return found


def stack(trees: Sequence[Tree]) -> Tree:
    """One tree whose leaves have a new first axis."""
    found: Tree = map(lambda *leaves: np.stack(leaves), trees[0], *trees[1:])
    return found


def concatenate(trees: Sequence[Tree]) -> Tree:
    """One tree whose leaves are joined along their first axis."""
    found: Tree = map(lambda *leaves: np.concatenate(leaves), trees[0], *trees[1:])
    return found


def copy(tree: Tree) -> Tree:
    """The tree with every array copied."""
    found: Tree = map(np.array, tree)
    return found


def equal(one: object, other: object) -> bool:
    """True if both trees have the same paths and bit-equal leaves."""
    ours, theirs = dict(items(one)), dict(items(other))
    return ours.keys() == theirs.keys() and all(
        np.asarray(ours[k]).tobytes() == np.asarray(theirs[k]).tobytes() for k in ours
    )
