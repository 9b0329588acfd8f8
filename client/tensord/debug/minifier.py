# SPDX-License-Identifier: Apache-2.0
"""The smallest graph of a call that differs from eager, as a script."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .capture import capture
from .case import Case, text_of
from .isolated import Isolated
from .judge import Outcome
from .reduce import candidates, key
from .shrink import shrink


def minify(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    path: str | Path = "tensord_minified.py",
    backend: str = "tensord",
    dynamic: bool | None = None,
    seconds: float = 600.0,
    seconds_each: float = 60.0,
) -> Path | None:
    """Finds the smallest graph of `function(*args, **kwargs)` that differs from eager or fails.

    The function is called once, with the graphs that Dynamo makes of it in eager; so it must run in
    eager, and it changes what it changes there. Then each graph is compiled by itself, in strict
    mode, and called on the arguments that it got, forward and, where they require gradients,
    backward. The first graph that differs or fails is made smaller as long as it does so in the
    same way: ends and beginnings are cut off, nodes left out or replaced by arguments, sizes and
    types made plain. Attempts run in another process, which may crash or hang.

    What counts as a difference: another dtype, size or stride of a result; other tensors that share
    memory; other arguments after the call; a value or gradient that is further from float64 than a
    tolerance of the dtype (compare.TOLERANCE), than three times eager's own distance, and than
    eager is from itself when its roundings are shaken. An exception, a crash and a hang differ.
    Random results do not, whatever they are, nor strides that torch's fake tensors declare.

    path: of the script; arguments that it cannot draw lie beside it, in a file of the same name
    with the suffix .pt. backend: any name that torch.compile takes. dynamic: as torch.compile has
    it. seconds: for making smaller, after which the smallest so far is written. seconds_each: an
    attempt that takes longer hangs.

    Returns the script's path, or None when no graph differs. The script imports torch and tensord,
    and raises tensord.debug.DifferenceError while the fault is there.
    Raises what the function raises in eager, ValueError for arguments of a graph that are neither
    plain tensors nor numbers, and RuntimeError where a graph cannot be said as a script.
    """
    cases = capture(function, args, kwargs or {}, dynamic)
    with tempfile.TemporaryDirectory(prefix="tensord-") as folder, Isolated(seconds_each) as child:
        trial = _Trial(child, Path(folder), backend)
        for case in cases:
            first = trial.outcome(case)
            if first.kind == "invalid":
                raise RuntimeError(f"a graph of {case.operations} nodes: {first.message}")
            if not first.bad:
                continue
            last = [first]

            def fails(smaller: Case, first: Outcome = first, last: list[Outcome] = last) -> bool:
                found = trial.outcome(smaller)
                if found.is_like(first):
                    last.append(found)
                return found.is_like(first)

            smallest = shrink(case, candidates, fails, key, seconds)
            upstream = trial.outcome(smallest, "aot_eager").is_like(first)
            title = _title(smallest, last[-1], upstream)
            return _write(Path(path), smallest, title, backend)
    return None


class _Trial:
    """Judges cases by their scripts, which lie in a folder."""

    def __init__(self, child: Isolated, folder: Path, backend: str) -> None:
        self._child, self._folder, self._backend = child, folder, backend
        self._count = 0

    def outcome(self, case: Case, backend: str | None = None) -> Outcome:
        self._count += 1
        backend = backend or self._backend
        file = _write(self._folder / f"case_{self._count}.py", case, "A candidate.", backend)
        return self._child.judge(str(file), backend, case.dynamic)


def _title(case: Case, outcome: Outcome, upstream: bool) -> str:
    """The first line says what fails; the message follows."""
    count = case.operations
    lines = [f"{outcome.kind}: {outcome.cause} ({count} {'node' if count == 1 else 'nodes'})", ""]
    if upstream:
        lines += ["torch's own backend aot_eager does the same.", ""]
    return "\n".join([*lines, outcome.message.strip(), ""])


def _write(path: Path, case: Case, title: str, backend: str) -> Path:
    text, storages = text_of(case, title, backend)
    path.write_text(text)
    if storages:
        torch.save(storages, path.with_suffix(".pt"))
    return path
