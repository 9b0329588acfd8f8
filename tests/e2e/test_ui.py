# SPDX-License-Identifier: Apache-2.0
"""The daemon's page in a real browser: it shows what tensorctl says, by keyboard, in light and in
dark, with nothing from elsewhere and nothing on the console."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import warm_python
from frame_processes import output, python
from real_daemon import RealDaemon

pytest.importorskip("selenium")

import browser as browsers
from browser import Browser
from page_fixtures import MARKS, Served, go, key_of, longest_of, programs_of, run, said, texts
from selenium.webdriver.common.keys import Keys

pytest_plugins = ["page_fixtures"]
pytestmark = MARKS
HERE = Path(__file__).resolve().parent
MODEL = HERE / "page_model.py"

# A name as somebody could choose it who wants the page to run it.
HOSTILE_JOB = "<img src=x onerror=document.title='run'>"


@pytest.fixture(scope="module")
def served(native_guards: None) -> Iterator[Served]:
    """A daemon that a job of three ranks has used: one captured, one was served, and one is of
    another width, for which what was captured does not serve."""
    daemon = RealDaemon(flags=("--ui=127.0.0.1:0",), kept_kernels=True)
    try:
        for rank, width in enumerate(("64", "64", "48")):
            more = {"TENSORD_STRICT": "1", "TENSORD_FRAMES": "1", "RANK": str(rank)}
            imported = warm_python.CAPTURE if rank != 1 else ("torch",)
            output(
                python(daemon, str(MODEL), width, imported=imported, TENSORD_JOB="pretrain", **more)
            )
        yield Served.of(daemon)
    finally:
        daemon.close()


@pytest.fixture
def page(window: Browser, served: Served) -> Iterator[Browser]:
    """The page at its overview; the console stays empty and nobody else is asked for anything."""
    window.open("about:blank")
    window.complaints(), window.requests()
    window.scheme("light")
    window.open(f"{served.url}#token={served.token}")
    window.title("Overview")
    yield window
    assert window.complaints() == []
    assert window.requests() == {urlsplit(served.url).netloc}


def test_the_overview_counts_what_the_daemon_counts(page: Browser, served: Served) -> None:
    stats = json.loads(said(served.daemon, "--json", "stats"))
    tiles = {t.text.split("\n")[0]: t.text.split("\n")[1] for t in page.all(".tile")}
    assert tiles["Requests"] == stats["requests"]
    assert tiles["Programs"] == stats["programs_stored"]
    assert tiles["Frames"] == stats["frames_stored"]
    assert {c.text for c in page.all(".chart-title")} >= {"Requests a second", "Queue", "Workers"}
    # Samples go on coming while it is looked at.
    idle = ".plot svg[aria-label^='Queue: now requests waiting 0, compiles queued 0']"
    page.wait(lambda: page.all(idle))
    seen = page.one(".series-a").get_attribute("d")
    page.wait(lambda: page.one(".series-a").get_attribute("d") != seen)
    stages = {s.text for s in page.all(".stage-whole .stage-name")}
    # And the JIT's, where kernels are not kept from earlier runs.
    assert stages >= {"import", "rewrite", "schedule", "codegen"}


def test_programs_are_those_of_tensorctl(page: Browser, served: Served) -> None:
    go(page, served, "/programs", "Programs")
    rows = [row.text.split() for row in page.all("tbody tr")]
    listed = programs_of(served)
    assert [row[0] for row in rows] == [key_of(program)[:12] for program in listed]
    assert {row[1] for row in rows} == {"forward", "backward"}
    page.one("[data-search]").send_keys("backward", Keys.ENTER)
    page.wait(lambda: "search=backward" in page.driver.current_url)
    page.wait(lambda: len(page.all("tbody tr")) == sum(p["label"] == "backward" for p in listed))
    go(page, served, "/programs?search=nobody", "Programs")
    assert "No program has that." in page.text("main")


def test_a_kernel_is_beside_its_lines_of_the_model(page: Browser, served: Served) -> None:
    key = longest_of(served, "forward")
    go(page, served, f"/program/{key}", "Program")
    assert "kernel 0" in page.text("main")
    numbers = range(len(served.api(f"program?key={key}")["sources"]))
    seen = ""
    for number in numbers:
        go(page, served, f"/program/{key}/kernel/{number}", f"Kernel {number}")
        source = said(served.daemon, "kernel", key, str(number))
        shown = "".join(texts(page, ".listing .text")).strip()
        assert shown in source
        lines = page.text("[aria-label='Lines of the model']")
        assert "page_model.py:" in lines
        seen += lines
    for line in (
        "F.gelu(self.up(self.between(x)))",
        "torch.softmax(scores, -1) @ v",
        "torch.log1p(distance).mean()",
    ):
        assert line in seen
    # tensorctl says the same.
    assert "page_model.py:" in said(served.daemon, "kernel", key, "0")


def test_the_fusion_graph_says_why_steps_are_apart(page: Browser, served: Served) -> None:
    key = longest_of(served, "forward")
    fusion = served.api(f"program?key={key}")["fusion"]
    go(page, served, f"/program/{key}", "Program")
    steps, edges = page.all(".fusion .step"), page.all(".fusion .edge")
    assert len(steps) == len(fusion["steps"]) > 8
    flows = [edge for edge in fusion["edges"] if not edge["reads"]]
    assert len(edges) == len(flows) >= len(steps) - 1
    titles = texts(page, ".edge .hit title")
    for edge in flows:
        assert any(edge["why"] in title for title in titles)
    assert any("a library call" in title for title in titles)
    assert "a library call" in texts(page, ".fusion .why")
    # Boxes do not lie on each other.
    boxes = [step.rect for step in steps]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert (
                a["x"] + a["width"] <= b["x"]
                or b["x"] + b["width"] <= a["x"]
                or a["y"] + a["height"] <= b["y"]
                or b["y"] + b["height"] <= a["y"]
            )
    call = next(i for i, step in enumerate(fusion["steps"]) if "call" in step)
    page.run("document.querySelector(`[data-step='${arguments[0]}']`).focus()", call)
    assert "a library call" in page.text(".chosen .reasons")
    assert "page_model.py" in page.text(".chosen .cards")


def test_a_large_graph_comes_in_parts(page: Browser, served: Served) -> None:
    run(served.daemon, "deep", str(MODEL), "64", "6")
    key = key_of(max(programs_of(served), key=lambda program: program["externs"]))
    steps = len(served.api(f"program?key={key}")["fusion"]["steps"])
    go(page, served, f"/program/{key}", "Program")
    assert f"Steps 0 to 59 of {steps}: more than 60 are no picture." in page.text("main")
    assert len(page.all(".fusion .step")) == 60
    page.press("n")
    page.wait(lambda: f"Steps 60 to {min(120, steps) - 1} of" in page.text("main"))
    assert "step 60:" in page.one(".step").get_attribute("aria-label")
    page.press("p")
    page.wait(lambda: "Steps 0 to 59" in page.text("main"))


def test_stages_are_over_time(page: Browser, served: Served) -> None:
    key = longest_of(served, "forward")
    go(page, served, f"/program/{key}", "Program")
    stages = json.loads(said(served.daemon, "--json", "show", key))["stages"]
    wholes = [stage["stage"] for stage in stages if "/" not in stage["stage"]]
    assert [s.text for s in page.all(".stage-whole .stage-name")] == wholes
    # Each bar stands where its span was: verifiers between the others, kernels side by side.
    bars = page.run("""return [...document.querySelectorAll('.stage-whole')].map((row) => {
        const track = row.querySelector('.track').getBoundingClientRect();
        return [...row.querySelectorAll('.stage-bar')].map(
            (bar) => (bar.getBoundingClientRect().left - track.left) / track.width);})""")
    spans = json.loads(said(served.daemon, "--json", "show", key))["spans"]
    begins = [int(span["start_nanoseconds"]) for span in spans]
    ends = [begin + int(span["nanoseconds"]) for begin, span in zip(begins, spans, strict=True)]
    whole = max(ends) - min(begins)
    for name, lefts in zip(wholes, bars, strict=True):
        wanted = [b for b, span in zip(begins, spans, strict=True) if span["name"] == name]
        assert lefts == pytest.approx([(b - min(begins)) / whole for b in wanted], abs=0.01), name
    firsts = [lefts[0] for name, lefts in zip(wholes, bars, strict=True) if name != "verify"]
    assert firsts == sorted(firsts)
    kernels = [span for span in spans if span["name"] == "jit/kernel"]
    assert len(page.all(".stage-kernel")) == len(kernels)
    assert not page.one(".stage-part").is_displayed()
    page.one(".timeline input").click()
    assert page.one(".stage-part").is_displayed()


def test_frames_and_why_they_did_not_serve(page: Browser, served: Served) -> None:
    go(page, served, "/frames", "Frames")
    listed = json.loads(said(served.daemon, "--json", "frames"))["frames"]
    assert len(page.all("tbody tr")) == len(listed) > 1
    page.one("tbody a").click()
    page.title("__main__")
    guards = page.text(".guards")
    assert "width" in guards
    assert "forward" in page.text("main")
    go(page, served, "/misses?job=pretrain", "Misses of pretrain")
    missed = page.text(".card")
    assert missed.index("[4, 32, 64]") < missed.index("found") < missed.index("[4, 32, 48]")
    assert "rank 2" in missed


def test_ranks_of_a_job(page: Browser, served: Served) -> None:
    go(page, served, "/jobs", "Jobs")
    page.one("tbody a[href='#/job/pretrain']").click()
    page.title("pretrain")
    rows = [row.text.split() for row in page.all("tbody tr")]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    compiled = served.api("job?name=pretrain")["processes"][0]["counts"]["compiled"]
    assert rows[0][4] == compiled != "0"
    assert rows[1][3] != "0" == rows[1][4]  # found, compiled
    bars = page.all(".request")
    assert len(bars) == sum(
        len(p["requests"]) for p in served.api("job?name=pretrain")["processes"]
    )
    bars[0].click()
    page.title("Program")
    # And in words.
    assert "pretrain" in said(served.daemon, "jobs")
    assert len(said(served.daemon, "job", "pretrain").strip().splitlines()) == 4


PROFILES = f"""
import sys, tensord, torch
sys.path.insert(0, {str(HERE)!r})
from page_model import Model
compiled = tensord.compile(Model(64, 2))
def step():
    compiled(torch.randn(4, 32, 64)).backward()
tensord.profile(step, steps=3)
with tensord.profiling({HOSTILE_JOB!r}):
    step()
"""


@pytest.fixture(scope="module")
def measured(served: Served) -> Any:
    """Two profiles of one process, the latest first; with their rows."""
    run(served.daemon, "measured", "-c", PROFILES)
    listed = served.api("profiles?job=measured")["profiles"]
    return [served.api(f"profile?id={one['id']}")["profiles"][0] for one in listed]


def test_a_profile_is_a_flame_graph_and_a_table(
    page: Browser, served: Served, measured: Any, tmp_path: Path
) -> None:
    go(page, served, "/profiles", "Profiles")
    rows = [row.text for row in page.all("tbody tr")]
    assert [HOSTILE_JOB in row for row in rows] == [True, False]  # shown, and never run
    page.all("tbody a")[1].click()
    page.title("step")
    profile = measured[1]["profile"]
    listing = page.all("section:last-of-type tbody tr")
    assert len(listing) == len(profile["rows"]) > 5
    assert "softmax" in page.text("section:last-of-type tbody")
    assert "page_model.py:" in page.text("section:last-of-type tbody")
    parts = page.text("section:first-of-type tbody")
    assert "kernels" in parts and "library calls" in parts and "outside of programs" in parts
    # The function on top, below it its two programs, then lines, then steps; each as wide as long.
    bars = page.run("""return [...document.querySelectorAll('.flame-bar')].map((bar) => {
        const box = bar.querySelector('rect').getBoundingClientRect();
        return [bar.querySelector('title').textContent, box.top, box.width];})""")
    tops = sorted({top for _, top, _ in bars})
    assert len(tops) == 4
    assert next(name for name, top, _ in bars if top == tops[0]).startswith("step:")
    programs = [name for name, top, _ in bars if top == tops[1]]
    assert any(name.startswith("forward ") for name in programs)
    assert any(name.startswith("backward ") for name in programs)
    whole = next(width for _, top, width in bars if top == tops[0])
    assert sum(width for _, top, width in bars if top == tops[1]) == pytest.approx(whole, rel=0.05)
    page.picture((browsers.wanted_pictures() or tmp_path) / "ui-profile.png", 900)
    # Choosing a bar widens it, and tells of it; choosing it again brings all back.
    script = "return [...document.querySelectorAll('.flame-kernel')].findIndex((bar) => bar)"
    assert page.run(script) == 0
    page.run("document.querySelector('.flame-kernel').dispatchEvent(new MouseEvent('click'))")
    wide = "return document.querySelector('.flame-chosen rect').getBoundingClientRect().width"
    assert page.run(wide) == pytest.approx(whole, rel=0.01)
    assert "of the memory limit" in page.text(".chosen") and "page_model.py" in page.text(".chosen")
    page.press(Keys.ENTER)
    assert len(page.all(".flame-bar")) == len(bars)
    page.press("g", "t")
    page.title("Profiles")
    page.press("j", Keys.ENTER)
    page.title(HOSTILE_JOB)
    # And in words.
    shown = said(served.daemon, "profile", "--job", "measured")
    assert "outside of programs" in shown and HOSTILE_JOB in shown


def test_without_profiles_the_page_says_so(page: Browser, served: Served) -> None:
    go(page, served, "/profiles?job=nobody", "Profiles of nobody")
    assert "Nothing was profiled" in page.text("main")


def test_everything_by_keyboard(page: Browser, served: Served) -> None:
    page.press("g", "p")
    page.title("Programs")
    keys = [key_of(program)[:12] for program in programs_of(served)]
    page.press("j")
    assert page.focused() == keys[0]
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.run(outline) == "solid"
    page.press("j", "k", Keys.ARROW_DOWN)
    assert page.focused() == keys[1]
    page.press(Keys.ENTER)
    page.title(f"Program {keys[1]}")
    page.press("u")
    page.title("Programs")
    page.press("/")
    page.press("zzz", Keys.ENTER)
    page.wait(lambda: "No program has that." in page.text("main"))
    page.press("/")
    page.press("p", Keys.ESCAPE)  # typed, and no way to another page
    assert "search=zzz" in page.driver.current_url
    page.press("?")
    assert page.one("#help").is_displayed()
    page.press("?")
    page.press("g", "j")
    page.title("Jobs")
    # By tab: the way past the head of the page comes first.
    go(page, served, "/programs", "Programs")
    page.run("document.activeElement.blur()")
    page.press(Keys.TAB)
    assert page.focused() == "Skip to content"
    page.press(Keys.TAB, Keys.TAB)
    assert page.focused() == "Overview"
    # Within the picture the arrows go from step to step, and Enter into a kernel.
    key = longest_of(served, "forward")
    go(page, served, f"/program/{key}", "Program")
    fusion = served.api(f"program?key={key}")["fusion"]
    page.run("document.querySelector('.step[tabindex=\"0\"]').focus()")
    kernel = next(i for i, step in enumerate(fusion["steps"]) if "kernel" in step)
    page.press(*[Keys.ARROW_DOWN] * kernel, Keys.ENTER)
    page.title(f"Kernel {fusion['steps'][kernel]['kernel']}")
    page.press("n")
    page.title(f"Kernel {fusion['steps'][kernel]['kernel'] + 1}")


def test_light_and_dark(page: Browser, served: Served) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    ink = "return getComputedStyle(document.body).color.match(/\\d+/g).map(Number)"
    assert min(page.run(ground)) > 200 > 100 > max(page.run(ink))
    page.scheme("dark")
    assert max(page.run(ground)) < 60 < 180 < min(page.run(ink))


def test_names_are_shown_and_never_run(page: Browser, served: Served) -> None:
    script = "import torch, tensord; tensord.compile(lambda x: x.tanh() * 3)(torch.ones(9))"
    output(
        python(served.daemon, "-c", script, imported=warm_python.CAPTURE, TENSORD_JOB=HOSTILE_JOB)
    )
    go(page, served, "/jobs", "Jobs")
    assert HOSTILE_JOB in page.text("main")
    page.one("tbody a").click()
    page.title(HOSTILE_JOB)
    assert page.all("main img") == []
    assert page.run("return document.title") != "run"


def test_only_who_has_the_token_reads(window: Browser, served: Served) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer " + "0" * 64},
        {"Cookie": f"token={served.token}"},
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            served.ask("api/stats", **headers)
        assert refused.value.code == 401
    with pytest.raises(urllib.error.HTTPError) as refused:
        served.ask("api/stats", Authorization=f"Bearer {served.token}", Host="evil.example")
    assert refused.value.code == 403
    assert int(served.api("stats")["requests"]) > 0
    window.open("about:blank")
    window.open(served.url)
    window.run("localStorage.clear()")
    window.driver.refresh()
    window.title("This page wants its token")
    assert "tensorctl ui" in window.text("main")
    # The token is no part of what is in the bar of addresses, and of what is logged.
    window.open(f"{served.url}#token={served.token}")
    window.title("Overview")
    assert served.token not in window.driver.current_url
    assert served.token not in served.daemon.log_text()
    window.complaints(), window.requests()


# Of the document: place, title, height and the reader's scheme.
PICTURES = {
    "overview": ("/", "Overview", 830, "light"),
    "overview-dark": ("/", "Overview", 830, "dark"),
    "program": ("/program/{backward}", "Program", 900, "light"),
    "kernel": ("/program/{forward}/kernel/1", "Kernel", 720, "dark"),
    "job": ("/job/pretrain", "pretrain", 580, "light"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures(page: Browser, served: Served, name: str, tmp_path: Path) -> None:
    """They are written where TENSORD_PICTURES says."""
    place, title, height, scheme = PICTURES[name]
    page.scheme(scheme)
    keys = {label: longest_of(served, label) for label in ("forward", "backward")}
    go(page, served, place.format(**keys), title)
    data = page.picture((browsers.wanted_pictures() or tmp_path) / f"ui-{name}.png", height)
    assert data.startswith(b"\x89PNG") and len(data) > 20_000
