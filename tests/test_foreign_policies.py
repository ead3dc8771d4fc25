"""Files that other libraries write are read without running anything in them."""

from __future__ import annotations

import io
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import twofold
from twofold.base.errors import UserError
from twofold.store.torch_file import read_tensors


def saved(value: object) -> bytes:
    """What `torch.save` writes."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def actor(activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """SB3's `actor.mu` for Pendulum: three observations, one action."""
    torch.manual_seed(0)
    layers = [nn.Linear(3, 5), activation(), nn.Linear(5, 4), activation(), nn.Linear(4, 1), nn.Tanh()]
    return nn.Sequential(*layers)


def sb3_zip(path: Path, network: nn.Sequential) -> Path:
    """A zip as Stable-Baselines3 writes it; its `data` is never looked at."""
    state = OrderedDict((f"actor.mu.{name}", value) for name, value in network.state_dict().items())
    state["critic.qf0.0.weight"] = torch.zeros(2, 4)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", '{"policy_class": {":serialized:": "gAWV..."}}')
        archive.writestr("policy.pth", saved(state))
    return path


OBS = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


@pytest.mark.parametrize(("module", "name"), [(nn.ReLU, "relu"), (nn.Tanh, "tanh")])
def test_a_policy_of_stable_baselines_acts_as_it_did_there(
    tmp_path: Path, module: type[nn.Module], name: str
) -> None:
    network = actor(module)
    policy = twofold.from_sb3(sb3_zip(tmp_path / "m.zip", network), env="Pendulum-v1", activation=name)  # type: ignore[arg-type]
    with torch.no_grad():
        wanted = 2 * network(torch.from_numpy(OBS)).numpy()  # Pendulum's torque is in [-2, 2]
    assert np.allclose(policy.act(OBS), wanted, atol=1e-6)


def test_a_policy_of_stable_baselines_is_kept_as_one_of_ours(tmp_path: Path) -> None:
    policy = twofold.from_sb3(sb3_zip(tmp_path / "m.zip", actor()), env="Pendulum-v1")
    again = twofold.load_policy(policy.save(tmp_path / "p.safetensors"))
    assert np.array_equal(policy.act(OBS), again.act(OBS)) and again.config.env == "control/gym"


class CleanActor(nn.Module):
    """The actor of CleanRL's td3_continuous_action.py."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc_mu = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.register_buffer("action_scale", torch.tensor([[2.0]]))
        self.register_buffer("action_bias", torch.tensor([[0.0]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.fc2(torch.relu(self.fc1(x))))
        return torch.tanh(self.fc_mu(x)) * self.get_buffer("action_scale") + self.get_buffer("action_bias")


def test_a_policy_of_cleanrl_acts_as_it_did_there(tmp_path: Path) -> None:
    network = CleanActor()
    (tmp_path / "m").write_bytes(saved((network.state_dict(), {}, {})))
    policy = twofold.from_cleanrl(tmp_path / "m", env="Pendulum-v1")
    with torch.no_grad():
        assert np.allclose(policy.act(OBS), network(torch.from_numpy(OBS)).numpy(), atol=1e-6)


def test_a_policy_for_other_bounds_is_refused(tmp_path: Path) -> None:
    network = CleanActor()
    network.get_buffer("action_scale").fill_(7.0)
    (tmp_path / "m").write_bytes(saved((network.state_dict(), {}, {})))
    with pytest.raises(UserError, match="other action bounds"):
        twofold.from_cleanrl(tmp_path / "m", env="Pendulum-v1")


def test_a_policy_for_other_observations_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="another world"):
        twofold.from_sb3(sb3_zip(tmp_path / "m.zip", actor()), env="MountainCarContinuous-v0")


class Harm:
    """What a hostile file would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (eval, ("open('proof', 'w')",))


@pytest.mark.parametrize(
    "value",
    [Harm(), {"actor.mu.0.weight": Harm()}, torch.zeros(3, 4).t(), torch.zeros(2, dtype=torch.float16)],
    ids=["code", "code inside", "other strides", "other numbers"],
)
def test_what_is_not_plain_tensors_is_refused_and_nothing_runs(
    tmp_path: Path, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="tensors alone"):
        read_tensors(saved(value), "it")
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"x" * 100])
def test_what_is_no_file_of_torch_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match="it is not a file"):
        read_tensors(content, "it")


def test_views_of_one_storage_are_read_where_they_lie() -> None:
    whole = torch.arange(12.0)
    found = read_tensors(saved({"a": whole[2:6].view(2, 2), "b": whole[6:], "n": [1, 2.5, None, True]}), "it")
    assert found["a"].tolist() == [[2, 3], [4, 5]] and found["b"].tolist() == list(range(6, 12))
    assert found["n"] == [1, 2.5, None, True]
