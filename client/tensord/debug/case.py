# SPDX-License-Identifier: Apache-2.0
"""A graph with the arguments of one call, and the script that it is written as."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

# Tensors of at most so many elements are written out; larger ones are drawn, or lie in a file.
MOST_WRITTEN = 32


@dataclass(frozen=True)
class Case:
    """values: what each placeholder gets, by its name: tensors (which may share memory) and
    numbers. drawn: tensors' elements are drawn from a seed rather than those of `values`."""

    graph: fx.GraphModule
    values: Mapping[str, Any]
    dynamic: bool | None
    drawn: bool = False

    @property
    def placeholders(self) -> list[fx.Node]:
        return list(self.graph.graph.find_nodes(op="placeholder"))

    @property
    def operations(self) -> int:
        """How many nodes compute something."""
        return sum(node.op.startswith("call_") for node in self.graph.graph.nodes)


def text_of(case: Case, title: str, backend: str) -> tuple[str, list[Tensor]]:
    """A script, and the storages that it loads from the .pt file beside it, as vectors."""
    writer = _Inputs(case.drawn)
    arguments = [writer.add(case.values[node.name]) for node in case.placeholders]
    bodies, program, imports = _program(case.graph)
    lines = [
        '"""' + title.replace("\\", "/").replace('"""', "'''") + '"""',
        "",
        *(["import pathlib", ""] if writer.storages else []),
        "import tensord.debug",
        "import torch",
        *imports,
        "",
        "",
        "def inputs():",
        "    torch.manual_seed(0)",
        *(f"    {line}" for line in writer.lines),
        f"    return [{', '.join(arguments)}]",
        "",
        "",
        *bodies,
        *program,
        "",
        'if __name__ == "__main__":',
        f"    tensord.debug.show(program, inputs, backend={backend!r}, dynamic={case.dynamic})",
    ]
    return "\n".join(lines) + "\n", writer.storages


class _Inputs:
    """Lines that make tensors, each storage once."""

    def __init__(self, drawn: bool) -> None:
        self._drawn = drawn
        self._bases: dict[int, str] = {}  # storage -> name
        self._count = 0
        self.lines: list[str] = []
        self.storages: list[Tensor] = []

    def add(self, value: Any) -> str:
        """The expression of an argument."""
        if not isinstance(value, Tensor):
            return repr(value)
        name = f"x{self._count}"
        self._count += 1
        storage = value.untyped_storage()._cdata
        whole = whole_of(value)
        plain = (
            value.is_contiguous() and value.numel() == whole.numel() and storage not in self._bases
        )
        if plain:
            text = f"{self._elements(whole, list(value.shape))}"
        else:
            base = self._bases.get(storage)
            if base is None:
                base = f"{name}_base"
                self.lines.append(f"{base} = {self._elements(whole, [whole.numel()])}")
            layout = list(value.shape), list(value.stride()), value.storage_offset()
            text = f"{base}.as_strided({layout[0]}, {layout[1]}, {layout[2]})"
            self._bases[storage] = base
        if plain:
            self._bases[storage] = f"{name}.detach()"
        self.lines.append(f"{name} = {text}{'.requires_grad_()' if value.requires_grad else ''}")
        return name

    def _elements(self, whole: Tensor, shape: list[int]) -> str:
        """A tensor of that shape with the elements of a vector, or with drawn ones."""
        dtype, device = whole.dtype, whole.device
        kind = f"dtype={dtype}" + (f", device={str(device)!r}" if device.type != "cpu" else "")
        if whole.numel() == 0:
            return f"torch.empty({shape}, {kind})"
        if self._drawn:
            return _drawn(whole, shape, kind)
        if whole.numel() <= MOST_WRITTEN and not dtype.is_complex and dtype.itemsize > 1:
            numbers = re.sub(r"\b(nan|inf)\b", r'float("\1")', str(whole.tolist()))
            return f"torch.tensor({numbers}, {kind}).reshape({shape})"
        self.storages.append(whole.detach().cpu())
        file = 'pathlib.Path(__file__).with_suffix(".pt")'
        number = len(self.storages) - 1
        return f"torch.load({file})[{number}].to({str(device)!r}).reshape({shape})"


def whole_of(value: Tensor) -> Tensor:
    """All elements of a tensor's storage as a vector."""
    storage = value.untyped_storage()
    return torch.empty(0, dtype=value.dtype, device=value.device).set_(storage)


def _drawn(whole: Tensor, shape: list[int], kind: str) -> str:
    if whole.dtype is torch.bool:
        return f"torch.randn({shape}).gt(0).to({kind.replace('dtype=', '')})"
    if whole.is_floating_point() or whole.dtype.is_complex:
        if whole.element_size() == 1:  # float8 is not drawn by itself
            return f"torch.randn({shape}).to({kind})"
        return f"torch.randn({shape}, {kind})"
    low, high = int(whole.min()), int(whole.max()) + 1
    return f"torch.randint({low}, {high}, {shape}, {kind})"


def _program(module: fx.GraphModule) -> tuple[list[str], list[str], list[str]]:
    """Classes of the bodies that a graph has as submodules, the program, and imports."""
    imports: dict[str, None] = {}
    bodies: list[str] = []
    names = {
        name: _class(child, f"Body_{name}", bodies, imports)
        for name, child in module.named_children()
        if isinstance(child, fx.GraphModule)
    }
    if not names:
        return bodies, _function(module, "program", imports, indent=""), list(imports)
    lines = _class_lines(module, "Program", names, imports)
    return bodies, [*lines, "program = Program()", ""], list(imports)


def _class(module: fx.GraphModule, name: str, bodies: list[str], imports: dict[str, None]) -> str:
    names = {
        child: _class(inner, f"{name}_{child}", bodies, imports)
        for child, inner in module.named_children()
        if isinstance(inner, fx.GraphModule)
    }
    bodies.extend(_class_lines(module, name, names, imports))
    return name


def _class_lines(
    module: fx.GraphModule, name: str, children: dict[str, str], imports: dict[str, None]
) -> list[str]:
    made = [f"        self.{child} = {kind}()" for child, kind in children.items()]
    head = [
        f"class {name}(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
    ]
    return [*head, *made, "", *_function(module, "forward", imports, indent="    "), ""]


def _function(
    module: fx.GraphModule, name: str, imports: dict[str, None], indent: str
) -> list[str]:
    code = module.graph.python_code("self")
    text = re.sub(r"def forward\(self(, )?", f"def {name}({'self, ' if indent else ''}", code.src)
    text = re.sub(r";  [\w, =]+ = None$", "", text, flags=re.MULTILINE)
    text = re.sub(r"  # .*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\) -> \w+:$", "):", text, flags=re.MULTILINE)
    for given, value in code.globals.items():  # of which fx names more than it uses
        if given != "torch" and re.search(rf"\b{given}\b", text):
            imports[_import(given, value)] = None
    lines = [line.rstrip() for line in text.splitlines()]
    return [f"{indent}{line}" if line else "" for line in lines if line.strip()] + [""]


def _import(name: str, value: Any) -> str:
    """What defines a name that a graph's code uses."""
    if isinstance(value, type(re)):
        return f"import {value.__name__} as {name}"
    if isinstance(value, float):
        return f"from math import {name}"  # inf, nan
    owner = getattr(value, "__module__", None) or "builtins"
    own = getattr(value, "__qualname__", getattr(value, "__name__", name))
    return f"from {owner} import {own} as {name}" if own != name else f"from {owner} import {name}"
