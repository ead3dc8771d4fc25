"""A trained actor as a plain numpy file, for programs that have neither torch nor this package.

Arrays of the file (n users, m items, d dimensions of the item space, r factors, b directions of the belief):
  users [n], items [m], titles [m]   names as in the data
  vectors [m, d]                     unit vectors: the space that the actor points into
  factors [m, r], tastes [n + 1, r]  factors @ taste = expected rating less the user's level; the last taste is of a
                                     user never seen
  starts [n + 1], rated [...]        a user's rated items are rated[starts[u] : starts[u + 1]]
  blank                              zeros that stand for the history, the turn and the belief at an episode's beginning
  sharpness                          of the guide, the softly weighted sum of the vectors of the best items
  weight0, bias0, weight1, ...       layers: relu between them, tanh at the end; the guide is added to the result
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import numpy as np

from twofold.base.errors import UserError
from twofold.nets.mlp import Affine
from twofold.recsys.data import Array
from twofold.recsys.item_nets import ItemActor, item_actor
from twofold.recsys.recommend import Recommender
from twofold.recsys.tables import SHARPNESS
from twofold.store import files


def write_actor(policy: Recommender, path: Path) -> str:
    """Write the file, and say what it holds."""
    if path.suffix != ".npz":
        raise UserError(f"{path}: the actor is written as a numpy archive, name it .npz")
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **actor_arrays(policy))
    files.replace_bytes(path, content.getvalue())
    return f"the actor and {len(policy.labels.items)} items in {path}"


def actor_arrays(policy: Recommender) -> dict[str, Array]:
    """Everything that the actor's ranking of items needs."""
    actor, labels = item_actor(policy.nets.actor.module), policy.labels
    cfg, tables = actor.cfg, policy.chooser.tables
    if actor.state.learned or not (cfg.guide and cfg.user_embedding) or cfg.positive_actions:
        raise UserError(
            "only actors with tracker=avg, guide, user_embedding and without positive_actions can be exported"
        )
    names = labels.users, labels.items, labels.titles or labels.items
    users, items, titles = (np.array(texts, np.str_) for texts in names)
    blank = actor.state.outputs - tables.rank
    return {
        "users": users,
        "items": items,
        "titles": titles,
        "vectors": tables.item_vectors.numpy(),
        "factors": tables.joined[:, tables.width : tables.width + tables.rank].numpy(),
        "tastes": tables.user_factors.numpy(),
        "starts": np.concatenate([[0], labels.rated_ends]).astype(np.int64),
        "rated": labels.rated_items,
        "blank": np.zeros(blank, np.float32),
        "sharpness": np.array(SHARPNESS, np.float32),
        **_layers(actor),
    }


def _layers(actor: ItemActor) -> dict[str, Array]:
    """Weights and biases by place."""
    found: dict[str, Array] = {}
    for place, layer in enumerate(actor.body.layers):
        matrix = cast(Affine, layer).matrix.detach().numpy()
        found |= {f"weight{place}": matrix[:-1], f"bias{place}": matrix[-1]}
    return found
