# SPDX-License-Identifier: Apache-2.0
"""The page of daemons that a test has for itself: one asked for it later, one of many programs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_daemon import RealDaemon, binary

pytest.importorskip("selenium")

from browser import Browser
from page_fixtures import MARKS, Served

sys.path.append(str(Path(__file__).resolve().parents[1] / "faults"))

pytest_plugins = ["page_fixtures"]
pytestmark = MARKS


def test_a_daemon_without_a_page_serves_one_when_asked(clean: Path) -> None:
    daemon = RealDaemon(clean)
    try:
        page = Served.of(daemon)
        assert page.api("stats")["programs_stored"] == "0"
        assert Served.of(daemon) == page
        refused = subprocess.run(
            [binary("tensorctl"), "--address", daemon.address, "ui", "--at", "0.0.0.0:80"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert refused.returncode == 1 and "ssh -L" in refused.stderr
    finally:
        daemon.close()


def test_ten_thousand_programs(
    window: Browser, clean: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from stores import Store

    count = 10_000
    with Store(clean / "store") as store:
        store.ask(f"fill 0 {count}")
        store.ask("reconcile")
    daemon = RealDaemon(clean)
    try:
        page = Served.of(daemon)
        times = {}
        for what in ("programs", "programs?search=9", "programs?order=bytes&skip=9900"):
            start = time.perf_counter()
            reply = page.api(what)
            times[what] = time.perf_counter() - start
            assert len(reply["programs"]) == 100
        assert int(page.api("programs")["matching"]) == count
        window.open("about:blank")
        window.open(f"{page.url}#token={page.token}")
        window.title("Overview")
        window.complaints(), window.requests()
        start = time.perf_counter()
        window.open(f"{page.url}#/programs")
        window.title("Programs")
        times["shown in the browser"] = time.perf_counter() - start
        assert len(window.all("tbody tr")) == 100
        assert "1 to 100 of 10,000" in window.text(".pager")
        window.press("n")
        window.wait(lambda: "101 to 200 of 10,000" in window.text(".pager"))
        window.press("p")
        window.wait(lambda: "1 to 100 of 10,000" in window.text(".pager"))
        assert window.complaints() == []
        with capsys.disabled():
            print(
                "\n10,000 programs:", ", ".join(f"{k} {1000 * s:.0f} ms" for k, s in times.items())
            )
    finally:
        daemon.close()
