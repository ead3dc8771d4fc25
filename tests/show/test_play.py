from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from twofold.base.errors import UserError
from twofold.cli import main
from twofold.settings.config import load
from twofold.settings.registry import worlds
from twofold.show.play import side_by_side, viewed_world, write_video
from twofold.store.policy_file import seal, unseal, zoo_path


def test_a_video_of_odd_size_is_written(tmp_path: Path) -> None:
    frames = [np.full((33, 41, 3), i * 20, np.uint8) for i in range(5)]
    assert write_video(frames, tmp_path / "v.mp4", 10).stat().st_size > 500


@pytest.mark.parametrize("name", ["-dash.mp4", "a:b.mp4", "pipe:1.mp4"])
def test_a_videos_name_is_a_file_whatever_it_looks_like(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frames = [np.full((32, 32, 3), i * 20, np.uint8) for i in range(3)]
    assert write_video(frames, Path(name), 10).stat().st_size > 500
    assert os.listdir() == [name]


def test_a_gif_keeps_the_length_of_the_episode_in_fewer_pictures(tmp_path: Path) -> None:
    ramp = np.tile(np.arange(60, dtype=np.uint8)[None, :, None] * 4, (40, 1, 3))
    frames = [np.roll(ramp, i, axis=1) for i in range(50)]  # 1 s at 50 per second
    path = write_video(frames, tmp_path / "v.gif", 50)
    with Image.open(path) as gif:
        assert gif.size == (360, 240)
        assert 12 <= gif.n_frames <= 13
        assert gif.info["duration"] == 80


def test_the_shorter_episode_waits_on_its_last_frame() -> None:
    left, right = [np.zeros((2, 2, 3))] * 3, [np.ones((2, 2, 3))]
    both = side_by_side(left, right)
    assert len(both) == 3 and both[2].shape == (2, 4, 3) and both[2][0, 3, 0] == 1


def test_a_machine_that_cannot_render_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("td3", "pendulum").config

    def broken(cfg: object, mode: str) -> object:
        raise OSError("no driver")

    seen = replace(worlds.get("control/gym"), view=broken)
    monkeypatch.setitem(worlds._entries, "control/gym", seen)
    assert viewed_world(config, "rgb_array") == (None, "OSError: no driver")


def test_a_world_without_pictures_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(worlds._entries, "control/gym", replace(worlds.get("control/gym"), view=None))
    with pytest.raises(UserError, match="has no pictures to show"):
        viewed_world(load("td3", "pendulum").config, "rgb_array")


@pytest.mark.parametrize("command", ["play", "eval"])
def test_a_policy_in_a_world_of_other_shapes_is_refused_in_one_line(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, about = unseal(zoo_path("pendulum"))
    about["values"]["env_args.id"] = "Hopper-v5"
    path = tmp_path / "other.safetensors"
    path.write_bytes(seal(arrays, about))
    assert main([command, str(path)]) == 2
    said = capsys.readouterr().err
    assert "the observations that the policy was trained for are not this world's" in said
    assert said.count("\n") <= 2 and list(tmp_path.iterdir()) == [path]
