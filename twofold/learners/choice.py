"""Which engine trains given networks."""

from __future__ import annotations

from twofold.learners.config import TD3Config
from twofold.learners.engine import AnyEngine, Autograd
from twofold.learners.fused import FusedTD3, supports
from twofold.learners.native import NativeTD3, refusal
from twofold.learners.nets import Nets
from twofold.native.library import absent


def engine_for(nets: Nets, cfg: TD3Config) -> AnyEngine:
    """The engine that is asked for; with auto the fastest that is there and can."""
    if cfg.engine == "native" or (cfg.engine == "auto" and not (refusal(nets) or absent())):
        return NativeTD3(nets, cfg)
    if cfg.engine == "fused" or (cfg.engine == "auto" and supports(nets, cfg)):
        return FusedTD3(nets, cfg)
    return Autograd(nets, cfg)
