"""How fast a trained recommender is served: requests over HTTP under load, and lists for many users in one call.

python benchmarks/recsys_serving.py RUN --out=benchmarks/results/recsys/recsys_serving
python benchmarks/recsys_serving.py --items=100000 --users=100000      # a catalogue of that size, made up
The server is a process of its own; the load comes from this one, over connections that are kept open, each asking
again as soon as it is answered. Latency is measured by the asker, from the first byte sent to the last byte read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from twofold.core.seeding import Generators
from twofold.recsys.catalogue import Catalogue
from twofold.recsys.config import UsersConfig
from twofold.recsys.labels import Labels
from twofold.recsys.quit import Never
from twofold.recsys.recommend import Recommender, load_recommender
from twofold.recsys.truth import Factors
from twofold.recsys.users import Feelings, Rules, Users
from twofold.settings.config import load as load_config
from twofold.settings.config import own_settings
from twofold.store.policy_file import LoadedPolicy, make_learner
from twofold.store.provenance import provenance


def started(run: str, port: int) -> subprocess.Popen[str]:
    """A server that answers."""
    command = [sys.executable, "-m", "twofold", "serve", run, f"--port={port}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("http://"):
            break
    time.sleep(1.0)
    return server


def question(rng: random.Random, users: list[str], items: list[str], length: int) -> bytes:
    """A request as a browser would send it: a user, and what was shown in this session."""
    history = [{"item": item, "rating": 4} for item in rng.sample(items, min(length, len(items)))]
    body = json.dumps({"user": rng.choice(users), "history": history, "k": 10}).encode()
    head = f"POST /recommend HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def asker(port: int, questions: list[bytes], until: float, times: list[float], bad: list[str]) -> None:
    """One connection: ask, read, ask again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = 0
    while time.perf_counter() < until:
        begun = time.perf_counter()
        writer.write(questions[place % len(questions)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        times.append(time.perf_counter() - begun)
        if b" 200 " not in head[:20]:
            bad.append(head[:20].decode())
        place += 1
    writer.close()


async def load(port: int, askers: int, seconds: float, questions: list[bytes]) -> dict[str, float]:
    """Rate and latency under so many askers."""
    times: list[float] = []
    bad: list[str] = []
    begun = time.perf_counter()
    shares = [questions[n::askers] for n in range(askers)]
    await asyncio.gather(*(asker(port, share, begun + seconds, times, bad) for share in shares))
    took = time.perf_counter() - begun
    p50, p95, p99 = (1000 * float(np.quantile(times, q)) for q in (0.5, 0.95, 0.99))
    return {"requests/s": len(times) / took, "p50 ms": p50, "p95 ms": p95, "p99 ms": p99, "failed": len(bad)}


def bulk(run: str, count: int) -> dict[str, float]:
    """Lists of ten for `count` users in one call."""
    policy = load_recommender(run)
    names = policy.labels.users
    users = [names[row % len(names)] for row in range(count)]
    policy.recommend_many(users[:10])
    begun, cpu = time.perf_counter(), time.process_time()
    found = policy.recommend_many(users, 10)
    took, used = time.perf_counter() - begun, time.process_time() - cpu
    assert found.items.shape == (count, 10)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"users": count, "seconds": took, "CPU seconds": used, "peak GB": peak}


def made_up(items: int, users: int) -> Recommender:
    """A recommender that was not trained, for a catalogue of this size: it costs what a trained one costs."""
    rng, resolved = np.random.default_rng(0), load_config("td3_rec", "ratings")
    config = resolved.config
    cfg, unit = own_settings(UsersConfig, config.env_args), rng.standard_normal((items, 32), np.float32)
    sizes = ((users + 1, cfg.rank), (items, cfg.rank), (items, cfg.belief))
    factors = [0.1 * rng.standard_normal(size, np.float32) for size in sizes]
    names = [tuple(map(str, range(count))) for count in (users, items)]
    rated = np.sort(rng.integers(items, size=(users, 20)), axis=1).ravel()
    ends = np.arange(1, users + 1, dtype=np.int64) * 20
    labels = Labels(names[0], names[1], rated_ends=ends, rated_items=rated.astype(np.int32))
    catalogue = Catalogue(unit / np.linalg.norm(unit, axis=1, keepdims=True), *factors, 0.8, labels)
    feelings = Feelings((Factors(factors[0][:-1], factors[1], 1.0, 5.0),), Never(), 1)
    world = Users(1, catalogue, feelings, Rules(30, 30, 7, "intended", 7, 1.0, 5.0))
    spaces = world.single_observation_space, world.single_action_space
    learner = make_learner(config, *spaces, Generators(0))
    policy = learner.policy(explore=False, rows=1, rng=rng)
    return Recommender(LoadedPolicy(resolved.values, "made up", learner, policy, *spaces, None, {}))


def large(items: int, users: int) -> dict[str, float]:
    """Lists for one user and for a thousand, and the memory that serving takes."""
    policy = made_up(items, users)
    policy.recommend(user="1", k=10)
    singles = []
    for user in range(2, 22):
        cpu = time.process_time()
        policy.recommend(user=str(user), history=[("5", 4.0)], k=10)
        singles.append(time.process_time() - cpu)
    cpu = time.process_time()
    policy.recommend_many([str(user) for user in range(1000)], 10)
    many = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"one user, CPU ms": 1000 * float(np.median(singles)), "1000 users, CPU s": many, "peak GB": peak}


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("run", nargs="?")
    typed.add_argument(
        "--items", type=int, default=0, help="measure a made-up catalogue of so many items instead"
    )
    typed.add_argument("--users", type=int, default=100_000)
    typed.add_argument("--port", type=int, default=8765)
    typed.add_argument("--seconds", type=float, default=10.0)
    typed.add_argument("--askers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    typed.add_argument("--history", type=int, default=5, help="items of this session in each question")
    typed.add_argument("--out", type=Path)
    options = typed.parse_args()
    if options.items:
        print(
            json.dumps({"items": options.items, "users": options.users} | large(options.items, options.users))
        )
        return
    labels, rng = load_recommender(options.run).labels, random.Random(0)
    questions = [question(rng, list(labels.users), list(labels.items), options.history) for _ in range(500)]
    server = started(options.run, options.port)
    try:
        asyncio.run(load(options.port, 4, 2.0, questions))  # warm
        loads = {n: asyncio.run(load(options.port, n, options.seconds, questions)) for n in options.askers}
    finally:
        server.terminate()
        server.wait()
    one_call = bulk(options.run, 10_000)
    text = table(loads, one_call, len(labels.users), len(labels.items))
    print(text)
    if options.out:
        command = f"python benchmarks/recsys_serving.py RUN --seconds={options.seconds:g}"
        record = {
            "provenance": provenance(command),
            "load": os.getloadavg(),
            "http": loads,
            "one call": one_call,
        }
        options.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(f"# Serving a recommender\n\n`{command}`\n\n{text}\n")


def table(loads: dict[int, dict[str, float]], one_call: dict[str, float], users: int, items: int) -> str:
    lines = [f"{users} users, {items} items; other load on the machine: {os.getloadavg()[0]:.1f}", ""]
    lines += [
        "| askers at once | requests/s | p50 ms | p95 ms | p99 ms | failed |",
        "|---|---|---|---|---|---|",
    ]
    for askers, found in loads.items():
        cells = [f"{found['requests/s']:.0f}", *(f"{found[f'p{q} ms']:.1f}" for q in (50, 95, 99))]
        lines.append(f"| {askers} | " + " | ".join([*cells, f"{found['failed']:.0f}"]) + " |")
    lines += ["", f"Ten items for each of {one_call['users']:,} users in one call: {one_call['seconds']:.2f} s "
              f"({one_call['CPU seconds']:.2f} CPU s), peak {one_call['peak GB']:.2f} GB."]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    main()
