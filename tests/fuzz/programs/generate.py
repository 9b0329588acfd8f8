# SPDX-License-Identifier: Apache-2.0
"""Makes the program of a seed: what eager can run, node by node.

Each node is drawn, the program so far is run in eager, and the node stays when that gives values
which are finite and neither huge nor many. So no rule about operators has to be written here.
"""

from __future__ import annotations

import math
import random
import warnings
from dataclasses import replace
from typing import Any

import torch
from tensord.debug.judge import gradients_of, largest
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .draw import FLOATS, INTEGERS, Draw, UnfitError
from .operations import draw_text
from .program import Node, Program, functions

MOST_ELEMENTS = 4096  # of a value
MOST_OF_LONG = 80_000  # of a value, in programs where a size is one of _LONG
MOST_WITHIN = 1 << 24  # of all that an operator makes on its way
LARGEST = 30.0  # what exceeds it is brought back by a function of _TAMERS
LARGEST_INTEGER = 10_000
TRIES = 12  # of a node, before the program is shorter instead

_TAMERS = ["torch.tanh({})", "{}.clamp(-3, 3)", "F.softsign({})", "torch.sin({})"]
# Rows that one warp, one block of a GPU, or no block has in registers.
_LONG = [1030, 4100, 9001, 17000]
_LAYOUTS = [
    "{0}", "{0}", "{0}", "{0}", "{0}.t()", "{0}[::2]", "{0}[1:]", "{0}.transpose(0, -1)",
    "{0}.expand(3, *{1})", "{0}[:, 1:]", "{0}.contiguous(memory_format=torch.channels_last)",
]  # fmt: skip


def generate(seed: int) -> Program:
    """The program of a seed, always the same with one version of torch."""
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Generator(rng, seed).program()


class _HugeError(Exception):
    """More elements than allowed."""


class _Elements(TorchDispatchMode):
    """Ends with _HugeError when the results of operators have more elements than `most` in all."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.left -= sum(x.numel() for x in pytree.tree_leaves(result) if isinstance(x, Tensor))
        if self.left < 0:
            raise _HugeError
        return result


class _Generator:
    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng = rng
        self.length = round(2 * math.exp(rng.random() * math.log(30)))  # 2 to 60
        dynamic = rng.random() < 0.35
        symbolic = 0.85 if dynamic else 0.1
        sizes = self._sizes()
        self.is_long = any(size in _LONG for size in sizes.values())
        self.most_elements = MOST_OF_LONG if self.is_long else MOST_ELEMENTS
        self.draw = Draw(rng, symbolic, self.most_elements)
        self.current = Program(seed, sizes, (), (), (), dynamic=dynamic)
        self.names = 0
        self.hidden: set[str] = set()

    def program(self) -> Program:
        inputs = [self._input(i) for i in range(self.rng.randint(1, 4))]
        kept = tuple(n for n in inputs if n is not None) or (Node("a0", "torch.ones(3)"),)
        self.current = replace(self.current, inputs=kept)
        self._alias_inputs()
        self._choose_gradients()
        self.draw.values = self._values(self.current)
        for _ in range(self.length):
            self._extend()
        self._choose_outputs()
        self.current = self.current.cleaned()
        if self.current.gradients and not self._trains():
            self.current = replace(self.current, gradients=())
        if self.current.dynamic:
            self._choose_other_sizes()
        return self.current

    def _size(self) -> int:
        chance = self.rng.random()
        if chance < 0.02:
            return 0
        if chance < 0.1:
            return 1
        return self.rng.choice([2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33])

    def _sizes(self) -> dict[str, int]:
        sizes = {name: self._size() for name in ("n", "m", "k")}
        if self.rng.random() < 0.2:
            sizes[self.rng.choice(list(sizes))] = self.rng.choice(_LONG)
        return sizes

    def _input(self, number: int) -> Node | None:
        rng = self.rng
        shape = [rng.choice(["n", "m", "k", "n", "m", "1"]) for _ in range(rng.randint(0, 4))]
        sizes = f"({''.join(f'{s}, ' for s in shape)})"
        if math.prod(self.current.sizes.get(s, 1) for s in shape) > self.most_elements:
            return None
        dtype = rng.choice(FLOATS if rng.random() < 0.75 else [*INTEGERS, torch.bool])
        if dtype.is_floating_point:
            text = f"torch.randn({sizes}, dtype={dtype})"
        elif dtype is torch.bool:
            text = f"(torch.randn({sizes}) > 0)"
        else:
            least = 0 if dtype is torch.uint8 else -5
            text = f"torch.randint({least}, 9, {sizes}, dtype={dtype})"
        for layout in (rng.choice(_LAYOUTS), "{0}"):
            node = Node(f"a{number}", layout.format(text, sizes))
            try:
                value = functions(replace(self.current, inputs=(node,))).inputs(
                    **self.current.sizes
                )[0]
            except (RuntimeError, IndexError):
                continue
            if value.numel() <= self.most_elements:
                return node
        return None

    def _alias_inputs(self) -> None:
        """Sometimes one more input, which is a view of another or is another."""
        if self.current.inputs and self.rng.random() < 0.08:
            base = self.rng.choice(self.current.inputs).name
            text = self.rng.choice([f"{base}", f"{base}[1:]", f"{base}.unsqueeze(0)", f"{base}.T"])
            inputs = (*self.current.inputs, Node(f"a{len(self.current.inputs) + 1}0", text))
            trial = replace(self.current, inputs=inputs)
            try:
                self._values(trial)
            except (RuntimeError, IndexError):
                return
            self.current = trial

    def _choose_gradients(self) -> None:
        if self.rng.random() < 0.55:
            based = {name for node in self.current.inputs for name in node.uses}
            based |= {node.name for node in self.current.inputs if node.uses}
            values = self._values(self.current)
            floats = [n for n, v in values.items() if v.is_floating_point() and n not in based]
            self.current = replace(
                self.current, gradients=tuple(n for n in floats if self.rng.random() < 0.8)
            )

    def _values(self, program: Program) -> dict[str, Tensor]:
        """Every value at the end of a run in eager, by name; raises what eager raises."""
        everything = (*[n.name for n in program.inputs], *[n.name for n in program.nodes if n.name])
        run = functions(replace(program, outputs=everything))
        return dict(zip(everything, run.program(*run.inputs(**program.sizes)), strict=True))

    def _extend(self) -> None:
        """One more node, if one is found."""
        for _ in range(TRIES):
            try:
                text = draw_text(self.draw)
            except UnfitError:
                continue
            node = Node(f"v{self.names}", text)
            if self.is_long and self._is_huge(node):
                continue
            trial = replace(self.current, nodes=(*self.current.nodes, node))
            values = self._accepted(trial, inplace="_(" in text)
            if values is None:
                continue
            self.names += 1
            if self._is_large(values[node.name]):
                how = "{} % 7"
                if values[node.name].is_floating_point():
                    how = self.rng.choice(_TAMERS)
                tame = Node(f"v{self.names}", how.format(node.name))
                trial = replace(trial, nodes=(*trial.nodes, tame))
                values = self._accepted(trial, False)
                if values is None:
                    continue
                self.names += 1
                self.hidden.add(node.name)  # nothing else shall grow from it
            self.current = trial
            self.draw.values = {n: v for n, v in values.items() if n not in self.hidden}
            return

    def _accepted(self, trial: Program, inplace: bool) -> dict[str, Tensor] | None:
        """All values, when the trial runs and they are as they should be."""
        try:
            values = self._values(trial)
            new = values[trial.nodes[-1].name]
            if not isinstance(new, Tensor) or new.numel() > self.most_elements or new.is_complex():
                return None
            if new.dim() > 5:
                return None
            checked = values.values() if inplace else [new]
            for value in checked:
                if value.is_floating_point() and not torch.isfinite(value).all():
                    return None
            if inplace and (any(map(self._is_large, checked)) or not self._trains(trial, values)):
                return None
            return values
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return None

    def _is_huge(self, node: Node) -> bool:
        """Would it take memory out of all proportion, as an outer product of long rows does? Asked
        of tensors without memory, where its operators have a meaning for those."""
        names = sorted(set(node.uses))
        alone = Program(0, {}, tuple(Node(n, "") for n in names), (node,), (node.name,))
        shapes = [self.draw.values[n].detach().to("meta") for n in names]
        try:
            with torch.device("meta"), _Elements(MOST_WITHIN):
                functions(alone).program(*shapes)
        except _HugeError:
            return True
        except Exception:
            return False
        return False

    @staticmethod
    def _is_large(value: Tensor) -> bool:
        if value.numel() == 0 or value.dtype is torch.bool:
            return False
        limit = LARGEST if value.is_floating_point() else LARGEST_INTEGER
        return value.detach().double().abs().max().item() > limit

    def _trains(
        self, trial: Program | None = None, values: dict[str, Tensor] | None = None
    ) -> bool:
        """True when eager can differentiate the program, with finite gradients."""
        program = trial or self.current
        if values is not None:
            program = replace(program, outputs=tuple(n.name for n in program.nodes[-4:]))
        try:
            run = functions(program)
            arguments = run.inputs(**program.sizes)
            found = gradients_of(run.program(*arguments), arguments)
        except RuntimeError:
            return False
        return all(g is None or bool(torch.isfinite(g).all()) for g in found) and (
            values is not None or largest(found) < 1e4
        )

    def _choose_outputs(self) -> None:
        rng = self.rng
        names = [n.name for n in self.current.nodes if n.name in self.draw.values]
        names = names or [n.name for n in self.current.inputs]
        used = {use for node in self.current.nodes for use in node.uses}
        chosen = [n for n in names if n not in used and rng.random() < 0.8][-8:]
        chosen += [names[-1], *rng.choices(names, k=rng.randint(0, 2))]
        if rng.random() < 0.1:
            chosen.append(rng.choice(self.current.inputs).name)
        rng.shuffle(chosen)
        self.current = replace(self.current, outputs=tuple(chosen))
        self._drop_unused()

    def _drop_unused(self) -> None:
        """Takes out nodes that nothing comes of."""
        used = set(self.current.outputs)
        kept: list[Node] = []
        for node in reversed(self.current.nodes):
            if node.name in used or "_(" in node.text:
                kept.insert(0, node)
                used.update(node.uses)
        self.current = replace(self.current, nodes=tuple(kept))

    def _choose_other_sizes(self) -> None:
        """Sizes of a second call, where eager runs with them."""
        other = {name: self._size() for name in self.current.sizes}
        try:
            run = functions(self.current)
            arguments = run.inputs(**other)
            results = run.program(*arguments)
            found = gradients_of(results, arguments) if self.current.gradients else []
        except (RuntimeError, IndexError, ValueError):
            return
        if sum(r.numel() for r in results) > 4 * self.most_elements:
            return
        for value in (*results, *found):
            if value is not None and value.is_floating_point() and not value.isfinite().all():
                return
        self.current = replace(self.current, other_sizes=other)
