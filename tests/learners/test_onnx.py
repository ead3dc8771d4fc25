from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from parts import ACTIONS, OBS, batch
from plus_parts import sale_learner

from twofold.base.errors import UserError
from twofold.store.policy_file import LoadedPolicy, load_policy, zoo_path

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


def test_an_averaged_actor_with_embeddings_behind_a_normaliser_is_exported_as_it_acts(tmp_path: Path) -> None:
    from twofold.learners import export

    learner = sale_learner(normalise_obs=True, actor_average=0.9)
    learner.policy(explore=True, rows=9, rng=np.random.default_rng(0)).random(5 * batch(9).obs + 1)
    for update in range(4):
        learner.update(batch(8, seed=update))
    policy = learner.policy(explore=False, rows=1, rng=np.random.default_rng(0))
    loaded = LoadedPolicy({}, "test", learner, policy, OBS, ACTIONS, None, {})
    difference, path = export.export_onnx(loaded, tmp_path / "policy.onnx")
    assert path.exists() and difference < 1e-5
