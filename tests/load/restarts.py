# SPDX-License-Identifier: Apache-2.0
"""Restarts of the daemon under load: how many calls are lost.

    python tests/load/restarts.py [--restarts 20] [--clients 8] [--passed] [--kill]

Clients, each a process, compile small graphs one after the other, most of them stored ones. The
daemon is told to stop (`--kill`: is killed), and the next one is started, over and over; with
`--passed` behind a listening socket that stays. A call that raises is one that a job would run in
eager. Prints the counts; ends with 1 when a call was lost or answered with another graph's program.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import sys
import tempfile
import time
from typing import Any

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "e2e"), str(TESTS / "faults")]

import graphs  # noqa: E402
from real_daemon import STOP_TIMEOUT_S, RealDaemon  # noqa: E402
from tensord.errors import TensordError  # noqa: E402
from tensord.v1 import requests_pb2  # noqa: E402
from tensord.wire import rpc  # noqa: E402

SHARED_GRAPHS = 20
SHARE_OF_NEW = 0.05


def client(number: int, stop: Any, results: Any) -> None:
    """Compiles until `stop`; puts its counts, seconds of calls, and keys by graph."""
    chance = random.Random(number)
    counts: collections.Counter[str] = collections.Counter()
    seconds: list[float] = []
    keys: dict[int, bytes] = {}
    fresh = 0
    while not stop.is_set():
        graph = chance.randrange(SHARED_GRAPHS)
        if chance.random() < SHARE_OF_NEW:
            fresh += 1
            graph = 100_000 * (number + 1) + fresh
        begin = time.monotonic()
        try:
            rpc.client().hello()
            reply = rpc.client().compile(graphs.request(graphs.small(graph))).wait()
            counts[requests_pb2.CompileReply.Outcome.Name(reply.outcome)] += 1
            if keys.setdefault(graph, reply.program_key) != reply.program_key:
                counts["WRONG"] += 1
        except TensordError as error:
            counts[f"lost: {error.reason}"] += 1
            rpc.client().forget()
        seconds.append(time.monotonic() - begin)
    results.put((counts, seconds, keys))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--every", type=float, default=0.5, help="seconds between restarts")
    parser.add_argument("--passed", action="store_true", help="the socket outlives the daemons")
    parser.add_argument("--kill", action="store_true", help="SIGKILL in place of SIGTERM")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="td", ignore_cleanup_errors=True) as folder:
        return measure(options, pathlib.Path(folder))


def measure(options: argparse.Namespace, folder: pathlib.Path) -> int:
    passed = None
    if options.passed:
        passed = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        passed.bind(str(folder / "s"))
        passed.listen(1024)
    daemon = RealDaemon(folder, passed=passed)
    os.environ |= {"TENSORD_ADDRESS": daemon.address, "TENSORD_AUTOSTART": "0"}
    context = multiprocessing.get_context("fork")
    stop, results = context.Event(), context.SimpleQueue()
    clients = [
        context.Process(target=client, args=(number, stop, results), daemon=True)
        for number in range(options.clients)
    ]
    for process in clients:
        process.start()
    begin = time.monotonic()
    downtimes = []
    for _ in range(options.restarts):
        time.sleep(options.every)
        down = time.monotonic()
        daemon.process.send_signal(signal.SIGKILL if options.kill else signal.SIGTERM)
        daemon.process.wait(STOP_TIMEOUT_S)
        daemon.start()
        downtimes.append(time.monotonic() - down)
    time.sleep(options.every)
    elapsed = time.monotonic() - begin
    stop.set()
    counts: collections.Counter[str] = collections.Counter()
    seconds: list[float] = []
    keys: dict[int, set[bytes]] = collections.defaultdict(set)
    for _ in clients:
        more, spent, found = results.get()
        counts += more
        seconds += spent
        for graph, key in found.items():
            keys[graph].add(key)
    for process in clients:
        process.join()
    daemon.close()

    wrong = counts.pop("WRONG", 0) + sum(len(found) > 1 for found in keys.values())
    lost = sum(count for name, count in counts.items() if name.startswith("lost"))
    seconds.sort()
    print(
        f"{options.restarts} restarts ({'SIGKILL' if options.kill else 'SIGTERM'}"
        f"{', passed socket' if options.passed else ''}) in {elapsed:.1f} s, "
        f"{options.clients} clients: {len(seconds)} calls, {lost} lost, {wrong} wrong"
    )
    print("  " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(
        f"  a call took {seconds[len(seconds) // 2] * 1e3:.1f} ms in the median, "
        f"{seconds[-1]:.2f} s at most; a restart {sorted(downtimes)[len(downtimes) // 2]:.2f} s "
        f"in the median, {max(downtimes):.2f} s at most",
        flush=True,
    )
    return 1 if lost or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
