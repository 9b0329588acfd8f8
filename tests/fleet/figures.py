#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs and saves, over servers of its own (docs/fleet.md has what it printed).

    tests/fleet/figures.py [--hosts 50,200] [--answer-ms 200] [--programs 20] [--looks 2000]
                           [--only second,bad,hosts] [--tiers folder,redis,rediss,casd,buildgrid]

Needs a build, with `ninja -C build fleet_load`, redis-tools, and for casd and buildgrid PyPI, once;
says what it lacks. Prints a line a measurement:

- second: a program that another host compiled, beside one that is stored here and one that is
  compiled; over each tier: a folder, Redis, Redis with TLS and users, caches of the Remote
  Execution API without TLS, and with it and tokens;
- bad: hits and misses of a host whose tier is of no use, beside a host without a fleet;
- hosts: so many hosts that ask for one program at once. They are threads of one process: where
  they are too many for its cores, only a larger --answer-ms says what a server makes of them.

Ends with 1 when the second host compiled something, or a program was compiled twice.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "tools"), str(TESTS / "faults")]

import fleet_tiers  # noqa: E402
import graphs  # noqa: E402
from bad_server import KINDS, SCHEMES, BadServer  # noqa: E402
from fleet_hosts import Host, load, make_key  # noqa: E402
from tensord.wire import rpc  # noqa: E402


@contextlib.contextmanager
def fleet(kind: str) -> Iterator[tuple[Path, str, list[str]]]:
    """A key, a URL, and flags that belong to it."""
    with tempfile.TemporaryDirectory(prefix="td") as name:
        folder = Path(name)
        key = make_key(folder)
        with fleet_tiers.tier(kind, folder) as (url, *flags):
            yield key, url, flags


def present(tiers: list[str]) -> list[str]:
    """Those of which there is a server."""
    found = []
    for kind in tiers:
        try:
            fleet_tiers.need(kind)
            found.append(kind)
        except fleet_tiers.Missing as missing:
            print(f"{kind}: left out: {missing}", flush=True)
    return found


def _ms(samples: list[float]) -> str:
    ordered = sorted(samples)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"median {statistics.median(ordered) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms"


def second(tiers: list[str], programs: int) -> bool:
    """A program that another host compiled."""
    good = True
    for kind in tiers:
        with fleet(kind) as (key, url, flags):
            one = Host(url, key.parent / "trust", key, *flags)
            two = Host(url, key.parent / "trust", None, *flags)
            compiled = [one.ask(i)[1] for i in range(programs)]
            one.wait_for("fleet_put", programs)
            found = [two.ask(i) for i in range(programs)]
            stored = [two.ask(i)[1] for i in range(programs)]
            stats = two.stats()
            good &= all(outcome == "HIT" for outcome, _ in found) and stats["compiled"] == 0
            print(
                f"{kind}: compiled {_ms(compiled)}; "
                f"of the other host {_ms([seconds for _, seconds in found])}; "
                f"stored here {_ms(stored)}; "
                f"{stats['fleet_bytes_in'] / programs / 1024:.1f} KiB a program, "
                f"{stats['compiled']} compiled by the second host",
                flush=True,
            )
            one.close()
            two.close()
    return good


def _looks(host: Host, count: int) -> list[float]:
    """Times of look-ups of a stored program."""
    host.ask(0)
    request = graphs.request(graphs.small(0))
    samples = []
    for _ in range(count):
        begin = time.perf_counter()
        rpc.client().compile(request).wait()
        samples.append(time.perf_counter() - begin)
    return samples


def bad(programs: int, looks: int) -> bool:
    """Tiers of no use."""
    with tempfile.TemporaryDirectory(prefix="td") as name:
        key = make_key(Path(name))

        def measure(kind: str, url: str) -> None:
            host = Host(url, key.parent / "trust", key)
            host.ask(10_000)  # the workers start
            misses = [host.ask(i)[1] for i in range(programs)]
            hits = _looks(host, looks)
            stats = host.stats()
            print(
                f"{kind}: hits {_ms(hits)}; the first three misses "
                f"{', '.join(f'{s * 1e3:.0f}' for s in misses[:3])} ms, the others "
                f"{_ms(misses[3:])}; {stats['fleet_errors']} errors, "
                f"{stats['fleet_skipped']} not asked",
                flush=True,
            )
            host.close()

        measure("no fleet", "")
        for scheme in SCHEMES:
            for kind in KINDS:
                server = BadServer(kind, scheme)
                measure(f"{scheme} {kind}", server.url)
                server.close()
        measure("no fleet, again", "")
    return True


def hosts(tiers: list[str], counts: list[int], answer_ms: int) -> bool:
    """Many that ask at once."""
    good = True
    for kind, count in itertools.product(tiers, counts):
        with fleet(kind) as (key, url, flags):
            found = load(url, key, flags, f"--hosts={count}", f"--answer-ms={answer_ms}")
            share = found["bytes_in_most"] / found["program_bytes"]
            print(
                f"{kind}, {count} hosts: {found['compiled']} compiled, {found['found']} found, "
                f"{found['failed']} not answered in time; median {found['median_s']:.2f} s, last "
                f"{found['last_s']:.2f} s behind a compile of 1 s; at most {share:.2f} of the "
                f"program's {found['program_bytes'] >> 10} KiB fetched by a host",
                flush=True,
            )
            good &= found["compiled"] == 1
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--hosts", default="50,200")
    parser.add_argument("--answer-ms", type=int, default=200, help="of hosts: fleet_answer_ms")
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--looks", type=int, default=2000)
    parser.add_argument("--only", default="second,bad,hosts")
    parser.add_argument("--tiers", default=",".join(fleet_tiers.KINDS))
    arguments = parser.parse_args()
    tiers = present(arguments.tiers.split(","))
    counts = [int(count) for count in arguments.hosts.split(",")]
    parts: dict[str, Callable[[], bool]] = {
        "second": lambda: second(tiers, arguments.programs),
        "bad": lambda: bad(arguments.programs, arguments.looks),
        "hosts": lambda: hosts(tiers, counts, arguments.answer_ms),
    }
    return 0 if all([parts[name]() for name in arguments.only.split(",")]) else 1


if __name__ == "__main__":
    sys.exit(main())
