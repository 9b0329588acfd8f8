# SPDX-License-Identifier: Apache-2.0
"""What the quick start prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

console = Console()

HEADINGS = (
    "first\nstep",
    "\ncompile",
    "programs\ncompiled",
    "\nsteps/s",
    "beside\neager",
    "final\nloss",
    "gap to\neager's",
)
CAPTION = (
    "compile: what a job waited for the daemon; the rest of its first step is\n"
    "torch's capture. Of several jobs: the slowest first step and compile, the\n"
    "largest loss and gap, and the steps/s of all together."
)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


def results(
    rows: list[Any],
    distance: Callable[[list[float], list[float]], float],
    compile_seconds: Callable[[Any], float],
    compiled_by: Callable[[Any], int],
) -> None:
    """One line a row: times are the slowest job's, steps a second those of all jobs together."""
    table = Table(
        title="GPT training",
        caption=CAPTION,
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),  # all of it fits 80 columns
    )
    table.add_column("", no_wrap=True)
    for name in HEADINGS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        ours = row.jobs[0].end.get("tensord") is not None
        loss = max(job.end["loss"] for job in row.jobs)
        cells = [
            row.name,
            _seconds(row.worst(lambda job: job.end["first_step_s"])),
            _seconds(row.worst(compile_seconds)) if ours else "",
            str(compiled_by(row)) if ours else "",
            f"{row.steps_per_s:.2f}",
        ]
        if row.eager is None:
            cells += ["", f"{loss:.3f}", ""]
        else:
            reference = row.eager.end["losses"]
            gap = row.worst(lambda job, r=reference: distance(job.end["losses"], r))
            ratio = row.steps_per_s / row.eager.end["steps_per_s"]
            cells += [f"{ratio:.2f}x", f"{loss:.3f}", f"{gap:.3f}"]
        table.add_row(*cells, end_section=row.name.startswith("2"))
    console.print(table)


def daemon(stats: dict[str, Any]) -> None:
    """The daemon's counters, and where compile time went."""
    table = Table(
        title=f"tensord {stats['version']}, asked over RPC", show_header=False, box=SIMPLE_HEAD
    )
    table.add_column()
    table.add_column(justify="right")
    made, reused = stats["kernels_compiled"], stats["kernels_reused"]
    hits = stats["hits"]
    lookup = f"{stats['lookup_nanoseconds'] / hits / 1e6:.3f} ms" if hits else "-"
    for name, value in (
        ("requests", stats["requests"]),
        ("  found in the store", hits),
        ("  joined a compile under way", stats["joined"]),
        ("  compiled", stats["compiled"]),
        ("  failed", stats["failed"]),
        ("mean look-up", lookup),
        ("kernels compiled / reused", f"{made} / {reused}"),
        ("programs stored", stats["programs_stored"]),
        ("bytes stored", f"{stats['bytes_stored'] / 2**20:.1f} MiB"),
        ("workers' CPU time", f"{stats['worker_cpu_nanoseconds'] / 1e9:.1f} s"),
        ("daemon's memory", f"{stats['resident_bytes'] / 2**20:.0f} MiB"),
    ):
        table.add_row(name, str(value))
    table.add_section()
    for stage, nanoseconds in sorted(stats["stages"].items(), key=lambda item: -item[1])[:6]:
        table.add_row(f"time in {stage}", f"{nanoseconds / 1e9:.2f} s")
    console.print(table)


def verdict(problems: list[str], tolerance: float, smooth: int, seconds: float) -> None:
    """The last lines: what went wrong, or that all is well."""
    for problem in problems:
        console.print(f"[bold red]failed[/] {escape(problem)}", soft_wrap=True)
    if not problems:
        console.print(
            f"[bold green]ok[/] every loss curve within {tolerance} nats of eager's (mean of "
            f"{smooth} steps), nothing fell back to eager, nothing was compiled twice "
            f"({seconds:.0f} s)",
            soft_wrap=True,
        )


def failure(error: Exception, log: str) -> None:
    """A job that did not end well, and the daemon's last words."""
    console.print(f"[bold red]failed[/] {escape(str(error))}", soft_wrap=True, highlight=False)
    console.print(f"the daemon's log ends:\n{log}", soft_wrap=True, highlight=False, markup=False)
