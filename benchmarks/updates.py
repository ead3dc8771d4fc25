"""Updates per second of TD3 against the pure matrix products of the same update.

    python benchmarks/updates.py [--threads 1 2] [--seconds 20]

One process for each thread count. Products, fused updates and autograd updates alternate in short chunks, and
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
CHUNK_SECONDS = 0.15
QUIET_CORES = 0.2


def measure(threads: int, seconds: float = 20.0) -> dict[str, float]:
    """Medians for one thread count, from a process of its own (torch reads its settings when imported)."""
    command = [sys.executable, __file__, "--child", str(threads), "--seconds", str(seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_here(threads: int, seconds: float) -> dict[str, float]:
    """What `measure` returns, in this process."""
    import torch

    contenders: dict[str, tuple[int, Callable[[], None]]] = {
        "products": (threads, products()),
        "fused": (threads, fused_update()),
        "autograd": (threads, autograd_update()),
    }
    rates, noise = interleaved(contenders, seconds, time.thread_time if threads == 1 else time.perf_counter)
    torch.set_num_threads(1)
    return {
        "threads": threads,
        **{f"{name}_per_second": rate for name, rate in rates.items()},
        "fused_share_of_products": rates["fused"] / rates["products"],
        "autograd_share_of_products": rates["autograd"] / rates["products"],
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


class Networks:
    """Online and target networks of HalfCheetah's size, and one batch."""

    def __init__(self) -> None:
        import torch

        from twofold.nets import MLP, Adam, Flat, Twin, copy_of

        generator = torch.Generator().manual_seed(0)
        actor = MLP(OBS, HIDDEN, ACTION, output="tanh", generator=generator)
        critic = Twin(OBS, ACTION, HIDDEN, generator=generator)
        self.actor, self.critic = Flat(actor), Flat(critic)
        self.target_actor, self.target_critic = Flat(copy_of(actor)), Flat(copy_of(critic))
        self.actor_adam, self.critic_adam = Adam(self.actor, 3e-4), Adam(self.critic, 3e-4)
        rows = torch.randn(BATCH, 2 * OBS + ACTION + 1, generator=generator)
        self.obs, self.action, self.next_obs, reward = torch.split(rows, [OBS, ACTION, OBS, 1], dim=1)
        self.reward = reward[:, 0]
        self.terminated, self.discount = torch.zeros(BATCH), torch.full((BATCH,), 0.99)
        self.noise = torch.empty(BATCH, ACTION)

    def draw_noise(self) -> Any:
        """Clipped target noise."""
        return self.noise.normal_(0, 0.2).clamp_(-0.5, 0.5)

    def track(self) -> None:
        """Move both targets."""
        from twofold.nets import track

        track(self.target_critic, self.critic, 0.005)
        track(self.target_actor, self.actor, 0.005)


def fused_update() -> Callable[[], None]:
    """One whole update: noise, targets, gradients, Adam, and every second time actor and targets."""
    from twofold.learners.fused import FusedTD3

    n, updates = Networks(), 0
    engine = FusedTD3(n.actor, n.critic, n.target_actor, n.target_critic, BATCH)

    def update() -> None:
        nonlocal updates
        updates += 1
        target = engine.target(n.next_obs, n.reward, n.discount, n.terminated, n.draw_noise())
        engine.critic_gradients(n.obs, n.action, target)
        n.critic_adam.step()
        if updates % DELAY == 0:
            engine.actor_gradients(n.obs)
            n.actor_adam.step()
            n.track()

    return update


def autograd_update() -> Callable[[], None]:
    """The same update by autograd on the same modules."""
    import torch

    from twofold.nets import Twin

    n, updates = Networks(), 0
    first = cast(Twin, n.critic.module).first

    def target() -> Any:
        with torch.no_grad():
            action = (n.target_actor.module(n.next_obs) + n.draw_noise()).clamp(-1, 1)
            value = n.target_critic.module(n.next_obs, action).amin(dim=0)
            return n.reward + n.discount * (1 - n.terminated) * value

    def update() -> None:
        nonlocal updates
        updates += 1
        n.critic.zero_grad()
        errors = n.critic.module(n.obs, n.action) - target()
        errors.square().mean(dim=1).sum().backward()
        n.critic_adam.step()
        if updates % DELAY == 0:
            n.actor.zero_grad()
            n.critic.module.requires_grad_(False)
            (-first(n.obs, n.actor.module(n.obs)).mean()).backward()  # type: ignore[no-untyped-call]
            n.critic.module.requires_grad_(True)
            n.actor_adam.step()
            n.track()

    return update


def act_microseconds(calls: int = 2000) -> float:
    """Median time of the numpy actor for one observation."""
    import numpy as np

    from twofold.nets import MLP
    from twofold.nets.acting import NumpyActor

    actor = NumpyActor(cast(MLP, Networks().actor.module))
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
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(json.dumps(measure_here(arguments.child, arguments.seconds)))
    else:
        print_table([measure(threads, arguments.seconds) for threads in arguments.threads])


if __name__ == "__main__":
    main()
