# SPDX-License-Identifier: Apache-2.0
"""Of the page's tests: a window, and a daemon that is asked by page, by tensorctl and by jobs."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import browser as browsers
import pytest
import warm_python
from browser import Browser
from frame_processes import output, python
from real_daemon import RealDaemon, binary

# Of tests that want a browser.
MARKS = [
    pytest.mark.long,
    pytest.mark.skipif(
        browsers.programs() is None,
        reason="there is no Chromium and its driver (tests/packages-browser.txt)",
    ),
]


@dataclass
class Served:
    """A daemon and its page. url: without its token."""

    daemon: RealDaemon
    url: str
    token: str

    @classmethod
    def of(cls, daemon: RealDaemon) -> Served:
        """Asks for the page as a user does."""
        url, token = said(daemon, "ui").strip().split("#token=")
        return cls(daemon, url, token)

    def ask(self, path: str, **headers: str) -> Any:
        """A question without a browser."""
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def api(self, path: str) -> Any:
        """One of the API, with the token."""
        return self.ask("api/" + path, Authorization=f"Bearer {self.token}")


def said(daemon: RealDaemon, *arguments: str) -> str:
    command = [binary("tensorctl"), "--address", daemon.address, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def run(daemon: RealDaemon, job: str, *arguments: str, **more: str) -> None:
    """A process of a job, which records frames and is served them."""
    more |= {"TENSORD_FRAMES": "1", "TENSORD_JOB": job}
    output(python(daemon, *arguments, imported=warm_python.CAPTURE, **more))


def texts(page: Browser, selector: str) -> list[str]:
    """What all elements of a selector hold, also those that are out of sight."""
    script = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
    return [str(text) for text in page.run(script, selector)]


def go(page: Browser, served: Served, place: str, title: str) -> None:
    page.open(f"{served.url}#{place}")
    page.title(title)


def programs_of(served: Served) -> list[Any]:
    found: list[Any] = json.loads(said(served.daemon, "--json", "ls"))["programs"]
    return found


def key_of(program: Any) -> str:
    return base64.b64decode(program["key"]).hex()


def longest_of(served: Served, label: str) -> str:
    """The key of that one of a label's programs that took longest to compile."""
    labelled = [program for program in programs_of(served) if program["label"] == label]
    return key_of(max(labelled, key=lambda program: int(program["compile_nanoseconds"])))


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    opened = Browser()
    yield opened
    opened.close()
