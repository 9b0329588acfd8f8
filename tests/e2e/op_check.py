# SPDX-License-Identifier: Apache-2.0
"""How test_ops.py compares one operator with eager; it needs no pytest, and works on any device.

All inputs of one operator go through one compiled graph, which costs one compile; where that fails,
each input is tried alone, so that the message names those at fault. Inputs are made on torch's
default device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from compare import Mismatch, check, flatten, wide
from op_inputs import Arguments, finite, unary
from op_table import CASES, Case


def arguments_of(case: Case, how: str) -> list[tuple[str, Arguments]]:
    """The first dtype goes through all inputs, the others through some; each with its name."""
    # What the gradient of a function with a kink is at NaN differs even within eager, by the place
    # of an element in a vector.
    is_gradient = how == "gradient"
    inputs = finite if is_gradient and case.inputs is unary else case.inputs
    torch.manual_seed(sum(map(ord, case.name)))
    result = []
    for dtype in case.dtypes[: 2 if is_gradient else None]:
        groups = list(enumerate(inputs(dtype)))
        if dtype is not case.dtypes[0]:
            groups = groups[:-1:3] + groups[-1:]
        name = f"{case.name} {str(dtype).removeprefix('torch.')}"
        result += [(f"{name} input {number}", group) for number, group in groups]
    return result


def _leaves(arguments: list[Arguments]) -> list[Arguments]:
    """Copies that require gradients where they can; layouts are kept."""
    return [
        tuple(x.detach().requires_grad_(x.is_floating_point()) for x in group)
        for group in arguments
    ]


def _gradients(run: Callable[..., Any], arguments: list[Arguments]) -> list[Any]:
    """The gradients of the weighted sum of all results that have one."""
    arguments = _leaves(arguments)
    total = 0.0
    for group in run(arguments):
        for result in group if isinstance(group, (tuple, list)) else [group]:
            if result.is_floating_point() and result.requires_grad:
                weight = torch.arange(result.numel(), dtype=torch.float64) % 7 - 2.5
                total = total + (result.double() * weight.reshape(result.shape)).sum()
    total.backward()
    return [tuple(x.grad for x in group) for group in arguments]


def _shapes(results: Any) -> list[Any]:
    return [tuple(t.shape) for t in flatten(results) if isinstance(t, torch.Tensor)]


def _is_captured_rightly(case: Case, group: Arguments) -> bool:
    """False where torch's fake tensors have other shapes than eager: norms of one element in 2.11.

    Such a graph is wrong before any backend sees it.
    """
    try:
        with torch._subclasses.FakeTensorMode() as mode:
            faked = case.function(*(mode.from_tensor(x) for x in group))
    except Exception:  # what no fake tensor can say is no reason to leave a case out
        return True
    return _shapes(faked) == _shapes(case.function(*group))


def compare(case: Case, named: list[tuple[str, Arguments]], how: str) -> None:
    """Raises Mismatch where a result, or a gradient, is not what it must be."""
    names = [name for name, _ in named]
    arguments = [group for _, group in named]

    def run(groups: list[Arguments]) -> list[Any]:
        return [case.function(*group) for group in groups]

    def all_of(function: Callable[..., Any], groups: list[Arguments]) -> list[Any]:
        return _gradients(function, groups) if how == "gradient" else function(groups)

    torch._dynamo.reset()
    compiled = torch.compile(run, backend="tensord", fullgraph=True, dynamic=how == "dynamic")
    ours = all_of(compiled, arguments)
    eager = all_of(run, arguments)
    for name, group, mine, theirs, exact in zip(
        names, arguments, ours, eager, _reference(all_of, run, arguments, eager), strict=True
    ):
        magnitude = _largest(group) if case.reduces else 1.0
        check(f"{how} of {name}", mine, theirs, exact, strides=False, magnitude=magnitude)
    if how == "result" and _strides(ours) != _strides(eager):
        _check_strides(names, ours, run, arguments)


def _largest(group: Arguments) -> float:
    """The largest finite magnitude of the floating-point inputs, or 1."""
    tensors = [x.detach() for x in group if x.is_floating_point() and x.numel() > 0]
    return max([1.0, *(x.nan_to_num(0, 0, 0).abs().max().item() for x in tensors)])


def _strides(results: Any) -> list[Any]:
    """The strides of every result that has elements, where they mean something."""
    return [
        [(n, s) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1] if t.numel() else []
        for t in flatten(results)
        if isinstance(t, torch.Tensor)
    ]


def _check_strides(names: list[str], ours: Any, run: Any, arguments: list[Arguments]) -> None:
    """Where torch's capture or its fake tensors say other strides than eager has, those will do."""
    torch._dynamo.reset()
    captured = torch.compile(run, backend="aot_eager_decomp_partition", dynamic=False)(arguments)
    with torch._subclasses.FakeTensorMode() as mode:
        faked = run([tuple(mode.from_tensor(x) for x in group) for group in arguments])
    for name, mine, *allowed in zip(names, ours, run(arguments), captured, faked, strict=True):
        if _strides(mine) not in [_strides(theirs) for theirs in allowed]:
            raise Mismatch(f"{name}: strides {_strides(mine)}, not {[*map(_strides, allowed)]}")


def _reference(all_of: Any, run: Any, arguments: list[Arguments], eager: list[Any]) -> list[Any]:
    """In float64 and on the CPU: eager's kernels on a GPU have constants in float32."""
    device = torch.get_default_device()
    try:
        with torch.device("cpu"):
            results = all_of(run, [_on(wide(group), "cpu") for group in arguments])
        return _on(results, device)
    except RuntimeError:  # some mix dtypes in ways that float64 does not allow
        return eager


def _on(value: Any, device: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_on(item, device) for item in value)
    return value.to(device) if isinstance(value, torch.Tensor) else value


def _blame(case: Case, named: list[tuple[str, Arguments]], how: str, error: Exception) -> None:
    """Raises what each input alone gives."""
    problems = []
    for one in named:
        try:
            compare(case, [one], how)
        except Exception as problem:
            problems.append(f"{one[0]}: {type(problem).__name__}: {str(problem)[:300]}")
    raise Mismatch(
        "\n".join(
            [
                f"{len(problems)} of {len(named)} inputs fail",
                *problems[:12],
                "" if problems else f"only all together: {error}",
            ]
        )
    ) from error


# Every operator, and how it is checked.
RUNS = [(case, "result") for case in CASES]
RUNS += [(case, "gradient") for case in CASES if case.grad]
RUNS += [(case, "dynamic") for case in CASES if case.dynamic]


def run(case: Case, how: str) -> None:
    """Checks one operator; raises Mismatch with what each input gives."""
    named = [one for one in arguments_of(case, how) if _is_captured_rightly(case, one[1])]
    assert named, f"{case.name}: nothing is left to compare"
    try:
        compare(case, named, how)
    except Exception as error:
        _blame(case, named, how, error)
