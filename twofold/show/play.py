"""Watching a policy: a video file, or a window."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np

from twofold.base.errors import UserError
from twofold.base.foreign import Shown
from twofold.base.progress import task, tracked
from twofold.core.experience import Array
from twofold.core.protocols import Policy, World
from twofold.settings.config import Config
from twofold.settings.registry import worlds
from twofold.store.whole import whole

_VIDEOS = (".mp4", ".gif", ".mkv", ".mov")


def viewed_world(config: Config, mode: str) -> tuple[World | None, str | None]:
    """One row of the world that can show itself, or (None, why not) on a machine that cannot render."""
    viewer = worlds.get(config.env).view
    if viewer is None:
        raise UserError(f"the world '{config.env}' has no pictures to show")
    try:
        world = viewer(config.env_args, mode)
        if not isinstance(world, Shown):
            raise TypeError(f"{type(world).__name__} cannot draw itself")
        world.reset(seed=[0], options={"reset_mask": np.ones(1, bool)})
        world.render()
    except Exception as error:  # drivers are missing in ways of their own, each with its own kind of error
        return (
            None,
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason given'}",
        )
    return world, None


def play(
    world: World, policy: Policy, seed: int, *, frames: bool, limit: int = 5000
) -> tuple[list[Array], float]:
    """One episode: its frames (if asked for) and its return."""
    row = np.ones(1, bool)
    obs, _ = world.reset(seed=[seed], options={"reset_mask": row})
    policy.reset(row)
    drawn = world if frames and isinstance(world, Shown) else None
    shown: list[Array] = [drawn.render()[0]] if drawn else []
    total = 0.0
    for _ in tracked(range(limit), "playing, steps", 0):
        obs, reward, terminated, truncated, _ = world.step(policy.act(obs))
        total += float(reward[0])
        if drawn:
            shown.append(drawn.render()[0])
        if terminated[0] or truncated[0]:
            break
    return shown, total


def check_video_name(path: Path) -> None:
    """Refuse a name that no video can be written under, before an episode is played for it."""
    if path.suffix.lower() not in _VIDEOS:
        raise UserError(f"{path}: a video ends in {', '.join(_VIDEOS)}; give --out=NAME.mp4")


def write_video(frames: list[Array], path: Path, fps: int) -> Path:
    """An mp4 that every player opens, or a small GIF if the name ends so."""
    check_video_name(path)
    if path.suffix.lower() == ".gif":
        return _write_gif(frames, path, fps)
    import imageio_ffmpeg

    height, width = frames[0].shape[:2]
    even = (slice(0, height - height % 2), slice(0, width - width % 2))  # the codec needs even sizes
    size = (even[1].stop, even[0].stop)
    with whole(path) as place, task("writing the video", len(frames)) as tell:
        name = os.path.abspath(
            place
        )  # ffmpeg takes a name with a dash or a colon for an option or an address
        writer = imageio_ffmpeg.write_frames(name, size, fps=fps, macro_block_size=2, quality=7)
        with closing(writer):
            writer.send(None)
            for number, frame in enumerate(frames):
                tell(number)
                writer.send(np.ascontiguousarray(frame[even]))
    return path


def _write_gif(frames: list[Array], path: Path, fps: int, width: int = 360, colours: int = 48) -> Path:
    """At most 12 pictures a second in few colours: small enough for a page."""
    from PIL import Image

    every = max(1, round(fps / 12))
    pictures = [Image.fromarray(frame) for frame in frames[::every]]
    size = (width, round(width * pictures[0].height / pictures[0].width))
    pictures = [picture.resize(size, Image.Resampling.BILINEAR) for picture in pictures]
    palette = pictures[len(pictures) // 2].quantize(colours)
    first, *rest = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    with whole(path) as place, task("writing the video"):
        pause = round(1000 * every / fps)
        first.save(place, save_all=True, append_images=rest, duration=pause, loop=0, optimize=True)
    return path


def side_by_side(left: list[Array], right: list[Array]) -> list[Array]:
    """Two episodes next to each other; the shorter one waits on its last frame."""
    length = max(len(left), len(right))
    padded = [frames + [frames[-1]] * (length - len(frames)) for frames in (left, right)]
    return [np.concatenate(pair, axis=1) for pair in zip(*padded, strict=True)]
