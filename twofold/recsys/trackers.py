"""State trackers: the last items and ratings of an episode as one vector, in one batched pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from twofold.nets.mlp import Affine
from twofold.recsys.gated import GatedWindow
from twofold.recsys.networks import ItemNetConfig


class Body(Protocol):
    """Rows of a window [B, W, i] and their mask [B, W, 1] -> [B, outputs]; with a generator, dropout is drawn."""

    outputs: int

    def __call__(self, x: Tensor, mask: Tensor, rng: np.random.Generator | None = None) -> Tensor: ...


class Tracker(nn.Module):
    """Sequence inputs [B, W, i] and their mask [B, W] -> state [B, outputs]."""

    def __init__(self, cfg: ItemNetConfig, item_width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.handle, self.window = cfg.reward_handle, cfg.window_size
        inputs = item_width + (cfg.reward_handle == "cat")
        self.body: Body = BODIES[cfg.tracker](cfg, inputs, generator)
        self.outputs = self.body.outputs + (cfg.window_size if cfg.reward_handle == "cat2" else 0)

    def forward(
        self, vectors: Tensor, ratings: Tensor, there: Tensor, rng: np.random.Generator | None = None
    ) -> Tensor:
        """vectors [B, W, d], centred ratings [B, W], there [B, W] -> [B, outputs]; with `rng`, dropout is drawn."""
        mask = there.unsqueeze(-1).to(vectors.dtype)
        return self.of_present(vectors * mask, ratings, mask, rng)

    def of_present(
        self, vectors: Tensor, ratings: Tensor, mask: Tensor, rng: np.random.Generator | None = None
    ) -> Tensor:
        """The same for vectors and ratings that are zeros where there is no item; mask [B, W, 1]."""
        if self.handle == "cat":
            vectors = torch.cat([vectors, ratings.unsqueeze(-1)], dim=-1)
        elif self.handle == "mul":
            vectors = vectors * ratings.unsqueeze(-1)
        state = self.body(vectors, mask, rng)
        return torch.cat([state, ratings], dim=-1) if self.handle == "cat2" else state


class Average(nn.Module):
    """Mean of the window beside its newest entry."""

    def __init__(self, cfg: ItemNetConfig, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.outputs = 2 * inputs

    def forward(self, x: Tensor, mask: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        mean = x.sum(1) / mask.sum(1).clamp_min_(1.0)  # absent entries are zeros
        return torch.cat([mean, x[:, -1]], dim=-1)


class GRU(nn.Module):
    """The last state of a gated recurrent unit over the window; it is zero until the first item."""

    def __init__(self, cfg: ItemNetConfig, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.outputs = cfg.embedding_dim
        self.inputs = Affine(inputs, 3 * self.outputs, generator=generator)
        self.recurrent = Affine(self.outputs, 3 * self.outputs, generator=generator)

    def forward(self, x: Tensor, mask: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        # torch's `apply` has no types of its own.
        state: Tensor = GatedWindow.apply(x, mask, self.inputs.matrix, self.recurrent.matrix)  # type: ignore[no-untyped-call]
        return state


class Caser(nn.Module):
    """Horizontal and vertical convolutions over the window (Tang and Wang 2018)."""

    def __init__(self, cfg: ItemNetConfig, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        sizes = [size for size in cfg.filter_sizes if size <= cfg.window_size] or [1]
        self.sizes = sizes
        self.across = nn.ModuleList(
            Affine(size * inputs, cfg.num_filters, generator=generator) for size in sizes
        )
        self.along = Affine(cfg.window_size, cfg.num_filters, generator=generator)
        self.join = Affine(
            len(sizes) * cfg.num_filters + inputs * cfg.num_filters, cfg.embedding_dim, generator=generator
        )
        self.outputs, self.dropout = cfg.embedding_dim, cfg.dropout_rate

    def forward(self, x: Tensor, mask: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        found = []
        for size, layer in zip(self.sizes, self.across, strict=True):
            pieces = x.unfold(1, size, 1).transpose(2, 3).flatten(2)  # [B, W - size + 1, size * i]
            found.append(torch.relu(layer(pieces)).amax(dim=1))
        found.append(self.along(x.transpose(1, 2)).flatten(1))
        return torch.relu(self.join(dropped(torch.cat(found, dim=-1), self.dropout, rng)))


class SASRec(nn.Module):
    """One block of causal self-attention (Kang and McAuley 2018); the newest position's output."""

    def __init__(self, cfg: ItemNetConfig, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.outputs, self.heads, self.dropout = cfg.embedding_dim, cfg.num_heads, cfg.dropout_rate
        width = self.outputs
        self.enter = Affine(inputs, width, generator=generator)
        self.places = nn.Parameter(0.1 * torch.randn(cfg.window_size, width, generator=generator))
        self.attend = Affine(width, 3 * width, generator=generator)
        self.widen, self.narrow = (Affine(width, width, generator=generator) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, mask: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        """Only the newest position asks, so the block costs W, not W squared."""
        x = dropped(self.enter(x) + self.places, self.dropout, rng)
        query, key, value = self.attend(self.norms[0](x)).chunk(3, dim=-1)
        query, key, value = (self._split(part) for part in (query[:, -1:], key, value))
        scores = query @ key.transpose(2, 3) / math.sqrt(key.shape[-1])
        # An empty window attends evenly to its zero entries instead of dividing by nothing.
        scores = scores.masked_fill(mask.squeeze(-1)[:, None, None] == 0, -1e9)
        mixed = (scores.softmax(dim=-1) @ value).transpose(1, 2).flatten(1)
        hidden = x[:, -1] + dropped(mixed, self.dropout, rng)
        after = self.narrow(torch.relu(self.widen(self.norms[1](hidden))))
        out: Tensor = self.norms[2](hidden + dropped(after, self.dropout, rng))
        return out

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class NextItNet(nn.Module):
    """Residual blocks of dilated causal convolutions (Yuan et al. 2019); the newest position's output."""

    def __init__(self, cfg: ItemNetConfig, inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        self.outputs, self.dilations = cfg.embedding_dim, cfg.dilations
        self.enter = Affine(inputs, self.outputs, generator=generator)
        blocks = [Affine(3 * self.outputs, self.outputs, generator=generator) for _ in cfg.dilations]
        self.blocks = nn.ModuleList(blocks)
        self.norms = nn.ModuleList(nn.LayerNorm(self.outputs) for _ in cfg.dilations)

    def forward(self, x: Tensor, mask: Tensor, rng: np.random.Generator | None = None) -> Tensor:
        x = self.enter(x) * mask
        length = x.shape[1]
        for dilation, block, norm in zip(self.dilations, self.blocks, self.norms, strict=True):
            padded = functional.pad(x, (0, 0, 2 * dilation, 0))
            taps = [padded[:, shift : shift + length] for shift in (0, dilation, 2 * dilation)]
            x = x + torch.relu(norm(block(torch.cat(taps, dim=-1)))) * mask
        return x[:, -1]


def dropped(x: Tensor, rate: float, rng: np.random.Generator | None) -> Tensor:
    """Dropout drawn from `rng`, so that a run that goes on draws what it would have drawn; without one, x itself."""
    if rng is None or rate == 0:
        return x
    kept = torch.from_numpy(rng.random(x.shape, dtype=np.float32) >= rate).to(x.device)
    return x * kept / (1 - rate)


BODIES: dict[str, Callable[[ItemNetConfig, int, torch.Generator], Body]] = {
    "avg": Average,
    "gru": GRU,
    "caser": Caser,
    "sasrec": SASRec,
    "nextitnet": NextItNet,
}
