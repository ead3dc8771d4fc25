"""ONNX that takes raw observations and returns real actions: scaling is inside."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from twofold.base.errors import MissingPackage, UserError
from twofold.base.progress import task
from twofold.core.experience import Array
from twofold.learners.td3 import TD3
from twofold.store import files
from twofold.store.policy_file import LoadedPolicy


class Deployed(nn.Module):
    """Observation in the world's units -> action in the world's units."""

    low: Tensor
    high: Tensor

    def __init__(self, policy: LoadedPolicy) -> None:
        super().__init__()
        self.actor = policy.learner.acting
        shape = policy.action_space.shape or ()
        low, high = policy.action_bounds or (-np.ones(shape), np.ones(shape))
        for name, value in (("low", low), ("high", high)):
            self.register_buffer(name, torch.tensor(np.asarray(value), dtype=torch.float32))

    def forward(self, obs: Tensor) -> Tensor:
        """obs [B, o] -> action [B, a]."""
        action: Tensor = self.actor(obs)
        return self.low + (action + 1) * 0.5 * (self.high - self.low)


TOLERANCE = 1e-4  # largest difference between the file and the policy, in units of the action's range


def export_onnx(policy: LoadedPolicy, path: Path) -> tuple[float, Path]:
    """Write the file if it agrees with the policy on random observations; their largest difference."""
    if not isinstance(policy.learner, TD3) or policy.observation_space.shape is None:
        raise UserError(
            "only TD3 policies with vector observations and continuous actions can be exported to ONNX"
        )
    try:
        import onnxruntime
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ModuleNotFoundError as error:
        raise MissingPackage(str(error.name), "export", "exporting to ONNX") from None
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((16, *policy.observation_space.shape)).astype(np.float32)
    with task("writing ONNX"):
        content = _onnx(Deployed(policy).eval(), obs)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    wanted = np.stack([policy.act(row) for row in obs])
    given = session.run(None, {"obs": obs})[0]
    low, high = policy.action_bounds or (-1.0, 1.0)
    worst = float((np.abs(wanted - given) / (np.asarray(high) - low)).max())
    if not worst <= TOLERANCE:
        raise UserError(
            f"the exported network differs from the policy by {worst:.1e} of the range: not written"
        )
    files.replace_bytes(path, content)
    return worst, path


def _onnx(module: nn.Module, obs: Array) -> bytes:
    """The content of an ONNX file for any number of rows."""
    with _silence():
        program = torch.onnx.export(
            module,
            (torch.from_numpy(obs),),
            input_names=["obs"],
            output_names=["action"],
            dynamic_shapes={"obs": {0: torch.export.Dim("rows")}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None  # as it would be without dynamo
    content: bytes = program.model_proto.SerializeToString()
    return content


@contextmanager
def _silence() -> Iterator[None]:
    """Torch's exporter warns of packages that nobody asked for; what it writes is compared with the policy."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
