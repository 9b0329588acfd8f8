# SPDX-License-Identifier: Apache-2.0
"""Inputs for single operators: odd sizes, strange layouts, nothing at all, NaN and infinities."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Arguments = tuple[torch.Tensor, ...]

FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
REALS = (torch.float32, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.uint8)
BOOL = (torch.bool,)


def make(dtype: torch.dtype, *sizes: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
    """Random numbers of the dtype, integers small and truth values mixed."""
    if dtype is torch.bool:
        return torch.rand(sizes) < 0.5
    if not dtype.is_floating_point:
        low = max(low, 0) if dtype is torch.uint8 else low * 4
        return torch.randint(math.floor(low), math.ceil(high * 4) + 1, sizes, dtype=dtype)
    return (torch.rand(sizes, dtype=torch.float64) * (high - low) + low).to(dtype)


def special(dtype: torch.dtype) -> torch.Tensor:
    """NaN, infinities, signed zeros, very large and very small numbers; extremes for integers."""
    if dtype is torch.bool:
        return torch.tensor([True, False, True])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([0, 1, 2, info.max, info.max - 1, info.min, info.min + 1], dtype=dtype)
    info = torch.finfo(dtype)
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 3.5]
    values += [info.max / 16, info.min / 16, info.tiny, -info.tiny, info.eps]
    values += [10.0, -10.0, 88.0, -88.0, 100.0]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def layouts(dtype: torch.dtype, **limits: float) -> list[torch.Tensor]:
    """One tensor for each way in which memory may be arranged."""
    return [
        make(dtype, 7, 33, **limits),
        make(dtype, 1, **limits),
        make(dtype, 130, **limits),
        make(dtype, 0, 5, **limits),
        make(dtype, **limits),
        make(dtype, 33, 6, **limits).t(),
        make(dtype, 9, 40, **limits)[1::2, 3:36:2],
        make(dtype, 5, 1, **limits).expand(5, 18),
        make(dtype, 3, 4, 5, 6, **limits).permute(0, 3, 1, 2),
    ]


def unary(dtype: torch.dtype) -> list[Arguments]:
    return [(x,) for x in [*layouts(dtype), special(dtype)]]


def finite(dtype: torch.dtype) -> list[Arguments]:
    return [(x,) for x in layouts(dtype)]


def positive(dtype: torch.dtype) -> list[Arguments]:
    return [(x,) for x in layouts(dtype, low=0.05, high=4.0)]


def unit(dtype: torch.dtype) -> list[Arguments]:
    return [(x,) for x in layouts(dtype, low=-0.999, high=0.999)]


def matrices(dtype: torch.dtype) -> list[Arguments]:
    """Two dimensions and more, none empty: what has a last and a first dimension."""
    return [
        (make(dtype, 7, 33),),
        (make(dtype, 33, 6).t(),),
        (make(dtype, 1, 5),),
        (make(dtype, 40, 1),),
        (make(dtype, 64, 300)[:, ::3],),
        (make(dtype, 3, 4, 17),),
        (make(dtype, 2, 3, 4, 5).to(memory_format=torch.channels_last),),
    ]


def binary(dtype: torch.dtype) -> list[Arguments]:
    x, values = make(dtype, 7, 33), special(dtype)
    return [
        (x, make(dtype, 7, 33)),
        (x, make(dtype, 33)),
        (x, make(dtype, 7, 1)),
        (x, make(dtype)),
        (make(dtype), make(dtype)),
        (make(dtype, 33, 7).t(), x),
        (make(dtype, 0, 3), make(dtype, 3)),
        (make(dtype, 4, 1, 6), make(dtype, 5, 1)),
        (make(dtype, 8, 66)[::2, ::2], make(dtype, 33)),
        (values[:, None], values[None, :]),
    ]


def divisors(dtype: torch.dtype) -> list[Arguments]:
    """Pairs whose second is not zero, none extreme: eager's own results differ there by the place
    in a vector."""
    return [(a, torch.where(b == 0, torch.ones_like(b), b)) for a, b in binary(dtype)[:-1]]


def powers(dtype: torch.dtype) -> list[Arguments]:
    return [
        (make(dtype, 7, 33, low=0.1), make(dtype, 7, 33, low=-2.0, high=2.0)),
        (make(dtype, 33), make(dtype, 7, 1).round()),
        (
            torch.tensor([0.0, 0.0, 1.0, -2.0, -2.0, math.inf, math.nan]).to(dtype),
            torch.tensor([0.0, 2.0, 5.0, 3.0, 2.0, 0.0, 0.0]).to(dtype),
        ),
    ]


def ternary(dtype: torch.dtype) -> list[Arguments]:
    return [
        (make(dtype, 7, 33), make(dtype, 33), make(dtype, 7, 1)),
        (make(dtype, 33, 7).t(), make(dtype, 7, 33), make(dtype, 7, 33)),
        (make(dtype, 0), make(dtype, 1), make(dtype, 0)),
    ]


def chosen(dtype: torch.dtype) -> list[Arguments]:
    """A condition and two operands."""
    return [
        (make(torch.bool, 7, 33), make(dtype, 33), make(dtype, 7, 1)),
        (make(torch.bool, 7, 1), make(dtype, 33, 7).t(), make(dtype)),
        (make(torch.bool, 0), make(dtype, 1), make(dtype, 0)),
    ]


def indexed(dtype: torch.dtype) -> list[Arguments]:
    """A matrix of 11 rows and numbers of its rows, some from the end."""
    return [
        (make(dtype, 11, 33), torch.randint(0, 11, (7,))),
        (make(dtype, 33, 11).t(), torch.randint(-11, 11, (4, 3))),
        (make(dtype, 11, 5), torch.randint(0, 11, (0,))),
        (make(dtype, 11, 8), torch.tensor([3])),
    ]


def gathered(dtype: torch.dtype) -> list[Arguments]:
    """A matrix, and column numbers for each of its rows."""
    return [
        (make(dtype, 7, 33), torch.randint(0, 33, (7, 5))),
        (make(dtype, 9, 6).t(), torch.randint(0, 9, (6, 20))),
        (make(dtype, 3, 4), torch.randint(0, 4, (3, 0))),
    ]


def scattered(dtype: torch.dtype) -> list[Arguments]:
    """A matrix, different column numbers for each row, and as many values."""
    return [
        (
            make(dtype, 7, 33),
            torch.stack([torch.randperm(33)[:5] for _ in range(7)]),
            make(dtype, 7, 5),
        ),
        (
            make(dtype, 9, 6).t(),
            torch.stack([torch.randperm(9)[:4] for _ in range(6)]),
            make(dtype, 4, 6).t(),
        ),
    ]


def products(dtype: torch.dtype) -> list[Arguments]:
    return [
        (make(dtype, 7, 33), make(dtype, 33, 5)),
        (make(dtype, 33, 7).t(), make(dtype, 5, 33).t()),
        (make(dtype, 1, 4), make(dtype, 4, 1)),
        (make(dtype, 3, 0), make(dtype, 0, 4)),
        (make(dtype, 2, 3, 4), make(dtype, 2, 4, 5)),
    ]


def odd_rows(dtype: torch.dtype) -> list[Arguments]:
    """Many rows of an odd number of elements: one behind the other, and apart."""
    return [(make(dtype, 133, 1537),), (make(dtype, 133, 1544)[:, :1537],)]


def stacked(dtype: torch.dtype) -> list[Arguments]:
    """Stacks of matrices of few columns: short, of many rows, with rows apart, of odd width."""
    return [
        (make(dtype, 3, 40, 40),),
        (make(dtype, 16, 768, 196),),
        (make(dtype, 2, 12544, 32),),
        (make(dtype, 4, 300, 64)[:, ::2, :48],),
        (make(dtype, 5, 333, 7),),
    ]


def scanned(dtype: torch.dtype) -> list[Arguments]:
    """Rows and columns of all lengths, with ties and NaN, apart in memory, and none."""
    tied = make(dtype, 6, 129)
    if dtype.is_floating_point:
        tied = tied.round()
        tied[2, 70:100:9] = math.nan
        tied[:, 3] = math.inf
    small: dict[str, float] = {"low": -1.2, "high": 1.2} if dtype.is_floating_point else {}
    rows = [make(dtype, 3, length, **small) for length in (1, 31, 33, 1023, 1025, 5000)]
    return [
        *((x,) for x in rows),
        (tied,),
        (make(dtype, 1025, 5, **small),),
        (make(dtype, 33, 6, **small).t(),),
        (make(dtype, 64, 300, **small)[:, ::3],),
        (make(dtype, 3, 40, 17, **small),),
        (make(dtype, 0, 33),),
        (make(dtype, 130, **small),),
    ]


def images(dtype: torch.dtype) -> list[Arguments]:
    """Batches of images with 4 channels, in both memory formats."""
    x = make(dtype, 2, 4, 9, 11)
    return [(x,), (x.to(memory_format=torch.channels_last),), (make(dtype, 1, 4, 16, 16),)]


def pictures(dtype: torch.dtype) -> list[Arguments]:
    """Images with 3 channels, so many pixels that a first layer takes long; its filters, and
    positive numbers for their results."""
    x, filters, scale = make(dtype, 2, 3, 253, 260), make(dtype, 64, 3, 7, 7), make(dtype, 64).abs()
    return [
        (x, filters, scale + 0.5),
        (x.to(memory_format=torch.channels_last), filters, scale + 0.5),
    ]


def ties(dtype: torch.dtype) -> list[Arguments]:
    """Images with many equal elements, in both memory formats; then with NaN, and last with planes
    of nothing but -inf, row-major alone: eager's CUDA kernel for channels-last memory says there
    that the maximum is the plane's first element, outside of most windows."""
    x = make(dtype, 2, 16, 13, 15).round()
    holes = x.clone()
    holes.view(-1)[::29] = torch.nan
    empty = holes.clone()
    empty[0, ::3] = -torch.inf
    both = [(x,), (x.to(memory_format=torch.channels_last),), (x[0],)]
    return [*both, (holes.to(memory_format=torch.channels_last),), (empty,)]


Inputs = Callable[[torch.dtype], list[Arguments]]
