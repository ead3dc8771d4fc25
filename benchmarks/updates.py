"""Updates per second of TD3 against the pure matrix products of the same update.

    python benchmarks/updates.py [--threads 1 2] [--seconds 20] [--batch 256 128]

One process for each thread count. Products and updates by each engine alternate in short chunks, and
the medians are compared. With one thread the clock is the thread's CPU time, which a busy neighbour hardly
touches; with more it is the wall clock, and chunks in which other processes used a CPU are left out as long
as some remain. `others_cores` and `quiet_chunks` say how far the numbers can be trusted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, cast

OBS, ACTION, HIDDEN, BATCH, DELAY = 17, 6, (256, 256), 256, 2
ENGINES = ("native", "fused", "autograd")
CHUNK_SECONDS = 0.15
QUIET_CORES = 0.2


def measure(threads: int, seconds: float = 20.0, rows: int = BATCH) -> dict[str, float]:
    """Medians for one thread count, from a process of its own (torch reads its settings when imported)."""
    command = [
        sys.executable,
        __file__,
        "--child",
        str(threads),
        "--seconds",
        str(seconds),
        "--batch",
        str(rows),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_here(threads: int, seconds: float, rows: int) -> dict[str, float]:
    """What `measure` returns, in this process."""
    import torch

    from twofold.native.library import absent

    torch.set_flush_denormal(True)  # as a run has it
    engines = [name for name in ENGINES if name != "native" or not absent()]
    contenders: dict[str, tuple[int, Callable[[], None]]] = {"products": (threads, products(rows))}
    contenders |= {name: (threads, update_by(name, rows)) for name in engines}
    rates, noise = interleaved(contenders, seconds, time.thread_time if threads == 1 else time.perf_counter)
    torch.set_num_threads(1)
    return {
        "threads": threads,
        "batch": rows,
        **{f"{name}_per_second": rate for name, rate in rates.items()},
        **{f"{name}_share_of_products": rates[name] / rates["products"] for name in engines},
        "act_microseconds": act_microseconds(),
        **noise,
    }


def interleaved(
    contenders: dict[str, tuple[int, Callable[[], None]]], seconds: float, clock: Callable[[], float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Median calls per second of each contender over chunks taken in turn, and how busy the machine was."""
    import torch

    chunks: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not all(len(taken) >= 3 for taken in chunks.values()):
        for name, (threads, call) in contenders.items():
            torch.set_num_threads(threads)
            for _ in range(2 * DELAY):
                call()
            chunks[name].append(chunk(call, clock))
    rates = {name: statistics.median(quiet(taken)) for name, taken in chunks.items()}
    others = [cores for taken in chunks.values() for _, cores in taken]
    noise = {
        "others_cores": statistics.median(others),
        "quiet_chunks": sum(cores < QUIET_CORES for cores in others) / len(others),
    }
    return rates, noise


def quiet(taken: list[tuple[float, float]]) -> list[float]:
    """Rates of the chunks in which nobody else ran; of all chunks when fewer than three were quiet."""
    undisturbed = [rate for rate, others in taken if others < QUIET_CORES]
    return undisturbed if len(undisturbed) >= 3 else [rate for rate, _ in taken]


def chunk(call: Callable[[], None], clock: Callable[[], float]) -> tuple[float, float]:
    """Calls per second of one chunk of whole delays, and the cores that other processes used meanwhile."""
    busy, own, wall = machine_seconds(), time.process_time(), time.perf_counter()
    calls, start = 0, clock()
    while (elapsed := clock() - start) < CHUNK_SECONDS or calls % DELAY:
        call()
        calls += 1
    others = machine_seconds() - busy - (time.process_time() - own)
    return calls / elapsed, others / (time.perf_counter() - wall)


def machine_seconds() -> float:
    """CPU seconds that all processes have used since the machine started (0 if it does not tell)."""
    if not os.path.exists("/proc/stat"):
        return 0.0
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def products(rows: int = BATCH) -> Callable[[], None]:
    """The matrix products of one update and nothing else: no bias, activation, loss, optimiser or copy."""
    import torch

    def layers(inputs: int, outputs: int) -> list[tuple[Any, Any, Any]]:
        sizes = [inputs, *HIDDEN, outputs]
        shapes = list(itertools.pairwise(sizes))
        return [(torch.randn(rows, a), torch.randn(a, b) / a**0.5, torch.randn(rows, b)) for a, b in shapes]

    actor, critics = layers(OBS, ACTION), [layers(OBS + ACTION, 1) for _ in range(2)]
    out_x = {width: torch.empty(rows, width) for width in {OBS, ACTION, *HIDDEN}}
    out_w = {tuple(w.shape): torch.empty_like(w) for _, w, _ in actor + critics[0]}
    out_y = {y.shape[1]: torch.empty_like(y) for _, _, y in actor + critics[0]}

    def forward(network: list[tuple[Any, Any, Any]]) -> None:
        for x, w, _ in network:
            torch.mm(x, w, out=out_y[w.shape[1]])

    def backward(network: list[tuple[Any, Any, Any]], of_weights: bool) -> None:
        for index, (x, w, y) in reversed(list(enumerate(network))):
            if of_weights:
                torch.mm(x.t(), y, out=out_w[tuple(w.shape)])
            if index:
                torch.mm(y, w.t(), out=out_x[w.shape[0]])
            elif not of_weights:
                torch.mm(y, w[OBS:].t(), out=out_x[ACTION])

    return _update_of_products(actor, critics, forward, backward)


def _update_of_products(
    actor: Any, critics: list[Any], forward: Callable[[Any], None], backward: Callable[[Any, bool], None]
) -> Callable[[], None]:
    updates = 0

    def update() -> None:
        nonlocal updates
        updates += 1
        forward(actor)
        for critic in critics:
            forward(critic)
        for critic in critics:
            forward(critic)
            backward(critic, True)
        if updates % DELAY == 0:
            forward(actor)
            forward(critics[0])
            backward(critics[0], False)
            backward(actor, True)

    return update


def update_by(engine: str, rows: int) -> Callable[[], None]:
    """One whole update of the learner, as the trainer calls it, and its look for what is not finite."""
    import numpy as np

    from twofold.core.experience import Transition

    learner = made(engine)
    block = np.random.default_rng(0).standard_normal((rows, 2 * OBS + ACTION + 3)).astype(np.float32)
    obs, action, next_obs, reward, ended, discount = np.split(
        block, np.cumsum([OBS, ACTION, OBS, 1, 1]), axis=1
    )
    ended[:], discount[:] = 0, 0.99
    batch = Transition(
        obs, action.clip(-1, 1, out=action), reward[:, 0], next_obs, ended[:, 0], discount[:, 0]
    )

    def update() -> None:
        learner.update(batch)
        learner.first_bad()

    return update


def made(engine: str) -> Any:
    """TD3 for worlds of HalfCheetah's size."""
    import numpy as np
    import torch
    from gymnasium.spaces import Box

    from twofold.core.seeding import Generators
    from twofold.learners.config import TD3Config
    from twofold.learners.td3 import TD3
    from twofold.learners.vector import VectorConfig, VectorNetworks

    spaces = Box(-np.inf, np.inf, (OBS,), np.float32), Box(-1, 1, (ACTION,), np.float32)
    networks = VectorNetworks(
        VectorConfig(actor_hidden=HIDDEN, critic_hidden=HIDDEN), *spaces, torch.Generator().manual_seed(0)
    )
    cfg = TD3Config(engine=engine, policy_delay=DELAY)
    return TD3(
        cfg, networks=networks, observation_space=spaces[0], action_space=spaces[1], rngs=Generators(0)
    )


def act_microseconds(calls: int = 2000) -> float:
    """Median time of the numpy actor for one observation."""
    import numpy as np

    from twofold.nets import MLP
    from twofold.nets.acting import NumpyActor

    actor = NumpyActor(cast(MLP, made("fused").nets.actor.module))
    obs = np.random.default_rng(0).standard_normal((1, OBS)).astype(np.float32)
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        actor.act(obs)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def print_table(results: list[dict[str, float]]) -> None:
    """One line for each thread count."""
    names = list(dict.fromkeys(name for result in results for name in result))
    for name in names:
        cells = [f"{result[name]:10.2f}" if name in result else " " * 10 for result in results]
        print(f"{name:32s}" + "".join(cells))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each thread count")
    parser.add_argument("--batch", type=int, nargs="+", default=[BATCH])
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps(measure_here(arguments.child, arguments.seconds, arguments.batch[0])))
    else:
        cases = itertools.product(arguments.batch, arguments.threads)
        print_table([measure(threads, arguments.seconds, rows) for rows, threads in cases])


if __name__ == "__main__":
    main()
