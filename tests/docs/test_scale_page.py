"""The how-to of a cluster, its commands run as written on two nodes of one machine, with a token."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ray_nodes import ONE_AFTER_THE_OTHER
from test_documentation import CONTROL, SMALL, blocks

pytest.importorskip("ray", reason="Ray needs the extra `ray`")
pytestmark = [pytest.mark.docs, ONE_AFTER_THE_OTHER]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def as_here(line: str, shared: Path, port: int) -> list[str]:
    """A command of the page with this machine in the place of the first, and a free port."""
    words = shlex.split(line)
    if words[0] == "ray":
        words[:1] = [sys.executable, "-m", "ray.scripts.scripts"]
    elif words[0] == "twofold":
        words[:1] = [sys.executable, "-m", "twofold"]
        words += [*(f"trainer.{setting}" for setting in CONTROL), *SMALL]
    return [
        w.replace("FIRST", "127.0.0.1").replace("6379", str(port)).replace("/shared", str(shared))
        for w in words
    ]


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def alive(port: int, environment: dict[str, str]) -> int:
    """How many nodes the cluster has."""
    code = f"import ray; ray.init(address='127.0.0.1:{port}'); print(sum(n['Alive'] for n in ray.nodes()))"
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    return int(found.stdout.split()[-1]) if found.stdout.split() else 0


def test_a_cluster_of_two_nodes_comes_up_and_trains_as_the_page_says(tmp_path: Path) -> None:
    lines = [
        line for kind, text in blocks("docs/scale.md") if kind == "bash" for line in text.strip().splitlines()
    ]
    exported = [line.removeprefix("export ") for line in lines if line.startswith("export ")]
    assert exported == ["RAY_AUTH_MODE=token"] * 2
    lines = [line for line in lines if not line.startswith("export ")]
    assert [line.split()[0:2] for line in lines] == [
        ["ray", "get-auth-token"],
        ["ray", "start"],
        ["ray", "start"],
        ["twofold", "train"],
    ]
    port = free_port()
    token, head, other, train = (as_here(line, tmp_path, port) for line in lines)
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("RAY_AUTH_MODE", None)
    of_nodes = {**environment, "RAY_AUTH_MODE": "token"}
    assert subprocess.run(token, env=environment, check=False).returncode == 0
    assert (tmp_path / ".ray" / "auth_token").exists()
    nodes = [subprocess.Popen(head, env=of_nodes, stdout=subprocess.DEVNULL)]
    try:
        until = time.monotonic() + 120
        while not listens(port):
            assert time.monotonic() < until and nodes[0].poll() is None
            time.sleep(0.2)
        nodes.append(subprocess.Popen(other, env=of_nodes, stdout=subprocess.DEVNULL))
        while alive(port, of_nodes) < 2:  # each start takes seconds
            assert time.monotonic() < until + 120 and nodes[1].poll() is None
        stranger = {**environment, "HOME": str(tmp_path / "nobody"), "RAY_AUTH_MODE": "disabled"}
        refused = subprocess.run(train, env=stranger, capture_output=True, text=True, check=False)
        assert refused.returncode == 2 and "wants its token" in refused.stderr, refused.stderr
        assert subprocess.run(train, env=environment, check=False).returncode == 0
    finally:
        for node in reversed(nodes):
            node.terminate()
            node.wait(60)
    assert len(list((tmp_path / "runs").rglob("test.json"))) == 2
