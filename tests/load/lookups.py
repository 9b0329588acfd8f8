# SPDX-License-Identifier: Apache-2.0
"""Cached look-ups from many clients, and one compile for all who ask.

    python tests/load/lookups.py [--seconds 5] [--clients 1000] [--cold-clients 256]

Needs `ninja -C build lookup_load`. Prints a line a measurement:

- look-ups from C++, one call at a time and several at once, while all clients are connected: the
  calls a second, and those that one core of the daemon alone would answer (its CPU time a call);
- look-ups from Python, as a job makes them, with those clients connected;
- compiles of new graphs that all clients ask for at once.

Ends with 1 when a graph was compiled more than once, or an answer was no hit where one was due.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import subprocess
import sys
import threading
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "bench"), str(HERE.parent / "faults")]

import graphs  # noqa: E402
from private_daemon import ROOT, PrivateDaemon  # noqa: E402
from tensord.v1 import requests_pb2  # noqa: E402
from tensord.wire import rpc  # noqa: E402

HIT = requests_pb2.CompileReply.HIT
PROCESSES = 8


def from_cpp(
    daemon: PrivateDaemon, request: Any, clients: int, threads: int, seconds: float
) -> None:
    file = daemon.root / "request"
    file.write_bytes(request.SerializeToString())
    command = [ROOT / "build/tests/lookup_load", daemon.address, file]
    command += [f"--clients={clients}", f"--threads={threads}", f"--seconds={seconds}"]
    # What connecting costs is not a look-up's.
    quick = [*command[:3], f"--clients={clients}", "--threads=0", "--seconds=0"]
    cpu = daemon.cpu_seconds()
    subprocess.run(quick, check=True)
    connecting = daemon.cpu_seconds() - cpu
    cpu = daemon.cpu_seconds()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    per_call = (daemon.cpu_seconds() - cpu - connecting) / found["calls"]
    print(
        f"C++, {clients} clients connected, {threads} calls at once: {found['per_second']:,} "
        f"calls/s, median {found['median_us'] / 1e3:.2f} ms, p99 {found['p99_us'] / 1e3:.2f} ms; "
        f"{per_call * 1e6:.0f} us of the daemon's CPU a call, {1 / per_call:,.0f} a second of it",
        flush=True,
    )


def from_python(daemon: PrivateDaemon, request: Any, clients: int, seconds: float) -> bool:
    """With the clients of an idle `lookup_load` connected."""
    command = [ROOT / "build/tests/lookup_load", daemon.address, daemon.root / "request"]
    command += [f"--clients={clients}", "--threads=0", f"--seconds={seconds}"]
    with subprocess.Popen(command) as others:
        time.sleep(min(1.0, seconds / 2))
        hits = True
        samples = []
        cpu = daemon.cpu_seconds()
        while others.poll() is None:
            begin = time.perf_counter()
            hits &= rpc.client().compile(request).wait().outcome == HIT
            samples.append(time.perf_counter() - begin)
        cpu = daemon.cpu_seconds() - cpu
    samples.sort()
    print(
        f"Python, {clients} clients connected: {len(samples)} calls, "
        f"median {samples[len(samples) // 2] * 1e3:.2f} ms, "
        f"p99 {samples[len(samples) * 99 // 100] * 1e3:.2f} ms; "
        f"{cpu / len(samples) * 1e6:.0f} us of the daemon's CPU a call, with its connection",
        flush=True,
    )
    return hits


def _ask_for_all(number: int, threads: int, numbers: list[int], results: Any) -> None:
    rpc.client().hello()
    outcomes: collections.Counter[str] = collections.Counter()
    lock = threading.Lock()

    def ask(seed: int) -> None:
        for graph in random.Random(seed).sample(numbers, len(numbers)):
            reply = rpc.client().compile(graphs.request(graphs.small(graph))).wait()
            with lock:
                outcomes[requests_pb2.CompileReply.Outcome.Name(reply.outcome)] += 1

    running = [threading.Thread(target=ask, args=(number * threads + i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    results.put(outcomes)


def cold(clients: int, keys: int) -> bool:
    numbers = list(range(1, keys + 1))
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    begin = time.monotonic()
    processes = [
        context.Process(
            target=_ask_for_all,
            args=(i, clients // PROCESSES, numbers, results),
            daemon=True,
        )
        for i in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    outcomes: collections.Counter[str] = collections.Counter()
    for _ in processes:
        outcomes += results.get()
    print(
        f"{clients} clients, {keys} new graphs each: {outcomes.total():,} calls in "
        f"{time.monotonic() - begin:.1f} s, {outcomes['COMPILED']} compiles "
        f"({outcomes['JOINED']:,} joined, {outcomes['HIT']:,} found)",
        flush=True,
    )
    return outcomes["COMPILED"] == keys and outcomes.total() == clients * keys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--clients", type=int, default=1000, help="connected")
    parser.add_argument("--cold-clients", type=int, default=256, help=f"a multiple of {PROCESSES}")
    parser.add_argument("--cold-keys", type=int, default=100)
    options = parser.parse_args()
    print(f"load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with PrivateDaemon() as daemon:
        request = graphs.request(graphs.small(0))
        rpc.client().hello()
        rpc.client().compile(request).wait()
        for threads in (1, 4):
            from_cpp(daemon, request, options.clients, threads, options.seconds)
        sound = from_python(daemon, request, options.clients, options.seconds)
        sound &= cold(options.cold_clients, options.cold_keys)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
