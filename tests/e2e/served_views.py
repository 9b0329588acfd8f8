# SPDX-License-Identifier: Apache-2.0
"""Functions for frame_runner.py whose results share memory, with an argument or with each other."""

from __future__ import annotations

from typing import Any

import torch
from served_functions import numbers
from torch import Tensor


def several_results_of_one_memory(x: Tensor) -> Any:
    y = x * 2
    return y, y.view(-1), y


def case_results_that_share(compile: Any) -> Any:
    a, b, c = compile(several_results_of_one_memory)(numbers(2, 5))
    shares = a.data_ptr() == b.data_ptr()
    return a, b, c is a, shares


def view_of_argument(x: Tensor) -> Any:
    return x[1:], x.t()


def case_views_of_arguments(compile: Any) -> Any:
    x = numbers(4, 5)
    a, b = compile(view_of_argument)(x)
    x.add_(1)
    return a, b


def view_and_more(x: Tensor, y: Tensor) -> Any:
    return x[1:, ::2], (x * y).sum(), x.detach()[0], y.view(-1)


def case_views_of_arguments_in_training(compile: Any) -> Any:
    """Gradients pass through a view, and an argument changed through one is changed."""
    leaf = numbers(4, 6).requires_grad_()
    x, y = leaf * 1, numbers(4, 6) + 1
    a, b, c, d = compile(view_and_more)(x, y)
    (a.square().sum() + b).backward()
    d.mul_(2)
    kinds = [t._is_view() for t in (a, d)]
    return a, b, c, d, y, leaf.grad, kinds, c.requires_grad, a.untyped_storage().data_ptr() == (
        x.untyped_storage().data_ptr()
    )  # fmt: skip


def case_views_of_leaves(compile: Any) -> Any:
    """Of arguments that are themselves views, and of parameters without a gradient mode."""
    x = numbers(6, 6)[1:, 2:]
    p = numbers(4, 6).requires_grad_()
    with torch.no_grad():
        parts = compile(view_and_more, dynamic=False)(p, numbers(4, 6))
    a, b, c, d = compile(view_and_more, dynamic=False)(x, numbers(5, 4).contiguous())
    return a, b, c, d, a.storage_offset(), parts, [t.requires_grad for t in parts]


def views_of_results(x: Tensor, y: Tensor) -> Any:
    base = x * y
    return base[1:], base.t(), base.detach()[0], x + 1


def case_views_of_one_result(compile: Any) -> Any:
    """What they share nobody is given; a change of one shows in the other."""
    leaf = numbers(4, 6).requires_grad_()
    a, b, c, d = compile(views_of_results)(leaf * 1, numbers(4, 6))
    shares = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    kinds = [t._is_view() for t in (a, b)]
    b.add_(1)
    (a.square().sum() + b.sum() + d.sum()).backward()
    with torch.no_grad():
        rest = compile(views_of_results)(numbers(4, 6), numbers(4, 6))
    return a, b, c, d, leaf.grad, shares, kinds, rest


def result_and_views(x: Tensor) -> Any:
    y = x.sin()
    return y, y[::2], y.view(-1)[3:]


def case_views_of_a_result(compile: Any) -> Any:
    leaf = numbers(4, 6).requires_grad_()
    y, a, b = compile(result_and_views)(leaf * 1)
    shares = y.data_ptr() == a.data_ptr()
    a.mul_(2)
    (y.square().sum() + b.sum()).backward()
    return y, a, b, leaf.grad, shares


def bits(x: Tensor) -> Any:
    return x.view(torch.int32), x + 1


def bits_and_back(x: Tensor) -> Any:
    return x.view(torch.float32), x.view(torch.int32).view(torch.float32)[1:]


def conjugate_twice(x: Tensor) -> Tensor:
    return x.mH.conj()


def case_views_that_may_be_copies(compile: Any) -> Any:
    x = numbers(3, 4)
    return (
        compile(bits)(x),
        compile(bits_and_back)(x),
        compile(conjugate_twice)(torch.complex(x, x)),
    )


def case_views_of_symbolic_sizes(compile: Any) -> Any:
    function = compile(view_of_argument, dynamic=True)
    return [function(numbers(rows, 5)) for rows in (4, 6, 7)]


def only_hands_back(x: Tensor, y: Tensor) -> Any:
    return y.contiguous(), x.contiguous()


def case_graph_without_operators(compile: Any) -> Any:
    x, y = numbers(3), numbers(4)
    one, other = compile(only_views)(x, y)
    return one, other, [t is x for t in compile(only_hands_back)(x, y)]


def only_views(x: Tensor, y: Tensor) -> Any:
    return x.view(1, -1), y[1:]
