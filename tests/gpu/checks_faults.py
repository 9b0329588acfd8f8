# SPDX-License-Identifier: Apache-2.0
"""Bad days on a GPU, each in a process of its own, which it may spoil."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable

import torch

_START = """
import gc, os, sys, tensord, torch
def f(x):
    return (x.sin() * 2 + 1).softmax(-1)
run = torch.compile(f, backend="tensord", mode=MODE, dynamic=False)
x = torch.randn(64, 1024, device="cuda")
for _ in range(4):
    torch.testing.assert_close(run(x), f(x))
"""

_OUT_OF_MEMORY = """
big = torch.empty(1 << 28, device="cuda").reshape(1 << 14, -1)  # 1 GiB
torch.cuda.set_per_process_memory_fraction(
    1.5 * (1 << 30) / torch.cuda.get_device_properties(0).total_memory)
before = torch.cuda.memory_allocated()
other = torch.compile(lambda x: (x @ x.T).softmax(-1) + x.sum(), backend="tensord", mode=MODE)
for _ in range(3):
    try:
        other(big)
        sys.exit("no error")
    except torch.OutOfMemoryError:
        pass
    gc.collect()
    assert torch.cuda.memory_allocated() <= before + (1 << 20), torch.cuda.memory_allocated()
torch.testing.assert_close(run(x), f(x))
assert tensord.stats()["fallbacks"] == 0, tensord.stats()
"""

_FORK = """
pid = os.fork()
if pid == 0:
    try:
        run(x)
    except RuntimeError as error:
        os._exit(0 if "fork" in str(error) else 3)
    except BaseException:
        os._exit(4)
    os._exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
torch.testing.assert_close(run(x), f(x))  # the parent goes on
"""

# An index beyond the end: torch's own kernel stops the device.
_DEVICE_LOST = """
torch.arange(4, device="cuda")[torch.tensor([1 << 20], device="cuda")]
for _ in range(2):
    try:
        run(x)
        torch.cuda.synchronize()
        sys.exit("no error")
    except RuntimeError as error:
        assert "CUDA" in str(error), error
assert tensord.stats()["fallbacks"] == 0
os._exit(0)  # nothing can be freed on this device any more
"""

# An index beyond the end in a kernel of ours: a device assertion, as in eager.
_INDEX_OUT_OF_RANGE = """
import torch.nn.functional as F
def rows(table, tokens, targets):
    return F.cross_entropy(F.embedding(tokens, table) @ table.T, targets)
loss = torch.compile(rows, backend="tensord", mode=MODE, dynamic=False)
table, tokens = torch.randn(50, 64, device="cuda"), torch.randint(0, 50, (256,), device="cuda")
targets = torch.randint(0, 50, (256,), device="cuda")
targets[::3] = -100  # ignored
for _ in range(4):
    torch.testing.assert_close(loss(table, tokens, targets), rows(table, tokens, targets))
torch.cuda.synchronize()
PLACE[100] = 50
try:
    loss(table, tokens, targets)
    torch.cuda.synchronize()
    sys.exit("no error")
except RuntimeError as error:
    assert "device-side assert triggered" in str(error), error
assert tensord.stats()["fallbacks"] == 0
os._exit(0)  # nothing can be freed on this device any more
"""


def _survives(program: str, mode: str | None) -> None:
    if torch.get_default_device().type != "cuda":
        return
    text = _START.replace("MODE", repr(mode)) + program.replace("MODE", repr(mode))
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=90
    )
    assert done.returncode == 0, done.stderr[-1500:]


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Each with and without CUDA graphs."""
    programs = {
        "out of memory": _OUT_OF_MEMORY,
        "fork": _FORK,
        "device lost": _DEVICE_LOST,
        "token out of range": _INDEX_OUT_OF_RANGE.replace("PLACE", "tokens"),
        "target out of range": _INDEX_OUT_OF_RANGE.replace("PLACE", "targets"),
    }
    return [
        (f"{name}, {mode or 'default'}", functools.partial(_survives, program, mode))
        for name, program in programs.items()
        for mode in (None, "reduce-overhead")
    ]
