from __future__ import annotations

from pathlib import Path

import pytest
import torch

from twofold.base.errors import UserError
from twofold.store.policy_file import load_policy, zoo_path

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def test_a_file_that_differs_from_its_policy_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from twofold.learners import export

    policy = load_policy(zoo_path("pendulum"))
    deployed = export.Deployed.__init__

    def other(self: export.Deployed, given: object) -> None:
        deployed(self, policy)
        self.actor = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh())

    monkeypatch.setattr(export.Deployed, "__init__", other)
    with pytest.raises(UserError, match=r"differs from the policy by .* not written"):
        export.export_onnx(policy, tmp_path / "policy.onnx")
    assert list(tmp_path.iterdir()) == []
