# SPDX-License-Identifier: Apache-2.0
"""Operators whose results lie otherwise in eager than torch declares.

The declaration of a pointwise operator is often its formula in simpler ones, and its result then
lies as what the formula makes of one operand alone: `copysign` of a transposed matrix and a number
as the number's signs, row by row. Eager lays it out as all operands together say. Here the operands
are brought into that order first, so that their rows are the result's, in a formula too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from .. import torch_compat

aten = torch.ops.aten

Function = Callable[..., Any]

# How many dimensions cuFFT transforms at a time.
_MOST_AT_ONCE = 3

# Of operands that broadcast.
_POINTWISE = (
    aten.clamp.Tensor,
    aten.copysign.Tensor,
    aten.floor_divide.default,
    aten.div.Tensor_mode,
    aten.logaddexp.default,
    aten.logaddexp2.default,
    aten.logical_and.default,
    aten.logical_or.default,
    aten.logical_xor.default,
    aten.heaviside.default,
)

# However the operands of these numbers lie: a power of a number, losses by their classes, random
# numbers by their means and deviations.
_ROW_MAJOR = {
    aten.pow.Scalar: (1,),
    aten.nll_loss2d_forward.default: (1,),
    aten.normal.Tensor_Tensor: (0, 1),
    aten.normal.Tensor_float: (0,),
    aten.normal.float_Tensor: (1,),
}


def _raises_a_number(x: Any, exponents: Any) -> bool:
    """Whether ldexp takes powers of a number, not of a tensor of two: eager has that number in
    float32 for whole numbers `x`, and in their type for others."""
    if x.dtype is torch.float32:
        return exponents.is_floating_point() or exponents.is_complex()
    return not (x.is_floating_point() or x.is_complex())


# The same where it is so of all operands: complex numbers, of which eager takes the angles out of
# complex ones; exponents of which a number is raised to the power.
_ROW_MAJOR_OF: dict[Any, tuple[tuple[int, ...], Callable[..., bool]]] = {
    aten.angle.default: ((0,), torch.is_complex),
    aten.ldexp.Tensor: ((1,), _raises_a_number),
}

# On CPUs row by row, or in channels-last memory where the input is; on CUDA as the input.
_BATCH_NORMS = (
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit_no_training.default,
    aten._batch_norm_with_update_functional.default,
    aten._batch_norm_no_update.default,
)


def result_layouts(whole: Collection[str]) -> dict[Any, Function]:
    """{OpOverload: function} for AOTAutograd. whole: operators that are not to be decomposed."""
    core = torch_compat.core_decompositions()

    def otherwise(op: torch._ops.OpOverload) -> Function:
        left_whole = torch_compat.operator_name(op) in whole or op not in core
        return _left_whole if left_whole else core[op]

    return {
        **{op: _pointwise(op, otherwise(op)) for op in _POINTWISE},
        **{op: _row_major(op, otherwise(op), which) for op, which in _ROW_MAJOR.items()},
        **{op: _row_major(op, otherwise(op), *of) for op, of in _ROW_MAJOR_OF.items()},
        **{op: _batch_norm(op, otherwise(op)) for op in _BATCH_NORMS},
        aten._fft_c2c.default: _fft_c2c(otherwise(aten._fft_c2c.default)),
        aten._fft_c2r.default: _fft_c2r(otherwise(aten._fft_c2r.default)),
        aten.index.Tensor: _index(otherwise(aten.index.Tensor)),
        aten.zero.default: _zero,
    }


def _left_whole(*_: Any, **__: Any) -> Any:
    return NotImplemented


def _above(op: torch._ops.OpOverload, otherwise: Function, arranged: Function) -> Function:
    """`arranged`, which is given a call of `op` besides: of operands that it brought into order, of
    which `otherwise` makes what there is, whether or not they look so. torch may not know how what
    has symbolic sizes lies."""
    is_below = False

    def call(*operands: Any, **rest: Any) -> Any:
        nonlocal is_below
        is_below = True
        try:
            return op(*operands, **rest)
        finally:
            is_below = False

    def function(*operands: Any, **rest: Any) -> Any:
        nonlocal is_below
        if is_below:
            is_below = False
            return otherwise(*operands, **rest)
        return arranged(call, *operands, **rest)

    return function


def _pointwise(op: torch._ops.OpOverload, otherwise: Function) -> Function:
    def arranged(call: Function, *operands: Any, **rest: Any) -> Any:
        tensors = [x for x in operands if isinstance(x, Tensor)]
        if torch_compat.depends_on_data(tensors):
            return otherwise(*operands, **rest)  # what broadcasts to what only data would tell
        shape = torch.broadcast_shapes(*(x.shape for x in tensors))
        # Numbers, of whatever form, say nothing of how the result lies.
        wide = [x.expand(shape) if _has_dims(x) and x.shape != shape else x for x in operands]
        orders = [torch_compat.pointwise_order(x) for x in wide if _has_dims(x)]
        order = torch_compat.pointwise_order(*filter(_has_dims, wide))
        if len(orders) < sum(x is not None for x in operands):
            orders.append(sorted(order))
        if all(one == order for one in orders):
            return otherwise(*operands, **rest)
        result = call(*(_in_order(x, order) if _has_dims(x) else x for x in wide), **rest)
        return _back(result, order)

    return _above(op, otherwise, arranged)


def _zero(x: Tensor) -> Any:
    """Of `zero_`, which changes nothing about how a tensor lies; row by row in 2.11."""
    if x.layout is not torch.strided:
        return NotImplemented
    return aten.full_like.default(x, 0, memory_format=torch.preserve_format)


def _has_dims(operand: Any) -> bool:
    return isinstance(operand, Tensor) and operand.dim() > 0


def _in_order(operand: Tensor, order: list[int]) -> Tensor:
    moved = operand.permute(order)
    return moved if torch_compat.pointwise_order(moved) == sorted(order) else moved.contiguous()


def _back(result: Tensor, order: list[int]) -> Tensor:
    """What was made of operands permuted by `order`, as of the operands themselves."""
    return result.permute([order.index(dim) for dim in range(len(order))])


def _row_major(
    op: torch._ops.OpOverload,
    otherwise: Function,
    which: tuple[int, ...],
    applies: Callable[..., bool] = lambda *_: True,
) -> Function:
    """Row-major, however the operands of the numbers `which` lie, where it `applies` to all."""

    def arranged(call: Function, *operands: Any, **rest: Any) -> Any:
        chosen = [operands[number] for number in which]
        if not applies(*operands) or all(map(torch_compat.is_known_contiguous, chosen)):
            return otherwise(*operands, **rest)
        return call(*(x.contiguous() if n in which else x for n, x in enumerate(operands)), **rest)

    return _above(op, otherwise, arranged)


def _index(otherwise: Function) -> Function:
    """Where no stride of the operand says which of two dimensions is the outer one, those of the
    indices do, of sizes of 1, too; torch declares what the operand alone says."""

    def arranged(call: Function, x: Tensor, indices: list[Tensor | None]) -> Any:
        places = [index for index in indices if index is not None]
        whole_numbers = not any(i.dtype in (torch.bool, torch.uint8) for i in places)
        if not whole_numbers or torch_compat.depends_on_data((x, *places)):
            return otherwise(x, indices)
        by = [dim for dim, index in enumerate(indices) if index is not None]
        others = [dim for dim in range(x.dim()) if dim not in by]
        in_rows = all(map(torch_compat.is_known_contiguous, places))
        if in_rows and not any(str(x.shape[dim]) == "1" for dim in others):
            return otherwise(x, indices)
        are_neighbours = by == list(range(by[0], by[0] + len(by)))
        before = [dim for dim in others if are_neighbours and dim < by[0]]
        after = others[len(before) :]
        shape = torch.broadcast_shapes(*(index.shape for index in places))

        def around(of_places: Iterable[Any], of: Callable[[int], Any]) -> list[Any]:
            return [*map(of, before), *of_places, *map(of, after)]

        whole = around(shape, x.size)
        source = x.as_strided(whole, around([0] * len(shape), x.stride))
        alone = around(shape, lambda _: 1)
        wide = [index.expand(shape) for index in places]
        if x.is_cuda and len({str(index.stride()) for index in wide}) > 1:
            wide = [index.contiguous() for index in wide]  # as eager's kernel has them
        wide = [index.reshape(alone).expand(whole) for index in wide]
        order = torch_compat.pointwise_order(source, *wide)
        if order == torch_compat.pointwise_order(source):
            return otherwise(x, indices)
        return _back(call(x, indices).permute(order).contiguous(), order)

    return _above(aten.index.Tensor, otherwise, arranged)


def _batch_norm(op: torch._ops.OpOverload, otherwise: Function) -> Function:
    def arranged(call: Function, x: Tensor, *rest: Any) -> Any:
        if x.device.type != "cpu":
            return otherwise(x, *rest)
        layout = torch_compat.memory_format_of(x)
        if x.is_contiguous(memory_format=layout):
            return otherwise(x, *rest)
        return call(x.contiguous(memory_format=layout), *rest)

    return _above(op, otherwise, arranged)


def _fft_c2c(otherwise: Function) -> Function:
    """cuFFT's result is packed by the transformed dimensions in the order in which the operand has
    them in memory; 2.11 declares the order of their numbers. More than three are transformed in
    stages, of which 2.11 knows nothing."""

    def arranged(call: Function, x: Tensor, dims: list[int], *rest: Any) -> Any:
        if x.device.type != "cuda" or len(dims) > _MOST_AT_ONCE:
            return otherwise(x, dims, *rest)
        transformed = _by_memory(x, dims)
        if transformed == sorted(transformed):
            return otherwise(x, dims, *rest)
        order = [dim for dim in range(x.dim()) if dim not in transformed] + transformed
        last = list(range(x.dim() - len(dims), x.dim()))
        result = call(x.permute(order), last, *rest)
        return _back(result, order)

    return _above(aten._fft_c2c.default, otherwise, arranged)


def _fft_c2r(otherwise: Function) -> Function:
    """Where the first two dimensions are transformed first, or more than three are, all but the
    last are a transform of complex numbers of their own (see _fft_c2c), whose result decides how
    what the last one gives is packed."""

    def arranged(call: Function, x: Tensor, dims: list[int], *rest: Any) -> Any:
        if x.device.type != "cuda" or len(dims) < 2:
            return otherwise(x, dims, *rest)
        *first, last = (dim % x.dim() for dim in dims)
        in_stages = len(dims) > _MOST_AT_ONCE or first[:2] == [0, 1]
        one_stage = len(first) <= _MOST_AT_ONCE
        transformed = _by_memory(x, first)
        if not (in_stages and one_stage) or transformed == sorted(transformed):
            return otherwise(x, dims, *rest)
        batch = [dim for dim in range(x.dim()) if dim != last and dim not in transformed]
        order = [*_by_memory(x, batch), *transformed, last]
        result = call(x.permute(order), list(range(len(batch), x.dim())), *rest)
        return _back(result, order)

    return _above(aten._fft_c2r.default, otherwise, arranged)


def _by_memory(x: Tensor, dims: Iterable[int]) -> list[int]:
    """Dimensions in the order in which `x` has them in memory, the outermost first."""
    return sorted((dim % x.dim() for dim in dims), key=x.stride, reverse=True)
