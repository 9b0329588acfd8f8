# SPDX-License-Identifier: Apache-2.0
"""Runs a function compiled and in eager, and compares all that a caller can see of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensord
import torch
from compare import check, flatten
from torch import Tensor, nn


def compiled(function: Any, **options: Any) -> Any:
    """The function with this backend."""
    return torch.compile(function, backend="tensord", **options)


@dataclass
class Seen:
    """What a caller sees of some calls: results, inputs and state afterwards, gradients, which
    tensors share memory and how many bytes lie between their beginnings, which of the results are
    one tensor, and which tensors autograd follows."""

    results: list[Any]
    after: list[Tensor]
    gradients: list[Tensor | None]
    shared: list[tuple[int, int, int]]
    one: list[int]
    followed: list[bool]


def both_ways(
    function: Any,
    *inputs: Any,
    calls: int = 1,
    strides: bool = True,
    fullgraph: bool = True,
    rough: float = 1.0,
    **options: Any,
) -> None:
    """Compares `calls` calls of the compiled function, each with a backward pass where a result
    requires it, with the same calls in eager; both on copies of the inputs.

    A module's parameters and buffers count as inputs. Aliases among the inputs stay. rough: how
    many times the usual distance is allowed, for wide results of narrow computations.
    """
    eager = _seen(*copy.deepcopy((function, inputs)), calls, lambda f: f)
    before = tensord.stats()
    wrap = lambda f: compiled(f, fullgraph=fullgraph, **options)  # noqa: E731
    ours = _seen(*copy.deepcopy((function, inputs)), calls, wrap)
    after = tensord.stats()
    programs = [sum(s[n] for n in ("compiled", "joined", "hits")) for s in (before, after)]
    assert programs[1] > programs[0], "nothing was compiled"
    for what in ("results", "after", "gradients"):
        mine, theirs = getattr(ours, what), getattr(eager, what)
        magnitude = rough * _largest(theirs)
        check(what, mine, theirs, strides=strides and what != "gradients", magnitude=magnitude)
    assert ours.shared == eager.shared
    assert ours.one == eager.one
    assert ours.followed == eager.followed


def _seen(function: Any, inputs: tuple[Any, ...], calls: int, wrap: Callable[[Any], Any]) -> Seen:
    state = list(_state(function)) + [x for x in flatten(list(inputs)) if isinstance(x, Tensor)]
    run = wrap(function)
    results: list[Any] = []
    for _ in range(calls):
        found = flatten(run(*inputs))
        results += found
        _backward([x for x in found if isinstance(x, Tensor)])
    tensors = [x for x in (*results, *state) if isinstance(x, Tensor)]
    return Seen(
        results=[x.detach() if isinstance(x, Tensor) else x for x in results],
        after=[x.detach() for x in state],
        gradients=[x.grad for x in state if x.is_leaf],
        shared=list(_shared(tensors)),
        one=[next(i for i, y in enumerate(tensors) if y is x) for x in tensors],
        followed=[x.requires_grad for x in tensors],
    )


def _state(function: Any) -> Iterator[Tensor]:
    if isinstance(function, nn.Module):
        yield from function.parameters()
        yield from function.buffers()


def _backward(results: list[Tensor]) -> None:
    """Gradients of a weighted sum of all results."""
    terms = []
    for result in results:
        if result.requires_grad and (result.is_floating_point() or result.is_complex()):
            real = torch.view_as_real(result.resolve_conj()) if result.is_complex() else result
            weight = torch.arange(real.numel(), dtype=real.dtype) % 7 - 2.5
            terms.append((real * weight.reshape(real.shape)).sum().double())
    if terms:
        torch.stack(terms).sum().backward()


def _shared(tensors: list[Tensor]) -> Iterator[tuple[int, int, int]]:
    """Numbers of two tensors in one storage, and how far apart they begin."""
    places = [t.untyped_storage()._cdata if t.numel() else -i - 1 for i, t in enumerate(tensors)]
    begins = [t.storage_offset() * t.element_size() for t in tensors]
    for j, place in enumerate(places):
        yield from ((i, j, begins[j] - begins[i]) for i in range(j) if places[i] == place)


def _largest(values: list[Any]) -> float:
    """The largest magnitude among floating-point tensors, at least 1."""
    floats = [v for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.numel()]
    largest = [v.detach().double().abs().nan_to_num(0, 0, 0).max().item() for v in floats]
    return max([1.0, *largest])
