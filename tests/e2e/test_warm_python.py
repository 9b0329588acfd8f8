# SPDX-License-Identifier: Apache-2.0
"""Processes that begin with torch imported behave as those that do not (warm_python.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import warm_python

WAIT_S = 30.0

_SAYS = """
import os, sys
print(__name__, sys.argv, sys.path[0], os.getcwd(), os.environ.get("SAID"), sys.stdin.read())
print("beside", file=sys.stderr)
sys.exit(3)
"""


def run(command: list[str], folder: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True, text=True, check=False, cwd=folder, timeout=WAIT_S, input="given",
        env={**os.environ, "SAID": "yes"},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_runs_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(_SAYS)
    for arguments in (["says.py", "a", "-b"], ["-c", _SAYS, "a"], ["-m", "says", "a"]):
        code, printed, beside = run(warm_python.command(), tmp_path, *arguments)
        assert (code, beside) == (3, "beside\n")
        assert (code, printed, beside) == run([sys.executable], tmp_path, *arguments)


def test_torch_is_there_and_nothing_else(tmp_path: Path) -> None:
    program = "import sys; print([m in sys.modules for m in ('torch', 'torch._dynamo', 'tensord')])"
    for modules, found in (
        (("torch",), [True, False, False]),
        (warm_python.CAPTURE, [True, True, False]),
    ):
        _, printed, _ = run(warm_python.command(modules), tmp_path, "-c", program)
        assert printed.strip() == str(found)


def test_an_error_is_told_as_python_tells_it(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("def f():\n    raise ValueError(5)\nf()\n")
    code, _, said = run(warm_python.command(), tmp_path, "raises.py")
    assert code == 1
    assert said.splitlines()[-1] == "ValueError: 5"
    assert "line 2, in f" in said


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_ends_of_a_signal_as_the_fork_does(tmp_path: Path, number: int) -> None:
    program = f"import os; os.kill(os.getpid(), {number:d})"
    assert run(warm_python.command(), tmp_path, "-c", program)[0] == -number


def _is_gone(number: int) -> bool:
    deadline = time.monotonic() + WAIT_S
    while Path(f"/proc/{number}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals_go_through(number: int) -> None:
    program = """
import os, signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
print(os.getpid(), flush=True)
time.sleep(100)
"""
    with subprocess.Popen(
        [*warm_python.command(), "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        process.send_signal(number)
        assert process.wait(WAIT_S) == -number
    assert _is_gone(fork)


def test_open_files_are_handed_on(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        file.write("before ")
        file.flush()
        number = file.fileno()
        program = f"import os; os.write({number}, b'after'); os.fstat({number + 1})"
        done = subprocess.run(
            [*warm_python.command(), "-c", program], pass_fds=[number],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert (tmp_path / "file").read_text() == "before after"
    assert "Bad file descriptor" in done.stderr  # nothing that nobody gave


def test_what_torch_sets_itself_decides_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*warm_python.command(), "-c", "import sys; print('torch' in sys.modules)"],
        capture_output=True, text=True, check=True,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout.strip() == "True"


def test_what_decides_at_the_start_has_it_begin_afresh(tmp_path: Path) -> None:
    program = "import sys; print('torch' in sys.modules)"
    for name in ("OMP_NUM_THREADS", "TORCH_LOGS", "PYTHONHASHSEED", "PYTHONPATH"):
        done = subprocess.run(
            [*warm_python.command(), "-c", program],
            capture_output=True, text=True, check=True, env={**os.environ, name: "1"},
        )  # fmt: skip
        assert done.stdout.strip() == "False", name
