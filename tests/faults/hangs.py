#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon hangs, in several ways, while its transport may go on answering pings; a job asks for
`--graphs` graphs.

It is stopped (SIGSTOP); its look-ups hang on the store's disk, for one job or for so many that no
thread is left; or what it writes there hangs, of compiles or of what another host has compiled. The
job is told within the time that silence may last, once, and by nobody for the graphs that follow;
when the daemon moves again, it is served again. `--slack` seconds are added to each bound, for a
machine that others use as well.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import campaign
import fleet_hosts
import graphs
from real_daemon import RealDaemon
from stores import Orders
from tensord.errors import DaemonSilentError, TensordError
from tensord.v1 import requests_pb2
from tensord.wire import progress, rpc, watch

STORED = 7  # a graph that the store has
SHARED = 1007  # one that the fleet has
USUAL_S = 10.0  # of a compile's step on the disk (server/compile/own_steps.h)
# From a second on the daemon is asked, and is silent for two; a ping is a second old at most.
FOUND_S = progress.FIRST_S + watch.SILENCE_S
OTHERS = 20  # callers whose look-ups take every thread of the daemon


def ask(number: int) -> str:
    """What a job is answered, as its captures ask."""
    request = graphs.request(graphs.small(number))
    try:
        rpc.client().hello()
        reply = rpc.client().compile(request).wait()
        return str(requests_pb2.CompileReply.Outcome.Name(reply.outcome)).lower()
    except DaemonSilentError as error:
        return f"silent: {error}"
    except TensordError as error:
        return f"{type(error).__name__}: {error}"


@dataclass
class _Trial:
    daemon: RealDaemon
    orders: Orders


@contextlib.contextmanager
def _stopped(trial: _Trial) -> Iterator[None]:
    trial.daemon.suspend()
    yield
    trial.daemon.resume()


@contextlib.contextmanager
def _look_ups(trial: _Trial) -> Iterator[None]:
    trial.orders.give("open", "hang", "/manifests/")
    yield
    trial.orders.withdraw()


@contextlib.contextmanager
def _every_thread(trial: _Trial) -> Iterator[None]:
    with _look_ups(trial):
        before = trial.orders.matched()
        # Calls of their own: what one of them finds breaks no circuit.
        request = graphs.request(graphs.small(STORED)).SerializeToString()
        calls = [rpc._start("Compile", request, 60.0) for _ in range(OTHERS)]
        while trial.orders.matched() == before:
            time.sleep(0.01)
        time.sleep(0.5)  # until the others wait behind it
        yield
    for call in calls:
        call.close()


@contextlib.contextmanager
def _writes(trial: _Trial) -> Iterator[None]:
    trial.orders.give("sync", "hang", "/store/")
    yield
    trial.orders.withdraw()


@dataclass(frozen=True)
class Way:
    """How a daemon hangs, which graph shows it, how long a job may be in doubt, and whether the
    daemon is one of a fleet."""

    name: str
    hangs: Callable[[_Trial], contextlib.AbstractContextManager[None]]
    graph: int
    within_s: float
    in_fleet: bool = False


WAYS = (
    Way("stopped", _stopped, STORED, 2.0),
    Way("look-ups hang", _look_ups, STORED, FOUND_S),
    Way("every thread hangs", _every_thread, STORED, FOUND_S),
    Way("what compiles write hangs", _writes, STORED + 1, USUAL_S + FOUND_S),
    Way("what the fleet gives hangs", _writes, SHARED, USUAL_S + FOUND_S, in_fleet=True),
)


def _fleet(folder: Path) -> tuple[str, ...]:
    """Flags of a daemon of a fleet that has a program, which another host has compiled."""
    folder.mkdir(mode=0o700)
    url, key = f"file://{folder / 'tier'}", fleet_hosts.make_key(folder)
    (folder / "tier").mkdir(mode=0o700)
    trust = folder / "trust"
    with contextlib.closing(fleet_hosts.Host(url, trust, key)) as host:
        outcome, _ = host.ask(SHARED)
        assert outcome == "COMPILED"
        host.wait_for("fleet_put", 1)
    return (f"--fleet={url}", f"--fleet-trust={trust}")


def _daemon(folder: Path, in_fleet: bool) -> _Trial:
    """One that has read nothing of its store yet."""
    flags = _fleet(folder.with_suffix(".fleet")) if in_fleet else ()
    folder.mkdir(mode=0o700)
    orders = Orders(folder.with_suffix(".orders"), folder)
    # Within walls workers would not find the library that makes calls hang.
    flags = (*flags, "--confine=off", "--workers=1")
    daemon = RealDaemon(folder, environment=orders.environment, flags=flags)
    os.environ["TENSORD_ADDRESS"] = daemon.address
    rpc.client().forget()
    assert ask(STORED) == "compiled"
    daemon.stop()
    daemon.start()
    rpc.client().forget()
    rpc.client().hello()
    return _Trial(daemon, orders)


def _try(way: Way, folder: Path, most: int, slack_s: float, table: campaign.Table) -> None:
    trial = _daemon(folder, way.in_fleet)
    try:
        with way.hangs(trial):
            begun = time.monotonic()
            first = ask(way.graph)
            seconds = time.monotonic() - begun
            others = [ask(way.graph + 1 + i) for i in range(most - 1)]
            rest = time.monotonic() - begun - seconds
        rpc.client().forget()
        again = _served(way.graph)
    finally:
        trial.daemon.close()
    silent = [answer for answer in [first, *others] if not answer.startswith("silent: ")]
    table.must(f"{way.name}: the first graph, s", seconds, seconds < way.within_s + slack_s,
               f"within {way.within_s + slack_s:g}")  # fmt: skip
    table.must(f"{way.name}: the others, s", rest, rest < slack_s, f"within {slack_s:g}")
    table.none(f"{way.name}: graphs that were not told so", silent)
    table.must(f"{way.name}: afterwards", again, again in ("hit", "compiled", "joined"), "served")


def _served(number: int) -> str:
    """Of a daemon that moves again; what waited there comes first."""
    deadline = time.monotonic() + 20
    while (answer := ask(number)).startswith("silent: ") and time.monotonic() < deadline:
        rpc.client().forget()
    return answer


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """One daemon a way."""
    os.environ.update(TENSORD_AUTOSTART="0", TENSORD_TIMEOUT_S="120")
    with campaign.folder() as folder:
        for number, way in enumerate(WAYS):
            _try(way, folder / str(number), arguments.graphs, arguments.slack, table)


if __name__ == "__main__":
    campaign.main(run, __doc__, graphs=5, slack=1.0)
