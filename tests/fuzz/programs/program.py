# SPDX-License-Identifier: Apache-2.0
"""A random program: Python text in parts that can be taken out one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

# Names of inputs (a0, a1, ...) and of results (v0, v1, ...) in the text of a node.
NAME = re.compile(r"\b[av]\d+\b")
# What makes a tensor of nothing, and so needs to be told on which device.
CREATION = re.compile(r"torch\.(arange|eye|full|linspace|ones|randint|randn|tensor|zeros)\(")


@dataclass(frozen=True)
class Node:
    """`name = text`, or the statement `text` where name is empty."""

    name: str
    text: str

    @property
    def line(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text

    @property
    def uses(self) -> list[str]:
        return NAME.findall(self.text)


@dataclass(frozen=True)
class Program:
    """A function of tensors.

    sizes: named sizes that the inputs' texts speak of; other_sizes: those of a second call, empty
    where there is none. inputs: in order; a later one may be a view of an earlier one. gradients:
    inputs that require them. outputs: names of inputs or results, repeated or not. device: where
    it runs; the texts do not speak of it.
    """

    seed: int
    sizes: dict[str, int]
    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    gradients: tuple[str, ...] = ()
    other_sizes: dict[str, int] = field(default_factory=dict)
    dynamic: bool = False
    device: str = "cpu"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> Program:
        nodes = {key: tuple(Node(**node) for node in value[key]) for key in ("inputs", "nodes")}
        lists = {key: tuple(value[key]) for key in ("outputs", "gradients")}
        return Program(**{**value, **nodes, **lists})

    def cleaned(self) -> Program:
        """Without inputs and sizes that nothing speaks of."""
        used = {name for node in self.nodes for name in node.uses} | set(self.outputs)
        inputs: list[Node] = []
        for node in reversed(self.inputs):
            if node.name in used:
                inputs.insert(0, node)
                used.update(node.uses)
        text = " ".join(node.text for node in inputs)
        kept = {n: s for n, s in self.sizes.items() if re.search(rf"\b{n}\b", text)}
        return replace(
            self,
            inputs=tuple(inputs),
            gradients=tuple(n for n in self.gradients if n in used),
            sizes=kept,
            other_sizes={n: s for n, s in self.other_sizes.items() if n in kept},
        )

    def source(self) -> str:
        """The functions `inputs`, of the sizes, and `program`, of the inputs. The numbers of inputs
        are drawn on the CPU, so that they are the same on every device."""
        lines = [f"def inputs({', '.join(self.sizes)}):", f"    torch.manual_seed({self.seed})"]
        for node in self.inputs:
            lines.append(f"    {self._placed(node.line, behind=f'.to({self.device!r})')}")
        names = ", ".join(node.name for node in self.inputs)
        for name in self.gradients:
            lines.append(f"    {name}.requires_grad_()")
        lines += [f"    return [{names}]", "", "", f"def program({names}):"]
        inside = f", device={self.device!r}"
        lines += [f"    {self._placed(node.line, inside=inside)}" for node in self.nodes]
        lines += [f"    return ({''.join(f'{name}, ' for name in self.outputs)})"]
        return "\n".join(lines) + "\n"

    def _placed(self, text: str, inside: str = "", behind: str = "") -> str:
        """The text with something as the last argument of each creation, and behind it."""
        if self.device == "cpu":
            return text
        for match in reversed(list(CREATION.finditer(text))):
            depth, end = 1, match.end()
            while depth:
                depth += {"(": 1, ")": -1}.get(text[end], 0)
                end += 1
            text = f"{text[: end - 1]}{inside}){behind}{text[end:]}"
        return text


@dataclass
class Functions:
    """The program's text as functions."""

    inputs: Callable[..., list[Any]]
    program: Callable[..., tuple[Any, ...]]


def functions(program: Program, wide: bool = False) -> Functions:
    """The functions of the text. wide: with every floating-point dtype float64."""
    import linecache

    import torch

    source = program.source()
    if wide:
        source = re.sub(r"torch\.(float16|bfloat16|float32)\b", "torch.float64", source)
        source = re.sub(r"\.(half|bfloat16|float)\(\)", ".double()", source)
    # Dynamo and tracebacks read the source by the name of its file.
    file = f"<program {program.seed}{' wide' if wide else ''}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(compile(source, file, "exec"), space)
    return Functions(space["inputs"], space["program"])


# The exception behind which a process has no device: whatever it runs there fails likewise.
DEVICE_LOST = "AcceleratorError"

# Settings of torch._dynamo.config: sizes that data decides are part of a graph, not its end.
TRACES_DATA = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True}

_SCRIPT = '''# SPDX-License-Identifier: Apache-2.0
"""{title}"""

import torch
import torch.nn.functional as F

{source}

def run(function, sizes):
    """Outputs, inputs after the call, and gradients."""
    arguments = inputs(**sizes)
    outputs = [o for o in function(*arguments)]
    total = sum(o.double().sum() for o in outputs if o.requires_grad)
    if isinstance(total, torch.Tensor):
        total.backward()
    gradients = [a.grad for a in arguments if a.requires_grad]
    return [o.detach() for o in outputs + arguments] + gradients


def test_seed_{seed}():
    compiled = torch.compile(program, backend="tensord", fullgraph=True, dynamic={dynamic})
    with torch._dynamo.config.patch({settings}):
        for sizes in {calls}:
            torch.testing.assert_close(run(compiled, sizes), run(program, sizes))


if __name__ == "__main__":
    test_seed_{seed}()
'''


def script(program: Program, title: str) -> str:
    """A script, or test, of its own that fails as the program did. (F is torch.nn.functional.)"""
    text = _SCRIPT.format(
        settings=TRACES_DATA,
        title=title.replace("\\", "/").replace('"', "'"),
        source=program.source(),
        seed=program.seed,
        dynamic=program.dynamic,
        calls=[program.sizes, *([program.other_sizes] if program.other_sizes else [])],
    )
    return (
        text if "F." in program.source() else text.replace("import torch.nn.functional as F\n", "")
    )
