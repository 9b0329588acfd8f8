# SPDX-License-Identifier: Apache-2.0
"""Functions for frame_runner.py: arguments, results, closures, methods, sizes, graph breaks."""

from __future__ import annotations

import contextlib
import enum
import functools
import io
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def numbers(*sizes: int, **told: Any) -> Tensor:
    """Random, from a generator that nobody else uses."""
    generator = torch.Generator().manual_seed(sum(sizes) + len(sizes))
    return (
        torch.randn(sizes, generator=generator).to(**told)
        if told
        else torch.randn(sizes, generator=generator)
    )


def helper(x: Tensor) -> Tensor:
    return x.relu() * 3


def dictionary(x: Tensor, y: Tensor) -> dict[str, Any]:
    z = helper(x + y)
    return {"z": z * 2, "k": (z, 3), "none": None, "text": "a"}


def case_dictionary(compile: Any) -> Any:
    f = compile(dictionary)
    return [f(numbers(4, 8), numbers(4, 8) * i) for i in range(2)]


def nested_tuples(x: Tensor) -> Any:
    return (x + 1, [x - 1, (x * 2,)], 2.5, True)


def case_tuples(compile: Any) -> Any:
    return compile(nested_tuples)(numbers(3, 5))


@dataclass
class Output:
    """What a model gives back."""

    hidden: Tensor
    loss: Tensor | None = None
    count: int = 3


def data_class(x: Tensor) -> Output:
    return Output(x.tanh(), count=x.shape[0])


def case_data_class(compile: Any) -> Any:
    return compile(data_class)(numbers(3, 5))


Pair = namedtuple("Pair", ["first", "second"])


def named_tuple(x: Tensor) -> Pair:
    return Pair(x.sin(), x.cos())


def case_named_tuple(compile: Any) -> Any:
    return compile(named_tuple)(numbers(3, 5))


def in_a_mode(x: Tensor) -> Tensor:
    return torch.ones(x.shape[0], 1) + x * 2


def case_function_mode(compile: Any) -> Any:
    f = compile(in_a_mode)
    with torch.device("cpu"):
        within = f(numbers(3, 5))
    return within, f(numbers(3, 5))


def ordered(x: Tensor) -> Any:
    result = OrderedDict()
    result["b"] = x.exp()
    result["a"] = x - 1
    return result


def case_ordered_dictionary(compile: Any) -> Any:
    return compile(ordered)(numbers(3, 5))


def argument_back(x: Tensor, y: Tensor) -> Any:
    return x, x + y, y


def case_argument_back(compile: Any) -> Any:
    x, y = numbers(3, 5), numbers(5)
    a, b, c = compile(argument_back)(x, y)
    return a is x, b, c is y


def mixed(x: Tensor, n: int, *rest: Tensor, scale: float = 2.0, **more: Any) -> Any:
    total = x * n * scale
    for one in rest:
        total = total + one
    return total, {name: value * 2 for name, value in more.items()}


def case_kinds_of_arguments(compile: Any) -> Any:
    f = compile(mixed)
    x = numbers(4)
    return [f(x, 2), f(x, 2, x, x), f(x, 2, scale=3.0), f(x, n=2, a=x, b=3), f(x, 2)]


def positional_only(x: Tensor, /, y: Tensor, *, flag: bool) -> Tensor:
    return x - y if flag else y - x


def case_positional_only(compile: Any) -> Any:
    f = compile(positional_only)
    return f(numbers(4), y=numbers(4) * 2, flag=True), f(numbers(4), numbers(4) * 2, flag=False)


def whole_numbers(x: Tensor, n: int) -> Any:
    return x + n, n * 2, x.shape[0] + n


def case_numbers_back(compile: Any) -> Any:
    f = compile(whole_numbers)
    return [f(numbers(4), n) for n in (1, 2, 3, 5)]


class Kind(enum.Enum):
    """Which function is meant."""

    SINE = "sine"
    COSINE = "cosine"


def of_kind(x: Tensor, kind: Kind) -> Tensor:
    return x.sin() if kind is Kind.SINE else x.cos()


def case_enumeration(compile: Any) -> Any:
    f = compile(of_kind)
    return f(numbers(4), Kind.SINE), f(numbers(4), Kind.COSINE)


def halves(x: Tensor) -> Tensor:
    return torch.softmax(x * 2, -1).sum(0)


def case_data_types(compile: Any) -> Any:
    f = compile(halves)
    dtypes = (torch.float16, torch.bfloat16, torch.float64, torch.float32)
    return [f(numbers(6, 10).to(dtype)) for dtype in dtypes]


def case_strides(compile: Any) -> Any:
    f = compile(halves)
    x = numbers(8, 10)
    return f(x.t()), f(x[:, ::2]), f(x[1:5]), f(x[:1].expand(8, 10))


def broken(x: Tensor) -> Tensor:
    y = x.sin() * 2
    print("in the middle")
    return y.cos() + x


def case_graph_break(compile: Any) -> Any:
    f = compile(broken)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        results = [f(numbers(5)), f(numbers(5) * 2)]
    return results, printed.getvalue()


def breaks_within(x: Tensor) -> Tensor:
    return helper(broken(x + 1)) - 2


def broken_too(x: Tensor) -> Tensor:
    y = x.exp()
    print("in the middle")
    return y + 1


def case_whole_graph(compile: Any) -> Any:
    """A break raises where none is allowed."""
    f = compile(broken_too, fullgraph=True)
    raised = f is broken_too
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            f(numbers(5))
        except Exception as error:
            raised = type(error).__name__ == "Unsupported"
    return raised, compile(dictionary, fullgraph=True)(numbers(4), numbers(4))


def case_modes(compile: Any) -> Any:
    f, x = compile(halves, mode="max-autotune-no-cudagraphs"), numbers(6, 10)
    return f(x), compile(halves, options={"deterministic": True})(x), compile(halves)(x)


def case_graph_break_within(compile: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return compile(breaks_within)(numbers(5))


def scaled(factor: float) -> Any:
    def inner(x: Tensor) -> Tensor:
        return x * factor + helper(x)

    return inner


def case_closure(compile: Any) -> Any:
    return [compile(scaled(factor))(numbers(5)) for factor in (2.0, 3.0)]


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named) * 2

    return call


@doubled
def decorated(x: Tensor) -> Tensor:
    return x.sin() + 1


@doubled
def decorated_too(x: Tensor) -> Tensor:
    return x.cos() + 1


def case_decorated(compile: Any) -> Any:
    return compile(decorated)(numbers(5)), compile(decorated_too)(numbers(5))


def case_lambda(compile: Any) -> Any:
    return compile(lambda x: x.sigmoid() * 2)(numbers(5))


def three(x: Tensor, y: Tensor, z: float) -> Tensor:
    return x * z + y


def case_partial(compile: Any) -> Any:
    inner = functools.partial(three, z=3.0)
    return compile(lambda x: inner(x, x + 1))(numbers(5))


def function_back(x: Tensor) -> Any:
    y = x * 2

    def inner(z: Tensor, factor: float = 3.0) -> Tensor:
        return y + z * factor

    return inner, y


def case_function_back(compile: Any) -> Any:
    inner, y = compile(function_back)(numbers(5))
    return inner(torch.ones(5)), inner(torch.ones(5), factor=4.0), y, inner.__name__


def own_size(x: Tensor) -> Any:
    return x.sum(0) * x.shape[0], x.shape[0] + 1, torch.zeros(x.shape[0])


def case_sizes_that_change(compile: Any) -> Any:
    f = compile(own_size)
    return [f(numbers(size, 3)) for size in (4, 5, 6, 9, 1)]


def case_size_marked_dynamic(compile: Any) -> Any:
    f, results = compile(own_size), []
    for size in (4, 5, 6):
        x = numbers(size, 3)
        torch._dynamo.mark_dynamic(x, 0)
        results.append(f(x))
    return results


def case_dynamic(compile: Any) -> Any:
    f = compile(own_size, dynamic=True)
    return [f(numbers(size, 3)) for size in (4, 5)]


def case_never_dynamic(compile: Any) -> Any:
    f = compile(own_size, dynamic=False)
    return [f(numbers(size, 3)) for size in (4, 5)]


class Scaler:
    """A class whose methods are compiled."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def scale(self, x: Tensor) -> Tensor:
        return x * self.factor

    @staticmethod
    def plain(x: Tensor) -> Tensor:
        return x.exp()

    @classmethod
    def of_class(cls, x: Tensor) -> Tensor:
        return cls(4.0).scale(x)

    @property
    def twice(self) -> float:
        return self.factor * 2

    def __call__(self, x: Tensor) -> Tensor:
        return x - self.twice


def case_methods(compile: Any) -> Any:
    one, x = Scaler(2.0), numbers(5)
    return (compile(one.scale)(x), compile(Scaler.plain)(x), compile(Scaler.of_class)(x),
            compile(one.__call__)(x))  # fmt: skip


def generator_within(x: Tensor) -> Tensor:
    return torch.stack([x * i for i in range(3)]) + sum(x[i] for i in range(2))


def case_comprehensions(compile: Any) -> Any:
    return compile(generator_within)(numbers(5))


def empty(x: Tensor) -> Tensor:
    return x.sum(0) * 2


def case_empty(compile: Any) -> Any:
    return compile(empty)(numbers(0, 5))


def within(distance: int) -> Any:
    def mask(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (q - k < distance)

    return mask


def flexible(x: Tensor, mask: Any) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    def slope(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return score - (q - k) * 0.1

    return flex_attention(x, x, x, score_mod=slope, block_mask=mask)


def case_flex_attention(compile: Any) -> Any:
    """What a mask's function captures is guarded, also where two of one code follow each other."""
    from torch.nn.attention.flex_attention import create_block_mask

    f = compile(flexible)
    masks = [create_block_mask(within(n), None, None, 32, 32, device="cpu") for n in (3, 9)]
    return [f(numbers(1, 2, 32, 16), mask) for mask in masks]
