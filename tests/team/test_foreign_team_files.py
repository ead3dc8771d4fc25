"""Maps, partner sets and games that a stranger names: one line, whatever they claim, and nothing is imported."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from twofold.base.errors import ConfigError, UserError
from twofold.rows.world import make_world
from twofold.settings.config import load
from twofold.team.partners import gather_population, split_partners
from twofold.team.sets import About, Partner, PartnerSet, read_partners
from twofold.team.worlds.battlefield import load_battlefield
from twofold.team.worlds.packages import LBFConfig, ParallelConfig, ParticleConfig, lbf, mpe, pettingzoo
from twofold.team.worlds.partnered import inner_world

MAP: dict[str, Any] = {
    "limit": 20,
    "allies": [{"type": "marine", "count": 3, "at": [9, 16]}],
    "enemies": [{"type": "marine", "count": 3, "at": [22, 16]}],
}
UNIT = {"type": "marine", "count": 1, "at": [5, 5]}
MAPS: dict[str, dict[str, Any]] = {
    "a billion units": {"allies": [UNIT | {"count": 10**9}]},
    "three thousand units": {"allies": [UNIT | {"count": 3_000}]},
    "two thousand groups": {"allies": [UNIT] * 2_000},
    "no units": {"allies": [UNIT | {"count": 0}]},
    "hits of 400 digits": {"types": {"marine": {"hits": 10**400}}},
    "a billion hits": {"types": {"marine": {"hits": 10**9}}},
    "a negative limit": {"limit": -5},
    "a limit of a million million": {"limit": 10**12},
    "negative damage": {"types": {"marine": {"damage": -5}}},
    "speed beyond numbers": {"types": {"marine": {"speed": 1e308}}},
    "no health": {"types": {"marine": {"health": 0}}},
    "a size that is a number": {"size": 5},
    "a size of nothing": {"size": [0, 0]},
    "a size beyond sight": {"size": [1e9, 1e9]},
    "a place that is a text": {"allies": [UNIT | {"at": "x"}]},
    "a place outside": {"allies": [UNIT | {"at": [500, 5]}]},
    "a place that is none": {"allies": [UNIT | {"at": [float("nan"), 5]}]},
    "an unknown type": {"allies": [UNIT | {"type": "dragon"}]},
    "an unknown name": {"dragons": 1},
    "cliffs that are text": {"cliffs": ["x"]},
    "a hundred thousand cliffs": {"cliffs": [[0, 0, 1, 1]] * 100_000},
    "a type named like an escape code": {"types": {"\x1b[2J": {"health": "x"}}},
}


@pytest.mark.parametrize("change", MAPS.values(), ids=MAPS.keys())
def test_maps_with_absurd_numbers_are_refused_by_name(change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(MAP | change))
    with pytest.raises(ConfigError, match=r"m\.json") as refused:
        load_battlefield(str(tmp_path / "m.json"))
    assert "\x1b" not in str(refused.value)


ODD: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "nothing": lambda path: path.write_text(""),
    "noise": lambda path: path.write_bytes(bytes(range(256))),
    "a list": lambda path: path.write_text("[]"),
    "lists in lists": lambda path: path.write_text("[" * 100_000),
    "a name twice": lambda path: path.write_text('{"limit": 1, "limit": 2}'),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD.keys())
def test_maps_and_partner_sets_that_are_no_files_of_ours_are_one_line(
    make: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / "m.json")
    with pytest.raises(UserError, match=r"m\.json"):
        load_battlefield(str(tmp_path / "m.json"))
    make(tmp_path / "partners.json")
    with pytest.raises(UserError, match=r"partners\.json"):
        read_partners(tmp_path)


def test_a_map_behind_a_link_is_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text(json.dumps(MAP))
    (tmp_path / "m.json").symlink_to(tmp_path / "real")
    assert load_battlefield(str(tmp_path / "m.json")).allies == 3


ABOUT = {"world": "team/lbf", "world_args": {}}
ONE = {"name": "a", "algorithm": "iql", "file": "a.safetensors", "blake2b": "x"}
SET = {"format": 1, "about": ABOUT, "partners": [ONE], "train": [], "test": []}
SETS: dict[str, Any] = {
    "about is a list": SET | {"about": []},
    "arguments are a text": SET | {"about": ABOUT | {"world_args": "x"}},
    "a split of lists": SET | {"train": [["a"]]},
    "a split of strangers": SET | {"train": ["b"]},
    "nobody": SET | {"partners": []},
    "one twice": SET | {"partners": [ONE, ONE]},
    "a file upwards": SET | {"partners": [ONE | {"file": "../../etc/passwd"}]},
    "a file without a name": SET | {"partners": [ONE | {"file": ""}]},
    "a format of 10,000 letters": SET | {"format": "x" * 10_000},
}


@pytest.mark.parametrize("content", SETS.values(), ids=SETS.keys())
def test_partner_sets_that_lie_are_one_line(content: Any, tmp_path: Path) -> None:
    (tmp_path / "partners.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=str(tmp_path)) as refused:
        read_partners(tmp_path)
    assert len(str(refused.value)) < 500


def test_partners_whose_names_say_no_seed_are_split_by_algorithm(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.safetensors").write_bytes(name.encode())
    partners = tuple(Partner(name, f"alg_{name}", tmp_path / f"{name}.safetensors") for name in "ab")
    found = PartnerSet(tmp_path, partners, (), (), About(world="team/lbf"))
    made = split_partners(found, test_algorithms=["alg_b"], test_seeds=[3])
    assert (made.train, made.test) == (("a",), ("b",))


def test_partners_are_not_gathered_into_a_folder_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError):
        gather_population(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_partners_play_in_no_world_of_partners() -> None:
    with pytest.raises(ConfigError, match="not in 'team/partnered'"):
        inner_world("team/partnered", {"partners": "x"}, 1, "train")


NAMES = [
    "test.api_test",
    "..os",
    "os",
    "utils.env",
    "butterfly.knights_v1; import os",
    "x" * 300 + "_v1",
    "a.b.c_v1",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_is_no_game_is_refused_before_anything_is_imported(name: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigError, match="cannot be the name of a game"):
        pettingzoo(ParallelConfig(id=name), rows=1, purpose="eval")
    with pytest.raises(ConfigError, match="cannot be the name of a game"):
        mpe(ParticleConfig(id=name, batched=False), rows=1, purpose="eval")
    assert {name for name in set(sys.modules) - before if not name.startswith("twofold")} == set()


@pytest.mark.parametrize("name", ["this:Env-v0", "antigravity:x", "../x", "x" * 300])
def test_an_environment_of_another_module_is_refused_before_it_is_imported(name: str) -> None:
    pytest.importorskip("lbforaging")
    with pytest.raises(ConfigError, match="cannot be the name of a game"):
        lbf(LBFConfig(id=name), rows=1, purpose="eval")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("kwargs", [{"N": 10**9}, {"N": "x"}, {"N": 0}, {"local_ratio": 5}])
def test_a_game_of_a_billion_agents_is_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        make_world(
            load(None, None, env="team/mpe", env_args={"kwargs": kwargs}).config, purpose="eval", rows=1
        )
