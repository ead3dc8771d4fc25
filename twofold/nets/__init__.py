"""Networks and what moves their weights."""

from twofold.nets.flat import Adam, Flat
from twofold.nets.mlp import MLP
from twofold.nets.target import copy_of, track
from twofold.nets.twin import Twin

__all__ = ["MLP", "Adam", "Flat", "Twin", "copy_of", "track"]
