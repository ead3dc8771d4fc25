"""How fast a trained recommender is served: requests over HTTP under load, and lists for many users in one call.

python benchmarks/recsys_serving.py RUN --out=benchmarks/results/recsys/recsys_serving
python benchmarks/recsys_serving.py --items=100000 --users=100000 --out=...  # a catalogue of that size, made up
python benchmarks/recsys_serving.py --read=10000000 --out=...               # and the reading of so many ratings
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
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

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


def processor_seconds(server: subprocess.Popen[str]) -> float:
    """What a process has used of the processor so far."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def loaded(server: subprocess.Popen[str], *given: Any) -> dict[str, float]:
    """Rate and latency under load, and what a request costs the server, whatever else runs on the machine."""
    before = processor_seconds(server)
    found = asyncio.run(load(*given))
    return found | {"server CPU ms": 1000 * (processor_seconds(server) - before) / found.pop("requests")}


async def load(port: int, askers: int, seconds: float, questions: list[bytes]) -> dict[str, float]:
    """Rate and latency under so many askers."""
    times: list[float] = []
    bad: list[str] = []
    begun = time.perf_counter()
    shares = [questions[n::askers] for n in range(askers)]
    await asyncio.gather(*(asker(port, share, begun + seconds, times, bad) for share in shares))
    took = time.perf_counter() - begun
    p50, p95, p99 = (1000 * float(np.quantile(times, q)) for q in (0.5, 0.95, 0.99))
    rate = {"requests": len(times), "requests/s": len(times) / took}
    return rate | {"p50 ms": p50, "p95 ms": p95, "p99 ms": p99, "failed": len(bad)}


def bulk(run: str, count: int) -> dict[str, float]:
    """Lists of ten for `count` users in one call."""
    torch.set_num_threads(1)  # as `recommend --everyone` does
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


def reading(rows: int) -> dict[str, float]:
    """A CSV of so many made-up ratings, as MovieLens spells them, read by a process of its own."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings.csv"
        with file.open("w") as out:
            out.write("userId,movieId,rating,timestamp\n")
            for start in range(0, rows, 1_000_000):
                count = min(1_000_000, rows - start)
                users, items = (
                    rng.integers(rows // 150, size=count),
                    (20_000 * rng.random(count) ** 2).astype(int),
                )
                columns = users, items, rng.integers(1, 11, size=count), start + np.arange(count)
                lines = (f"{u},{i},{r / 2},{1_000_000_000 + t}" for u, i, r, t in zip(*columns, strict=True))
                out.write("\n".join(lines) + "\n")
        size = file.stat().st_size / 1e6
        found = json.loads(subprocess.check_output([sys.executable, "-c", READER, str(file)], text=True))
    return {"rows": rows, "file MB": size} | found


READER = """
import json, resource, sys, time
from pathlib import Path
from twofold.recsys.loaders import load
begun, cpu = time.perf_counter(), time.process_time()
data = load("ratings", Path(sys.argv[1]))
used = {"seconds": time.perf_counter() - begun, "CPU seconds": time.process_time() - cpu}
print(json.dumps(used | {"ratings": len(data.train), "users": data.users, "items": data.items,
                         "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))
"""


def served(run: str, options: argparse.Namespace) -> dict[str, Any]:
    """A trained policy under load, and its lists for 10,000 users in one call."""
    labels, rng = load_recommender(run).labels, random.Random(0)
    questions = [question(rng, list(labels.users), list(labels.items), options.history) for _ in range(500)]
    server = started(run, options.port)
    try:
        asyncio.run(load(options.port, 4, 2.0, questions))  # warm
        loads = {n: loaded(server, options.port, n, options.seconds, questions) for n in options.askers}
    finally:
        server.terminate()
        server.wait()
    sizes = {"users": len(labels.users), "items": len(labels.items)}
    return {"http": sizes | {"askers": loads}, "one call": bulk(run, 10_000)}


def main() -> None:
    typed = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    typed.add_argument("run", nargs="?")
    typed.add_argument("--items", type=int, default=0, help="measure a made-up catalogue of so many items")
    typed.add_argument("--users", type=int, default=100_000, help="and so many users")
    typed.add_argument("--read", type=int, default=0, help="measure the reading of so many made-up ratings")
    typed.add_argument("--port", type=int, default=8765)
    typed.add_argument("--seconds", type=float, default=10.0)
    typed.add_argument("--askers", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    typed.add_argument("--history", type=int, default=5, help="items of this session in each question")
    typed.add_argument("--out", type=Path)
    options = typed.parse_args()
    found: dict[str, Any] = {}
    if options.run:
        found |= served(options.run, options)
    if options.items:
        sizes = {"items": options.items, "users": options.users}
        found |= {"large": sizes | large(options.items, options.users)}
    if options.read:
        found |= {"reading": reading(options.read)}
    command = "python benchmarks/recsys_serving.py " + " ".join(
        word for word in sys.argv[1:] if "--out" not in word and word != options.run
    )
    about = {"provenance": provenance(command), "load": os.getloadavg()}
    before = json.loads(options.out.with_suffix(".json").read_text()) if known(options.out) else {}
    record = before | {name: part | about for name, part in found.items()}
    print(page(record))
    if options.out:
        options.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(page(record))


def known(out: Path | None) -> bool:
    """Whether parts were measured before: others are added to them."""
    return out is not None and out.with_suffix(".json").exists()


def page(record: dict[str, Any]) -> str:
    """The parts that were measured, each with its figures."""
    lines = ["# Serving a recommender, and reading its ratings", ""]
    lines += ["`python benchmarks/recsys_serving.py RUN --items=100000 --read=10000000`, part by part"]
    if "http" in record:
        lines += ["", *over_http(record["http"])]
    if "one call" in record:
        one = record["one call"]
        lines += ["", f"Ten items for each of {one['users']:,} users in one call: {one['seconds']:.2f} s "
                  f"({one['CPU seconds']:.2f} CPU s), peak {one['peak GB']:.2f} GB."]  # fmt: skip
    if "large" in record:
        big = record["large"]
        lines += ["", f"{big['items']:,} items and {big['users']:,} users, made up: "
                  f"{big['one user, CPU ms']:.0f} ms of processor time for one user, "
                  f"{big['1000 users, CPU s']:.1f} s for 1,000 in one call, peak {big['peak GB']:.2f} GB."]  # fmt: skip
    if "reading" in record:
        read = record["reading"]
        lines += ["", f"A CSV of {read['rows']:,} ratings ({read['file MB']:.0f} MB, "
                  f"{read['ratings']:,} pairs that differ): {read['seconds']:.0f} s "
                  f"({read['CPU seconds']:.0f} CPU s), peak {read['peak GB']:.1f} GB."]  # fmt: skip
    return "\n".join([*lines, ""])


def over_http(part: dict[str, Any]) -> list[str]:
    lines = [
        f"{part['users']} users, {part['items']} items, askers on the same two cores as the server; "
        f"load of the machine over the last minute: {part['load'][0]:.1f}",
        "",
        "| askers at once | requests/s | p50 ms | p95 ms | p99 ms | server's processor time, ms a request | failed |",
        "|---|---|---|---|---|---|---|",
    ]
    for askers, found in part["askers"].items():
        cells = [f"{found['requests/s']:.0f}", *(f"{found[f'p{q} ms']:.1f}" for q in (50, 95, 99))]
        cells.append(f"{found['server CPU ms']:.2f}")
        lines.append(f"| {askers} | " + " | ".join([*cells, f"{found['failed']:.0f}"]) + " |")
    return lines


if __name__ == "__main__":
    main()
