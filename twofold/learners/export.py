"""ONNX that takes raw observations and returns real actions: normalising and scaling are inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twofold.core.errors import MissingPackage, UserError
from twofold.store.policy_file import LoadedPolicy


class Deployed(nn.Module):
    """Observation in the world's units -> action in the world's units."""

    shift: Tensor
    scale: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, policy: LoadedPolicy) -> None:
        super().__init__()
        self.actor: nn.Module = policy.learner.actor.module  # type: ignore[attr-defined]
        normaliser = policy.learner.normaliser  # type: ignore[attr-defined]
        size = policy.observation_space.shape
        self.clip: float
        shift, scale, self.clip = (
            (np.zeros(size, np.float32), np.ones(size, np.float32), np.inf)
            if normaliser is None
            else normaliser.constants()
        )
        low, high = policy.action_bounds or (
            -np.ones(policy.action_space.shape),
            np.ones(policy.action_space.shape),
        )
        for name, value in (("shift", shift), ("scale", scale), ("low", low), ("high", high)):
            self.register_buffer(name, torch.tensor(np.asarray(value), dtype=torch.float32))

    def forward(self, obs: Tensor) -> Tensor:
        """obs [B, o] -> action [B, a]."""
        seen = (obs - self.shift) * self.scale
        if np.isfinite(self.clip):
            seen = seen.clamp(-self.clip, self.clip)
        action: Tensor = self.actor(seen)
        return self.low + (action + 1) * 0.5 * (self.high - self.low)


def export_onnx(policy: LoadedPolicy, path: Path) -> tuple[float, Path]:
    """Write the file and compare it with the policy on random observations; the largest difference."""
    if not hasattr(policy.learner, "actor") or policy.observation_space.shape is None:
        raise UserError(
            "only policies with vector observations and continuous actions can be exported to ONNX"
        )
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ModuleNotFoundError as error:
        raise MissingPackage(str(error.name), "export", "exporting to ONNX") from None
    module = Deployed(policy).eval()
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((16, *policy.observation_space.shape)).astype(np.float32)
    rows = torch.export.Dim("rows")
    program: Any = torch.onnx.export(
        module,
        (torch.from_numpy(obs),),
        input_names=["obs"],
        output_names=["action"],
        dynamic_shapes={"obs": {0: rows}},
        dynamo=True,
        verbose=False,
    )
    program.save(str(path), external_data=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = np.stack([policy.act(row) for row in obs])
    given = session.run(None, {"obs": obs})[0]
    return float(np.abs(wanted - given).max()), path
