"""Networks and what moves their weights."""

from twofold.nets.flat import Adam, Flat
from twofold.nets.mlp import MLP
from twofold.nets.target import copy_of, track
from twofold.nets.twin import Twin
from twofold.nets.vector import VectorNetworks

__all__ = ["MLP", "Adam", "Flat", "Twin", "VectorNetworks", "copy_of", "track"]
