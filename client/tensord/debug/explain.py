# SPDX-License-Identifier: Apache-2.0
"""`explain`: what torch.compile makes of a call, in words."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .. import notebook, torch_compat
from ..backend import compile_fx
from ..counters import STATS
from ..frames import explaining
from ..frames.explaining import EnteredFunction


@dataclass(frozen=True)
class Graph:
    """One captured graph.

    operators: of what Dynamo captured. programs: how many it is compiled to, forward and backward
    among them. call_backs: nodes that run in Python within these, and why. fallbacks: why some of
    it runs in eager.
    """

    operators: int
    programs: int
    call_backs: tuple[str, ...]
    fallbacks: tuple[str, ...]


@dataclass(frozen=True)
class Break:
    """Where a function is cut into graphs.

    place: file, line and function; code: that line. advice: what to do, where torch knows.
    """

    reason: str
    place: str
    code: str
    explanation: str
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """What became of a call; str() is for people. functions: those captured, the first entered
    first; what goes on behind a break is one of its own."""

    graphs: tuple[Graph, ...]
    breaks: tuple[Break, ...]
    functions: tuple[EnteredFunction, ...]

    def __str__(self) -> str:
        return "\n".join(
            [*_graphs_in_words(self.graphs), *_breaks_in_words(self.breaks),
             *_functions_in_words(self.functions)]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        """For notebooks: the words of str(), each part and each function folded by itself."""
        return "".join(
            [_folded(_graphs_in_words(self.graphs)), _folded(_breaks_in_words(self.breaks)),
             _folded_functions(self.functions)]
        )  # fmt: skip


def explain(
    target: Callable[..., Any],
    *arguments: Any,
    compile_options: dict[str, Any] | None = None,
    **named: Any,
) -> Explanation:
    """Compiles and runs a call of a function or module once, apart from what of it is compiled
    already, and says what graphs it has, where and why it is cut, what the compiled code depends on
    (guards), and what the next process would be served.

    compile_options: arguments of torch.compile (fullgraph, dynamic, mode, options). Raises what the
    call raises.
    """
    graphs: list[Graph] = []

    def backend(module: fx.GraphModule, inputs: Sequence[Any], **told: Any) -> Callable[..., Any]:
        before = STATS.snapshot()
        run = compile_fx(module, inputs, **told)
        graphs.append(_graph(module, before, STATS.snapshot()))
        return run

    # By which frames know the backend (torch_compat/dynamo_frames.py).
    backend._torchdynamo_orig_backend = compile_fx  # type: ignore[attr-defined]
    compiled = torch.compile(target, backend=backend, **(compile_options or {}))
    with torch_compat.breaks() as breaks, explaining.explaining() as functions:
        compiled(*arguments, **named)
    return Explanation(tuple(graphs), tuple(map(_break, breaks)), tuple(functions))


def _graph(module: fx.GraphModule, before: dict[str, Any], after: dict[str, Any]) -> Graph:
    def new(name: str) -> tuple[str, ...]:
        return tuple((Counter(after[name]) - Counter(before[name])).elements())

    operators = sum(
        node.op not in ("placeholder", "output", "get_attr") for node in module.graph.nodes
    )
    return Graph(
        operators, after["graphs"] - before["graphs"], new("call_back_reasons"),
        new("fallback_reasons"),
    )  # fmt: skip


# What Dynamo has no more words for than its own name.
_BY_NAME = {
    "generic_jump": (
        "a branch on a tensor's value",
        "Both branches by torch.where, or torch.cond, keep one graph.",
    ),
    "step_unsupported": ("a statement that Dynamo does not follow", ""),
}


def _break(reason: Any) -> Break:
    """Of what torch notes (GraphCompileReason)."""
    frame = reason.user_stack[-1] if reason.user_stack else None
    place = f"{frame.filename}:{frame.lineno} in {frame.name}" if frame else ""
    code = linecache.getline(frame.filename, frame.lineno or 0).strip() if frame else ""
    first, *rest = str(reason.reason).splitlines() or [""]
    for name, (said, instead) in _BY_NAME.items():
        if first.startswith(name):
            return Break(said, place, code, "", (instead,) if instead else ())
    explanation = " ".join(
        line.strip().removeprefix("Explanation:").strip()
        for line in rest if line.strip().startswith("Explanation:")
    )  # fmt: skip
    advice = tuple(found[1] for line in rest if (found := re.match(r"\s*Hint: (.*)", line)))
    return Break(first, place, code, explanation, advice)


def _graphs_in_words(graphs: Sequence[Graph]) -> list[str]:
    lines = [f"{len(graphs)} graphs"]
    for number, graph in enumerate(graphs):
        lines.append(f"  {number}: {graph.operators} operators, {graph.programs} programs")
        lines += [f"     runs in Python: {reason}" for reason in graph.call_backs]
        lines += [f"     runs in eager: {reason}" for reason in graph.fallbacks]
    return lines


def _breaks_in_words(breaks: Sequence[Break]) -> list[str]:
    lines = [f"{len(breaks)} breaks"]
    for number, one in enumerate(breaks):
        lines.append(f"  {number}: {one.reason}")
        if one.place:
            lines.append(f"     at {one.place}: {one.code}")
        if one.explanation:
            lines.append(f"     {one.explanation}")
        lines += [f"     try: {advice}" for advice in one.advice]
    return lines


def _functions_in_words(functions: Sequence[EnteredFunction]) -> list[str]:
    lines = [f"{len(functions)} functions"]
    for function in functions:
        lines.append(f"  {function.name}")
        if function.unrecorded:
            lines.append(f"     each process captures it: {function.unrecorded}")
        elif function.stored:
            lines.append("     served to the next process")
        else:
            said = "the daemon does not answer" if function.stored is None else "not stored yet"
            lines.append(f"     would be served to the next process ({said})")
        lines += [f"     a stored frame does not serve: {miss}" for miss in function.misses]
        lines += [f"     guard: {text}" for text in function.guards]
    return lines


def _folded(words: Sequence[str]) -> str:
    title, *lines = words
    return notebook.section(title, notebook.items(line.strip() for line in lines))


def _folded_functions(functions: Sequence[EnteredFunction]) -> str:
    title, *_ = _functions_in_words(functions)
    each = []
    for function in functions:
        _, name, *lines = _functions_in_words([function])
        inner = notebook.items(line.strip() for line in lines)
        each.append(notebook.section(name.strip(), inner, is_open=False))
    return notebook.section(title, "".join(each))
