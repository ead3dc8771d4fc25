"""Episodes are written whole, padded, and resumed in their middle."""

import numpy as np
import pytest

from twofold.base import tree
from twofold.base.errors import WorldError
from twofold.core.experience import Steps
from twofold.team.episodes import EpisodeWriter, longest
from twofold.team.worlds.matrix import TwoStepConfig, two_step
from twofold.team.worlds.space import TeamShape, shape_of, team_space


def writer_and_world(rows=2):
    world = two_step(TwoStepConfig(), rows=rows, purpose="train")
    return EpisodeWriter(rows, world.single_observation_space, world.single_action_space), world


def play(writer, world, obs, actions, valid=(True, True)):
    after, reward, terminated, truncated, _ = world.step(np.array(actions))
    steps = Steps(obs, np.array(actions), reward, after, terminated, truncated, np.array(valid))
    written = writer.step(steps)
    return after, None if written is None else written.items


def test_an_episode_comes_out_when_it_ends_with_its_mask_and_padding():
    writer, world = writer_and_world()
    obs, _ = world.reset(seed=[0, 1])
    obs, items = play(writer, world, obs, [[1, 0], [0, 1]])
    assert items is None
    _, items = play(writer, world, obs, [[1, 1], [0, 0]])
    assert items.filled.tolist() == [[1, 1, 0], [1, 1, 0]]
    assert items.terminated.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert items.reward.tolist() == [[0, 8, 0], [0, 7, 0]]
    assert items.action[0].tolist() == [[1, 0], [1, 1], [0, 0]]
    assert items.obs["state"].shape == (2, 4, 3) and items.obs["state"][0, 1].tolist() == [0, 0, 1]


def test_blank_has_the_shapes_of_what_comes():
    writer, world = writer_and_world()
    obs, _ = world.reset(seed=[0, 1])
    obs, _ = play(writer, world, obs, [[1, 0], [0, 1]])
    _, items = play(writer, world, obs, [[1, 1], [0, 0]])
    for (path, blank), (other, leaf) in zip(tree.items(writer.blank()), tree.items(items), strict=True):
        assert path == other and blank.shape[1:] == leaf.shape[1:] and blank.dtype == leaf.dtype


def test_a_broken_row_loses_its_episode_and_the_others_keep_theirs():
    writer, world = writer_and_world()
    obs, _ = world.reset(seed=[0, 1])
    obs, _ = play(writer, world, obs, [[1, 0], [0, 1]], valid=(False, True))
    _, items = play(writer, world, obs, [[1, 1], [0, 0]])
    assert items.filled.sum(1).tolist() == [1, 2]


def test_a_writer_goes_on_exactly_from_its_state():
    writer, world = writer_and_world()
    other, _ = writer_and_world()
    obs, _ = world.reset(seed=[0, 1])
    obs, _ = play(writer, world, obs, [[1, 0], [0, 1]])
    other.load_state_dict(tree.copy(writer.state_dict()))
    after, reward, terminated, truncated, _ = world.step(np.ones((2, 2), int))
    steps = Steps(obs, np.ones((2, 2), int), reward, after, terminated, truncated, np.ones(2, bool))
    assert tree.equal(writer.step(steps), other.step(steps))


def test_an_episode_longer_than_declared_is_an_error():
    writer, world = writer_and_world(rows=1)
    obs, _ = world.reset(seed=[0])
    no = np.zeros(1, bool)
    steps = Steps(obs, np.zeros((1, 2), int), np.zeros(1), obs, no, no, ~no)
    for _ in range(3):
        writer.step(steps)
    with pytest.raises(WorldError, match="longer than the 3 steps"):
        writer.step(steps)


def test_longest_counts_the_played_steps():
    assert longest(np.array([[1, 1, 0, 0], [1, 1, 1, 0]])) == 3


def test_team_space_tells_its_sizes():
    shape = TeamShape(agents=3, obs=5, state=7, actions=4, limit=9)
    assert shape_of(team_space(shape)) == shape
