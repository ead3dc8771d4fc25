"""The registered networks for item worlds; torch is imported only when they are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from twofold.base.errors import ConfigError
from twofold.settings.registry import networks


@dataclass(frozen=True)
class ItemNetConfig:
    """Settings of `recsys/items`."""

    tracker: Literal["avg", "gru", "caser", "sasrec", "nextitnet"] = field(
        default="avg", metadata={"aliases": ("which_tracker",)}
    )
    window_size: int = 8  # items that the tracker looks back on
    reward_handle: Literal["no", "cat", "cat2", "mul"] = "cat"  # how ratings enter the state
    user_embedding: bool = field(default=True, metadata={"aliases": ("use_userEmbedding",)})
    embedding_dim: int = 32  # width of the tracker
    num_filters: int = 16  # caser
    filter_sizes: tuple[int, ...] = (2, 3, 4)  # caser
    num_heads: int = 1  # sasrec
    dropout_rate: float = (
        0.0  # sasrec, caser: share of activations left out while learning, never while acting
    )
    dilations: tuple[int, ...] = (1, 2, 1, 2, 1, 2)  # nextitnet
    hidden_sizes: tuple[int, ...] = (64, 64)
    rerank: int = (
        10  # so many nearest items are re-ranked by the smaller critic; 1: the nearest item is shown
    )
    shortlist: int = 5  # and so many items of highest expectation join them, so that the actor can miss none
    critic_on: Literal["item", "point"] = "item"  # point: the critic learns on the raw action, as elsewhere
    memory: bool = True  # the critic sees what the episode says about a candidate item
    guide: bool = True  # the actor sees (and starts from) where the items of best expectation lie
    learn_pairs: bool = True  # the critic learns which items do not go together
    remap_eps: float = 0.02  # chance of a random item, per row, while exploring
    positive_actions: bool = (
        False  # actions in [0, 1] as in the reference: part of the catalogue is unreachable
    )
    rank: int = 32  # must equal env_args.rank
    sharpness: float = 20.0  # of the soft choice that carries the critic's gradient to the actor's point

    def __post_init__(self) -> None:
        for name in ("window_size", "embedding_dim", "rerank", "rank", "num_heads", "num_filters"):
            if getattr(self, name) < 1:
                raise ConfigError(f"networks.{name} must be at least 1, got {getattr(self, name)}")
        if self.shortlist < 0:
            raise ConfigError(f"networks.shortlist must not be negative, got {self.shortlist}")
        if not 0 <= self.remap_eps <= 1:
            raise ConfigError(f"networks.remap_eps must be in [0, 1], got {self.remap_eps}")
        if not 0 <= self.dropout_rate < 1:
            raise ConfigError(f"networks.dropout_rate must be in [0, 1), got {self.dropout_rate}")
        if self.dropout_rate and self.tracker not in ("sasrec", "caser"):
            raise ConfigError(
                f"networks.dropout_rate is for the trackers sasrec and caser; {self.tracker} has none"
            )
        if self.embedding_dim % self.num_heads:
            raise ConfigError("networks.embedding_dim must be a multiple of networks.num_heads")


@networks.register("recsys/items", config=ItemNetConfig)
def make(cfg: ItemNetConfig, observation_space: Any, action_space: Any, generator: Any) -> Any:
    """Actor that points into the item space, critics that judge the item shown, and the choice."""
    from twofold.recsys.item_nets import ItemNetworks

    return ItemNetworks(cfg, observation_space, action_space, generator)
