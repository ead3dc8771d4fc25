"""The settings of the world of users."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator

from twofold.base.errors import ConfigError
from twofold.base.setting import setting, settings
from twofold.recsys.reading import ColumnsConfig
from twofold.recsys.synthetic import SyntheticConfig
from twofold.recsys.taking import TakeModel
from twofold.recsys.user_model import UserModelConfig

Kind = Literal["synthetic", "ratings", "coat", "yahoo", "movielens", "kuairec", "kuairand"]


@settings
class PenaltyConfig:
    """Penalties on the training reward; all off by default."""

    uncertainty: float = setting(
        "times the standard deviation of a prediction (MOPO)", default=0.0, aliases=("lambda_variance",)
    )
    entropy: float = setting(
        "times the entropy of what followed the last item in the log (DORL)",
        default=0.0,
        aliases=("lambda_entropy",),
    )
    exposure: float = setting("strength of boredom by similar items shown before (CIRS)", default=0.0)
    exposure_tau: float = setting("how long that boredom lasts", default=10.0, gt=0, unit="turns")


@settings
class UsersConfig:
    """Settings of `recsys/users`."""

    data: Kind = setting("format of the ratings", default="synthetic")
    path: str | None = setting(
        "file or folder of the ratings; null: $TWOFOLD_DATA/<data>, or data/<data>", default=None
    )
    truth: str | None = setting(
        "your own true ratings: NAME.npy [users, items] in the order of their ids, or a CSV of all pairs",
        default=None,
    )
    columns: ColumnsConfig = setting("columns of the file (data=ratings)", default=ColumnsConfig())
    user_model: str | None = setting(
        "run directory of `twofold fit`; null: fitted when missing, kept in $TWOFOLD_RUNS/user_models",
        default=None,
    )
    split: Literal["last", "time", "random"] = setting(
        "what is hidden of a log that has no test part: each user's last rating, the newest, or random ones",
        default="last",
    )
    holdout: float = setting("share that split=time and split=random hide", default=0.3, gt=0, lt=1)
    max_turn: int = setting("an episode is cut after this long", default=30, ge=1, unit="turns")
    force_length: int = setting("length of an episode in the mode NX_10", default=10, ge=1, unit="turns")
    quit: Literal["model", "true", "none"] = setting(
        "training episodes end by the user model, by the true rule (which leaks the truth), or by time",
        default="model",
    )
    quit_rule: Literal["intended", "compat"] = setting(
        "which items count: the last ones, or the reference's slice of them", default="intended"
    )
    quit_family: Literal["distance", "category"] = setting(
        "users quit by items that are close, or of one category", default="distance"
    )
    leave_threshold: float = setting(
        "distance below which, or count of a category above which, a user quits", default=6.0
    )
    leave_share: float | None = setting(
        "the closest item pairs, this share of all, are too close: in place of a threshold that depends on the data",
        default=None,
        gt=0,
        lt=1,
    )
    num_leave_compute: int = setting(
        "how far the quit rule looks back", default=7, ge=1, unit="items", aliases=("quit_window",)
    )
    close_share: float = setting(
        "quit=model: about this share of the item pairs is close, differing by world",
        default=0.02,
        ge=0,
        lt=1,
    )
    chance_share: float = setting(
        "quit=model: and each pair is close with this chance, redrawn for each episode",
        default=0.01,
        ge=0,
        lt=1,
    )
    close_items: float = setting(
        "quit=model: in large catalogues no more known close ones than this",
        default=6.0,
        gt=0,
        unit="per item",
    )
    stream: bool = setting(
        "users come one after another and share what was seen of quits and pairs: judged as FB_stream alone",
        default=False,
    )
    stream_block: int = setting(
        "stream: simulated users who share one draw of the close pairs", default=100, ge=1, unit="episodes"
    )
    cool_down: int = setting(
        "the newest items are not shown again, also in evaluation", default=7, ge=0, unit="items"
    )
    posterior: bool = setting(
        "each episode draws a world from the user model's posterior; false: its mean", default=True
    )
    held_out: float = setting(
        "share of the drawn worlds kept for the evaluation `held_out`", default=0.1, ge=0, lt=1
    )
    rating_noise: float = setting(
        "standard deviation of the unknown part of a simulated rating", default=0.3, ge=0
    )
    reward: Literal["rating", "taken", "both"] = setting(
        "what training pays for: how items are rated, that they are taken at all, or both", default="rating"
    )
    take_by: TakeModel = setting(
        "reward=taken, both: who says what users take: EASE in closed form, SASRec, which knows the order of a log, "
        "or both together (auto: where the log has times)",
        default="auto",
    )
    take_weight: float = setting(
        "reward=taken, both: worth of an item that is surely taken", default=10.0, gt=0, unit="rating points"
    )
    take_list: int = setting(
        "reward=taken, both: likeliest new items of each user that are remembered",
        default=50,
        ge=1,
        unit="items",
    )
    take_ridge: float = setting(
        "reward=taken, both: how strongly what users take together is pulled towards nothing",
        default=300.0,
        gt=0,
    )
    centred: bool = setting("training reward relative to the user's expected rating", default=True)
    rew_norm: bool = setting(
        "training reward divided by the standard deviation of the logged ratings", default=False
    )
    quit_penalty: float = setting("taken from the training reward when a user quits", default=0.0)
    quit_by_rest: bool = setting(
        "that is for a whole episode: a quit costs the share of it that is left", default=False
    )
    taste_dims: int = setting(
        "dimensions of an item vector that come from expected ratings", default=16, ge=1
    )
    random_dims: int = setting("random ones, which keep like items apart", default=16, ge=0)
    rank: int = setting("factors of the expected ratings", default=32, ge=3)
    belief: int = setting(
        "directions in which the episode's ratings correct the expectation; 0: off", default=8, ge=0
    )
    penalty: PenaltyConfig = setting("penalties on the training reward", default=PenaltyConfig())
    model: UserModelConfig = setting("how users are learned from the log", default=UserModelConfig())
    synthetic: SyntheticConfig = setting("synthetic users (data=synthetic)", default=SyntheticConfig())

    @field_validator("quit", mode="before")
    @classmethod
    def _as_yaml_reads_it(cls, given: object) -> object:
        return "true" if given is True else given

    def __post_init__(self) -> None:
        if self.data == "synthetic" and self.path is not None:
            raise ConfigError(
                f"env_args.path={self.path} is not read, since env_args.data is synthetic: add --env-config=ratings"
            )
        if self.force_length > self.max_turn:
            raise ConfigError("env_args.force_length must not be above env_args.max_turn")
        if self.quit_family == "category" and self.quit == "model":
            raise ConfigError(
                "env_args.quit=model knows no categories, so quit_family=category would train with the true rule: "
                "say env_args.quit=true or none"
            )
