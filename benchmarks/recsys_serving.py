"""How fast a trained recommender is served: requests over HTTP under load, and lists for many users in one call.

python benchmarks/recsys_serving.py RUN --out=benchmarks/results/recsys_serving
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

from twofold.recsys.recommend import load_recommender
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


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("run")
    typed.add_argument("--port", type=int, default=8765)
    typed.add_argument("--seconds", type=float, default=10.0)
    typed.add_argument("--askers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    typed.add_argument("--history", type=int, default=5, help="items of this session in each question")
    typed.add_argument("--out", type=Path)
    options = typed.parse_args()
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
