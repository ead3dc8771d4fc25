"""8. Files of a stranger: no code runs, nothing is written outside, and lies are refused before they cost anything."""

from __future__ import annotations

import ast
import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import HERE, Driver

import twofold
from twofold.base.errors import CheckpointError, ConfigError, UserError
from twofold.settings.config import read_yaml
from twofold.store import files
from twofold.store.policy_file import load_policy, seal, unseal
from twofold.store.run import Run

Straight = tuple[Path, dict[str, str]]
PACKAGE = Path(twofold.__file__).parent


@pytest.fixture
def victim(straight: Straight, tmp_path: Path) -> Path:
    """An unfinished run of ours, for a stranger to put things into."""
    folder = tmp_path / "run"
    shutil.copytree(straight[0], folder)
    (folder / "test.json").unlink()
    return folder


@pytest.fixture
def treasure(tmp_path: Path) -> Path:
    """A file outside of the run directory that must stay as it is."""
    path = tmp_path / "treasure"
    path.write_text("untouched")
    return path


def pickled_command(path: Path, proof: Path) -> bytes:
    """A pickle that would write a file when loaded, made by hand."""
    return b"cposix\nsystem\n(S'touch " + str(proof).encode() + b"'\ntR."


# ---- the source itself -------------------------------------------------------------------------------------------

FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("torch", "load"),
    ("os", "system"),
}


def offences(path: Path) -> list[str]:
    """Uses of anything that runs code out of a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in FORBIDDEN]
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN:
            found.append(str(node.module))
        if isinstance(node, ast.Call):
            found += _calls(node)
    return [f"{path.relative_to(PACKAGE)}: {what}" for what in found]


def _calls(node: ast.Call) -> list[str]:
    function = node.func
    found = [function.id] if isinstance(function, ast.Name) and function.id in CALLS else []
    if (
        isinstance(function, ast.Attribute)
        and (getattr(function.value, "id", ""), function.attr) in ATTRIBUTES
    ):
        found.append(ast.unparse(function))
    for keyword in node.keywords:
        if isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
            found += [keyword.arg] if keyword.arg in ("allow_pickle", "shell") else []
    return found


def test_nothing_in_the_source_can_run_code_out_of_a_file() -> None:
    sources = sorted(PACKAGE.rglob("*.py"))
    assert len(sources) > 30
    assert [offence for path in sources for offence in offences(path)] == []


def test_the_search_finds_what_it_looks_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    path = tmp_path / "x.py"
    path.write_text(
        "import pickle\nfrom dill import loads\neval('1')\nyaml.load(x)\nnp.load(x, allow_pickle=True)\n"
    )
    assert len(offences(path)) == 5


# ---- policy files ------------------------------------------------------------------------------------------------


def resealed(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A policy file with a changed description and a right checksum."""
    arrays, about = unseal(source)
    change(about)
    target.write_bytes(seal(arrays, about))
    return target


def put(*path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets one value of the description."""

    def change(about: dict[str, Any]) -> None:
        for key in path[:-1]:
            about = about[key]
        about[path[-1]] = value

    return change


BOX = {"kind": "box", "dtype": "float32", "low": -1.0, "high": 1.0}
DEEP: Any = {"kind": "dict", "spaces": {}}
for _ in range(300):
    DEEP = {"kind": "dict", "spaces": {"x": DEEP}}
LIES = {
    "a hidden layer of a billion": put("values", "networks.actor_hidden", value=[10**9]),
    "critics of a billion": put("values", "networks.critic_hidden", value=[10**9]),
    "many wide layers": put("values", "networks.critic_hidden", value=[60_000] * 50),
    "an observation of a billion": put("observation_space", value={**BOX, "shape": [10**9]}),
    "an action of a billion": put("action_space", value={**BOX, "shape": [10**9]}),
    "a negative shape": put("observation_space", value={**BOX, "shape": [-1]}),
    "objects": put("observation_space", value={**BOX, "shape": [3], "dtype": "O"}),
    "an unknown space": put("observation_space", value={"kind": "os.system"}),
    "no space": put("observation_space", value=None),
    "deeply nested spaces": put("observation_space", value=DEEP),
    "another shape": put("observation_space", value={**BOX, "shape": [4]}),
    "networks to import": put("values", "networks.name", value="os/system"),
    "settings that are a list": put("values", value=[1, 2]),
    "an unknown setting": put("values", "learner.evil", value=1),
    "arrays that are not there": put("rest", value={"actor": {"x": {"@": "/nowhere"}}, "normaliser": None}),
    "arrays that are numbers": put("rest", value={"actor": 7, "normaliser": None}),
    "a path that is a list": put("rest", value={"actor": {"x": {"@": []}}, "normaliser": None}),
    "bounds that are text": put("action_bounds", value=["rm", "-rf"]),
    "bounds of another shape": put("action_bounds", value=[[1.0, 2.0], [3.0, 4.0]]),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_policy_file_that_lies_is_refused(lie: Any, straight: Straight, tmp_path: Path) -> None:
    path = resealed(straight[0] / "best.safetensors", tmp_path / "lie.safetensors", lie)
    assert "antigravity" not in sys.modules and "this" not in sys.modules
    with limited_memory(1 << 30), pytest.raises(UserError):
        load_policy(path)
    assert "antigravity" not in sys.modules and "this" not in sys.modules


WORLD_LIES = {
    "a module to import": put("values", "env", value="antigravity/world"),
    "our own command line": put("values", "env", value="__main__/x"),
    "a gym id with a module": put("values", "env_args.id", value="this:Env-v0"),
}


@pytest.mark.parametrize("lie", WORLD_LIES.values(), ids=WORLD_LIES.keys())
def test_policy_that_lies_about_its_world_acts_and_its_world_is_refused(
    lie: Any, straight: Straight, tmp_path: Path
) -> None:
    policy = load_policy(resealed(straight[0] / "best.safetensors", tmp_path / "lie.safetensors", lie))
    assert np.isfinite(policy.act(np.zeros(policy.observation_space.shape))).all()
    with pytest.raises(UserError):
        _ = policy.config
    assert "antigravity" not in sys.modules and "this" not in sys.modules


class limited_memory:
    """No more address space than now plus `more`: what a lie would allocate fails the test."""

    def __init__(self, more: int) -> None:
        self.more = more

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + self.more, self.before[1]))

    def __exit__(self, *_: Any) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self.before)


def zipped(tmp: Path) -> bytes:
    with zipfile.ZipFile(tmp / "z", "w") as archive:
        archive.writestr("../../evil", "x")
    return (tmp / "z").read_bytes()


HEADERS: dict[str, Callable[[Path], bytes]] = {
    "a pickle": lambda tmp: pickled_command(tmp, tmp / "proof"),
    "a zip with a path upwards": zipped,
    "a header that claims a terabyte": lambda tmp: (10**12).to_bytes(8, "little") + b"{}",
    "tensors that claim a terabyte": lambda tmp: header(
        {"x": {"dtype": "F32", "shape": [10**6, 250_000], "data_offsets": [0, 10**12]}}
    ),
    "deeply nested JSON": lambda tmp: (200_000).to_bytes(8, "little") + b"[" * 200_000,
    "deeply nested description": lambda tmp: header({"__metadata__": {"twofold": "[" * 200_000}}),
    "no description": lambda tmp: header({"__metadata__": {}}),
    "a description that is a number": lambda tmp: header({"__metadata__": {"twofold": "1"}}),
    "nothing": lambda tmp: b"",
    "noise": lambda tmp: np.random.default_rng(0).bytes(100_000),
}


def header(content: dict[str, Any]) -> bytes:
    text = json.dumps(content).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize("make", HEADERS.values(), ids=HEADERS.keys())
def test_file_that_is_no_policy_is_refused(make: Callable[[Path], bytes], tmp_path: Path) -> None:
    path = tmp_path / "best.safetensors"
    path.write_bytes(make(tmp_path))
    with limited_memory(1 << 30), pytest.raises(CheckpointError):
        load_policy(path)
    assert not (tmp_path / "proof").exists()


def test_refusing_costs_less_than_a_second_and_a_hundred_megabytes(
    straight: Straight, tmp_path: Path
) -> None:
    """All lies and all false files in one fresh process, measured there after its imports."""
    paths = [
        resealed(straight[0] / "best.safetensors", tmp_path / f"lie{i}", lie)
        for i, lie in enumerate(LIES.values())
    ]
    for i, make in enumerate(HEADERS.values()):
        (tmp_path / f"false{i}").write_bytes(make(tmp_path))
        paths.append(tmp_path / f"false{i}")
    script = (HERE / "refusals.py", straight[0], *paths)
    measured = subprocess.run(
        [sys.executable, *map(str, script)], capture_output=True, text=True, check=True, timeout=300
    )
    results = json.loads(measured.stdout)
    assert len(results) == len(paths)
    assert {path: mb for path, (_, mb) in results.items() if mb > 100} == {}
    # Processor time, not wall time: the machine may be busy.
    assert {path: seconds for path, (seconds, _) in results.items() if seconds > 1} == {}


# ---- run directories ---------------------------------------------------------------------------------------------


def refused(driver: Driver, folder: Path) -> str:
    """The message of a resume that must be refused without a traceback."""
    code, child = driver.run(["resume", str(folder)])
    assert code == 2, child.output()
    assert "Traceback" not in child.output()
    return child.output()


@pytest.mark.parametrize("name", ["state.safetensors", "state.json", "MANIFEST.json"])
def test_pickle_under_our_names_is_never_loaded(
    driver: Driver, victim: Path, tmp_path: Path, name: str
) -> None:
    for folder in (victim / "checkpoints").glob("step_*"):
        (folder / name).write_bytes(pickled_command(folder, tmp_path / "proof"))
    assert "no checkpoint in" in refused(driver, victim)
    assert not (tmp_path / "proof").exists()


def remade_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    from twofold.store.checkpoint import _own_checksum

    for path in (folder / "checkpoints").glob("step_*/MANIFEST.json"):
        manifest = json.loads(path.read_bytes())
        del manifest["blake2b"]
        change(manifest)
        path.write_bytes(files.to_json({**manifest, "blake2b": _own_checksum(manifest)}))


ENTRY = {"bytes": 9, "blake2b": files.checksum(b"untouched")}
MANIFESTS = {
    "a path upwards": lambda m: m["files"].update({"../../../treasure": ENTRY}),
    "an absolute path": lambda m: m["files"].update({"/etc/passwd": ENTRY}),
    "a name with a line break": lambda m: m["files"].update({"x.json\n": ENTRY}),
    "a size of a terabyte": lambda m: m["files"]["state.json"].update(bytes=10**12),
    "a size that is text": lambda m: m["files"]["state.json"].update(bytes="9"),
    "files that are a list": lambda m: m.update(files=[1]),
    "an entry that is a list": lambda m: m["files"].update({"state.json": []}),
    "no state": lambda m: m["files"].pop("state.json") and m["files"].pop("state.safetensors"),
    "another step": lambda m: m.update(step=1),
}


@pytest.mark.parametrize("change", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_manifest_that_lies_is_refused(driver: Driver, victim: Path, treasure: Path, change: Any) -> None:
    remade_manifest(victim, change)
    if change is MANIFESTS["no state"]:  # such a manifest is consistent; the files must be gone too
        for path in (victim / "checkpoints").glob("step_*/state.*"):
            path.unlink()
    assert "no checkpoint in" in refused(driver, victim)
    assert treasure.read_text() == "untouched"


@pytest.mark.parametrize(
    "name", ["lock", "metrics.jsonl", "evaluations.jsonl", "timing.jsonl", "config.json"]
)
def test_link_in_place_of_a_file_is_not_followed(
    driver: Driver, victim: Path, treasure: Path, name: str
) -> None:
    path = victim / name
    for folder in (victim / "checkpoints").glob("step_0*"):
        shutil.rmtree(folder)  # starts from the beginning, so that everything is written
    path.unlink(missing_ok=True)
    path.symlink_to(treasure)
    refused(driver, victim)
    assert treasure.read_text() == "untouched"


@pytest.mark.parametrize(
    "name", ["best.safetensors", "curve.png", "test.json", ".best.safetensors.tmp", ".test.json.tmp"]
)
def test_link_in_place_of_what_is_written_whole_is_replaced(
    driver: Driver, victim: Path, treasure: Path, name: str
) -> None:
    for folder in (victim / "checkpoints").glob("step_0*"):
        shutil.rmtree(folder)
    (victim / name).unlink(missing_ok=True)
    (victim / name).symlink_to(treasure)
    code, child = driver.run(["resume", str(victim)])
    assert code == 0, child.output()
    assert treasure.read_text() == "untouched" and not (victim / name).is_symlink()


def test_checkpoints_behind_a_link_are_refused(driver: Driver, victim: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (victim / "checkpoints").rename(elsewhere)
    (victim / "checkpoints").symlink_to(elsewhere)
    before = sorted(str(p) for p in elsewhere.rglob("*"))
    assert "symbolic link: refused" in refused(driver, victim)
    assert sorted(str(p) for p in elsewhere.rglob("*")) == before


def test_one_checkpoint_behind_a_link_is_refused(driver: Driver, victim: Path, tmp_path: Path) -> None:
    for folder in list((victim / "checkpoints").glob("step_*")):
        folder.rename(tmp_path / folder.name)
        folder.symlink_to(tmp_path / folder.name)
    assert "symbolic link: refused" in refused(driver, victim)


def test_state_of_another_shape_is_refused_without_a_traceback(driver: Driver, victim: Path) -> None:
    from twofold.store.checkpoint import Checkpoints

    store = Checkpoints(victim / "checkpoints")
    for rest in (
        {},
        {"logs": 1},
        {"logs": {"metrics": 0, "evaluations": 0}},
        {"logs": {"metrics": 0, "evaluations": 0}, "collector": 1},
    ):
        shutil.rmtree(victim / "checkpoints")
        store.save(600, rest, None)
        refused(driver, victim)


CONFIGS = {
    "a module to import": {"env": "antigravity/x"},
    "our own command line": {"env": "__main__/x"},
    "a gym id with a module": {"env_args.id": "this:Env-v0"},
    "an unknown setting": {"learner.evil": "x"},
    "a million million rows": {"trainer.rows": 10**12},
    "a hidden layer of text": {"networks.actor_hidden": ["x"]},
}


@pytest.mark.parametrize("values", CONFIGS.values(), ids=CONFIGS.keys())
def test_config_of_a_stranger_is_checked_like_any_other(
    driver: Driver, victim: Path, values: dict[str, Any]
) -> None:
    record = json.loads((victim / "config.json").read_bytes())
    record["values"].update(values)
    (victim / "config.json").write_text(json.dumps(record))
    refused(driver, victim)


@pytest.mark.parametrize(
    "content", [b"[" * 500_000, b"\x80\x04", b"null", b'{"values": []}', b"[]," * 2_000_000]
)
def test_config_that_is_no_config_is_refused(victim: Path, content: bytes) -> None:
    (victim / "config.json").write_bytes(content)
    with limited_memory(1 << 30), pytest.raises(UserError):
        Run.open(victim)


YAMLS = {
    "an object": "x: !!python/object/apply:os.system ['touch {proof}']",
    "a name": "x: !!python/name:os.system",
    "a new object": "!!python/object/new:os.system ['touch {proof}']",
    "a billion laughs": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "deep nesting": "[" * 30_000,
    "deep nesting of dashes": "- " * 15_000,
    "itself": "extends: config",
    "a list": "- 1",
    "too large": "x: 1 # " + "y" * 100_000,
}


@pytest.mark.parametrize("text", YAMLS.values(), ids=YAMLS.keys())
def test_yaml_that_means_harm_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text.replace("{proof}", str(tmp_path / "proof")))
    with limited_memory(1 << 30), pytest.raises(ConfigError):
        read_yaml(tmp_path / "config.yaml")
    assert not (tmp_path / "proof").exists()


def test_device_or_pipe_in_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match="not a regular file"):
        Run.open(tmp_path)
