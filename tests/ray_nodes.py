"""A Ray cluster of several nodes on one machine; tests that use it run one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

ONE_AFTER_THE_OTHER = pytest.mark.xdist_group("ray")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Two nodes of one processor each, beside a head that runs no jobs; `nodes` can be killed."""
    ray = pytest.importorskip("ray", reason="Ray needs the extra `ray`")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray takes 15: beside other work its jobs would starve
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.nodes = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    yield made
    ray.shutdown()
    made.shutdown()


def kill_node(cluster: Any, number: int = 0) -> None:
    """As if its plug was pulled."""
    cluster.remove_node(cluster.nodes[number], allow_graceful=False)


def only_one_node(cluster: Any) -> None:
    """From now on there is one node to run jobs on."""
    cluster.remove_node(cluster.nodes.pop(), allow_graceful=True)
