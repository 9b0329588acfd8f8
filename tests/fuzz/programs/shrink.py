# SPDX-License-Identifier: Apache-2.0
"""Makes a program that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tensord.debug import shrink as debug

from .program import NAME, Node, Program

# Says whether a program fails as the first did.
Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, seconds: float) -> Program:
    """The smallest program found in the time, to which no single step applies any more."""
    return debug.shrink(program, _sound, fails, _text, seconds)


def _text(program: Program) -> str:
    return f"{program.source()}{program.dynamic}{program.other_sizes}"


def _sound(program: Program) -> Iterator[Program]:
    """The candidates, without what they do not use; those without any input are left out."""
    for candidate in _candidates(program):
        candidate = _without_dead_code(candidate).cleaned()
        if candidate.inputs:
            yield candidate


def _candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, the boldest steps first."""
    if program.other_sizes:
        yield replace(program, other_sizes={})
        yield replace(program, other_sizes={}, sizes=program.other_sizes)
    if program.dynamic:
        yield replace(program, dynamic=False)
    if program.gradients:
        yield replace(program, gradients=())
    yield from _fewer_outputs(program)
    yield from _fewer_nodes(program)
    for name in program.gradients:
        yield replace(program, gradients=tuple(n for n in program.gradients if n != name))
    yield from _plainer_inputs(program)
    yield from _smaller_sizes(program)
    yield from _plainer_texts(program)


def _fewer_outputs(program: Program) -> Iterator[Program]:
    outputs = program.outputs
    if len(outputs) > 1:
        for output in dict.fromkeys(outputs):
            yield replace(program, outputs=(output,))
        for i in range(len(outputs)):
            yield replace(program, outputs=outputs[:i] + outputs[i + 1 :])
    # What comes before an output, in its place.
    texts = {node.name: node for node in program.nodes}
    for i, output in enumerate(outputs):
        for name in dict.fromkeys(texts[output].uses if output in texts else []):
            yield replace(program, outputs=(*outputs[:i], name, *outputs[i + 1 :]))


def _fewer_nodes(program: Program) -> Iterator[Program]:
    """Halves and quarters left out, then each node replaced by what it uses, or by an input."""
    count = len(program.nodes)
    part = count // 2
    while part >= 2:
        for start in range(0, count, part):
            smaller = program
            for node in reversed(program.nodes[start : start + part]):
                smaller = _replaced(smaller, node, node.uses[0] if node.uses else "")
            yield smaller
        part //= 2
    for node in reversed(program.nodes):
        for name in dict.fromkeys(node.uses):
            yield _replaced(program, node, name)
        yield _replaced(program, node, "")
    for node in reversed(program.nodes):
        for shape in ("(n,)", "(n, m)", "(n, m, k)", "()"):
            yield _as_input(program, node, f"torch.randn({shape})")


def _replaced(program: Program, node: Node, name: str) -> Program:
    """Without a node: `name` takes its place, or nothing where it has none."""
    nodes = tuple(n for n in program.nodes if n is not node and n.name != node.name)
    if not name:
        return replace(program, nodes=nodes)

    def renamed(text: str) -> str:
        return NAME.sub(lambda match: name if match[0] == node.name else match[0], text)

    return replace(
        program,
        nodes=tuple(Node(n.name, renamed(n.text)) for n in nodes),
        outputs=tuple(map(renamed, program.outputs)),
    )


def _as_input(program: Program, node: Node, text: str) -> Program:
    number = 1 + max(int(n.name[1:]) for n in program.inputs)
    new = Node(f"a{number}", text)
    result = _replaced(program, node, new.name)
    sizes = {"n": 3, "m": 4, "k": 2} | program.sizes
    return replace(result, inputs=(*program.inputs, new), sizes=sizes)


def _without_dead_code(program: Program) -> Program:
    used = set(program.outputs)
    kept: list[Node] = []
    for node in reversed(program.nodes):
        if node.name in used or "_(" in node.text:
            kept.insert(0, node)
            used.update(node.uses)
    return replace(program, nodes=tuple(kept))


def _changed(program: Program, old: Node, text: str) -> Program:
    def change(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(Node(n.name, text) if n is old else n for n in nodes)

    return replace(program, inputs=change(program.inputs), nodes=change(program.nodes))


def _plainer_inputs(program: Program) -> Iterator[Program]:
    """Without layouts, dtypes and dimensions."""
    for node in program.inputs:
        match = re.match(r"(torch\.rand\w+\(.*?\((.*?)\), dtype=(torch\.\w+)\))", node.text)
        if match is None:
            continue
        drawn, shape, dtype = match.groups()
        if drawn != node.text:
            yield _changed(program, node, drawn)
        if dtype not in ("torch.float32", "torch.int64"):
            plain = "torch.int64" if "randint" in drawn else "torch.float32"
            yield _changed(program, node, node.text.replace(dtype, plain))
        sizes = [s for s in shape.split(", ") if s]
        for i in range(len(sizes)):
            fewer = "".join(f"{s}, " for s in sizes[:i] + sizes[i + 1 :])
            yield _changed(program, node, node.text.replace(f"({shape})", f"({fewer})", 1))
        if "1" in sizes:
            named = ", ".join("n" if s == "1" else s for s in sizes)
            yield _changed(program, node, node.text.replace(f"({shape})", f"({named}, )", 1))


def _smaller_sizes(program: Program) -> Iterator[Program]:
    for name, size in program.sizes.items():
        for smaller in (0, 1, 2, 3, 4, size // 2):
            if smaller < size:
                yield replace(program, sizes={**program.sizes, name: smaller})


# A text in a node, and what is simpler.
_PLAINER = [
    (r"\(-?\w+\.size\(\w+\) \* -?\w+\.size\(\w+\)\)", "-1"),
    (r"torch\.(float16|bfloat16|float64)", "torch.float32"),
    (r"torch\.(int32|int16|int8|uint8)", "torch.int64"),
    (r"\.(half|bfloat16|double)\(\)", ".float()"),
    (r", \w+=[-\w.']+(?=\))", ""),
    (r" \* -?[\d.]+$", ""),
    (r"(?<![\w.])-?[2-9]\d*(\.\d+)?(?![\w.])", "1"),
    (r"(?<![\w.])-?\d+\.\d+", "1.0"),
]


def _plainer_texts(program: Program) -> Iterator[Program]:
    for node in program.nodes:
        for pattern, plain in _PLAINER:
            for match in re.finditer(pattern, node.text):
                text = node.text[: match.start()] + plain + node.text[match.end() :]
                if text != node.text:
                    yield _changed(program, node, text)
        for name in dict.fromkeys(node.uses):
            for other in dict.fromkeys(node.uses):
                if other < name:
                    yield _changed(program, node, re.sub(rf"\b{name}\b", other, node.text))
