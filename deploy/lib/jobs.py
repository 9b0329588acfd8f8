# SPDX-License-Identifier: Apache-2.0
"""Runs training jobs in processes of their own and shows how far they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class JobFailed(RuntimeError):
    """A job ended without its summary. The message holds the end of its output."""


@dataclass
class Result:
    """One finished job. end: the `end` event of examples/train_gpt.py."""

    name: str
    end: dict[str, Any] = field(default_factory=dict)


class Runner:
    """Starts jobs, follows their events and collects their results. A context manager."""

    def __init__(self, root: Path, address: str, folder: Path, options: Namespace) -> None:
        self._script = root / "examples" / "train_gpt.py"
        self._options = options
        self._environment = {
            **os.environ,
            "TENSORD_ADDRESS": address,
            "TENSORD_AUTOSTART": "0",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        }
        # Threads that wait by spinning starve each other as soon as anything else uses the cores:
        # eager then runs at a sixth of its speed. Every job waits so, whatever compiles it.
        self._environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # A fallback must reach the statistics rather than end the job: the table shows it.
        self._environment.pop("TENSORD_STRICT", None)
        self._processes: list[subprocess.Popen[str]] = []
        self._progress = Progress(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]:<28}"),
            TimeElapsedColumn(),
        )
        self._live = self._progress.console.is_terminal

    def __enter__(self) -> Runner:
        if self._live:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._progress.stop()
        for process in self._processes:  # only those of a run that was broken off still run
            if process.poll() is None:
                process.kill()
                process.wait()

    def job(self, name: str, backend: str, width: int | None = None) -> Result:
        """One job on all cores. Raises JobFailed."""
        return self.jobs([name], backend, width or self._options.width, 0)[0]

    def jobs(self, names: list[str], backend: str, width: int, threads: int) -> list[Result]:
        """Jobs at once, which differ in dropout's seed. Raises JobFailed.

        threads: of each job; 0 is torch's own choice.
        """
        results: list[Result | JobFailed | None] = [None] * len(names)

        def follow(index: int) -> None:
            try:
                results[index] = self._follow(names[index], backend, width, threads, index)
            except JobFailed as error:
                results[index] = error

        followers = [threading.Thread(target=follow, args=(i,)) for i in range(len(names))]
        for thread in followers:
            thread.start()
        for thread in followers:
            thread.join()
        finished = []
        for name, result in zip(names, results, strict=True):
            if not isinstance(result, Result):
                raise result or JobFailed(f"{name}: its output could not be read")
            finished.append(result)
        return finished

    def _follow(
        self, name: str, backend: str, width: int, threads: int, dropout_seed: int
    ) -> Result:
        command = [sys.executable, str(self._script), "--events", "--backend", backend]
        command += ["--steps", str(self._options.steps), "--device", self._options.device]
        command += self._options.size.arguments(width)
        command += ["--threads", str(threads), "--dropout-seed", str(dropout_seed)]
        task = self._progress.add_task(name, total=self._options.steps, note="starting")
        result = Result(name)
        with tempfile.TemporaryFile("w+", errors="replace") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment,
            )
            self._processes.append(process)
            assert process.stdout is not None
            for line in process.stdout:
                self._show(task, result, line)
            status = process.wait()
            errors.seek(0)
            tail = "".join(errors.readlines()[-30:])
        if status != 0 or not result.end:
            raise JobFailed(f"{name}: the job ended with status {status}\n{tail}")
        if not self._live:
            print(f"{name:<24} {result.end['steps_per_s']:.2f} steps/s", flush=True)
        return result

    def _show(self, task: Any, result: Result, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return  # something that torch printed
        if event["event"] == "start":
            self._progress.update(task, note="first step")
        elif event["event"] == "step":
            note = f"loss {event['loss']:.3f}"
            self._progress.update(task, completed=event["step"], note=note)
        else:
            result.end = event
