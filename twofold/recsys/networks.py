"""The registered networks for item worlds; torch is imported only when they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from twofold.base.errors import ConfigError
from twofold.base.foreign import AnySpace
from twofold.base.setting import setting, settings
from twofold.settings.registry import networks

if TYPE_CHECKING:
    import torch

    from twofold.recsys.item_nets import ItemNetworks


@settings
class ItemNetConfig:
    """Settings of `recsys/items`."""

    tracker: Literal["avg", "gru", "caser", "sasrec", "nextitnet"] = setting(
        "how the last items and ratings become a state", default="avg", aliases=("which_tracker",)
    )
    window_size: int = setting("how far the tracker looks back", default=8, ge=1, unit="items")
    reward_handle: Literal["no", "cat", "cat2", "mul"] = setting(
        "how ratings enter the state: not at all, beside each item, beside the whole, as a factor",
        default="cat",
    )
    user_embedding: bool = setting(
        "the state holds the user's factors", default=True, aliases=("use_userEmbedding",)
    )
    embedding_dim: int = setting("width of a learned tracker", default=32, ge=1)
    num_filters: int = setting("filters of each size (caser)", default=16, ge=1)
    filter_sizes: tuple[int, ...] = setting("heights of the filters (caser)", default=(2, 3, 4), unit="items")
    num_heads: int = setting("heads of attention (sasrec)", default=1, ge=1)
    dropout_rate: float = setting(
        "share of activations left out while learning, never while acting (sasrec, caser)",
        default=0.0,
        ge=0,
        lt=1,
    )
    dilations: tuple[int, ...] = setting(
        "dilation of each block (nextitnet)", default=(1, 2, 1, 2, 1, 2), unit="items"
    )
    hidden_sizes: tuple[int, ...] = setting("hidden layers of actor and critics", default=(64, 64))
    rerank: int = setting(
        "nearest items that the smaller critic re-ranks; 1: the nearest item is shown",
        default=10,
        ge=1,
        unit="items",
    )
    shortlist: int = setting(
        "items of highest expectation that join them, so that the actor can miss none",
        default=5,
        ge=0,
        unit="items",
    )
    take_shortlist: int = setting(
        "and items most likely to be taken, where env_args.reward pays for that",
        default=20,
        ge=0,
        unit="items",
    )
    critic_on: Literal["item", "point"] = setting(
        "what the critic learns on: the item shown, or the raw action as elsewhere", default="item"
    )
    memory: bool = setting("the critic sees what the episode says about a candidate item", default=True)
    guide: bool = setting(
        "the actor sees, and starts from, where the items of best expectation lie", default=True
    )
    learn_pairs: bool = setting("the critic learns which items do not go together", default=True)
    quit_price: float = setting(
        "env_args.stream: times what the turns left could bring at the user's best, which a quit costs as far as the "
        "critic knows before it has learned anything",
        default=1.0,
        ge=0,
    )
    take_worth: float = setting(
        "env_args.reward=taken, both: what the critic takes a sure taking to be worth before it has learned anything",
        default=10.0,
        ge=0,
        unit="rating points",
    )
    remap_eps: float = setting("chance of a random item, per row, while exploring", default=0.02, ge=0, le=1)
    positive_actions: bool = setting(
        "actions in [0, 1], as in the reference: part of the catalogue is out of reach", default=False
    )
    sharpness: float = setting(
        "of the soft choice that carries the critic's gradient to the actor's point", default=20.0, gt=0
    )

    def __post_init__(self) -> None:
        if self.dropout_rate and self.tracker not in ("sasrec", "caser"):
            raise ConfigError(
                f"networks.dropout_rate is for the trackers sasrec and caser; {self.tracker} has none"
            )
        if self.embedding_dim % self.num_heads:
            raise ConfigError("networks.embedding_dim must be a multiple of networks.num_heads")


@networks.register("recsys/items", config=ItemNetConfig)
def make(
    cfg: ItemNetConfig,
    observation_space: AnySpace,
    action_space: AnySpace,
    generator: torch.Generator,
) -> ItemNetworks:
    """Actor that points into the item space, critics that judge the item shown, and the choice."""
    from twofold.recsys.item_nets import ItemNetworks

    return ItemNetworks(cfg, observation_space, action_space, generator)
