# SPDX-License-Identifier: Apache-2.0
"""Graphs of served frames, called natively and from Python: as eager does, forward and backward.

Most serve one function with few shapes: more would pass the limit of recompilations.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensord
import torch
from tensord.frames import graph_calls
from torch.utils.checkpoint import checkpoint

Function = Callable[..., Any]
Serve = Callable[..., Function]


@pytest.fixture(params=["native", "python"])
def serve(
    request: pytest.FixtureRequest,
    tensord_daemon: object,
    native_guards: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Serve]:
    """Captures a function by a call, and gives it to be served by the frame; at the end it was."""
    monkeypatch.setenv("TENSORD_FRAMES", "1")
    made: list[str] = []

    def note(name: str) -> None:
        function = getattr(graph_calls, name)

        def noting(*arguments: Any) -> Any:
            made.append(name)
            return function(*arguments)

        monkeypatch.setattr(graph_calls, name, noting)

    note("_natively")
    note("_in_python")
    if request.param == "python":
        monkeypatch.setattr(graph_calls, "_natively", graph_calls._in_python)

    def begin(function: Function, *arguments: Any) -> Function:
        tensord.compile(function)(*arguments)
        torch._dynamo.reset()
        tensord.reset_stats()
        return tensord.compile(function)

    yield begin
    stats = tensord.stats()
    assert stats["frames_served"] and not stats["frames_captured"], str(stats)
    assert set(made) == {"_natively" if request.param == "native" else "_in_python"}


def leaf(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, requires_grad=True)


def same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def both(
    serve: Serve, function: Function, make: Callable[[], tuple[Any, ...]], use: Function
) -> None:
    """What `use` gives of the function and its arguments: the same when it is served."""
    torch.manual_seed(3)
    served = serve(function, *make())
    expected, found = [], []
    for results, run in ((expected, function), (found, served)):
        torch.manual_seed(5)
        results.extend(use(run, *make()) for _ in range(3))
    same(found, expected)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).relu().neg()  # rounded the same however it is fused


def gradients(function: Function, *arguments: torch.Tensor) -> list[torch.Tensor | None]:
    result = function(*arguments)
    result.backward(torch.ones_like(result) / 3)
    return [result.detach(), *(one.grad for one in arguments)]


def test_inference(serve: Serve) -> None:
    both(serve, product, lambda: (torch.randn(5, 3), torch.randn(3)), lambda f, *a: f(*a))


def test_arguments_are_handed_through_and_changed(serve: Serve) -> None:
    def function(x: torch.Tensor, y: torch.Tensor, count: int) -> Any:
        x.add_(y)
        return x, y * count, y, count

    def use(run: Function, x: torch.Tensor, y: torch.Tensor) -> Any:
        before = x._version
        a, b, c, d = run(x, y, 3)
        assert a is x and c is y and d == 3 and x._version > before
        return a.clone(), b, c.clone()

    torch.manual_seed(1)
    x, y = torch.randn(4), torch.randn(4)
    served = serve(function, x.clone(), y, 3)
    same(use(served, x.clone(), y), use(function, x.clone(), y))


def test_gradients(serve: Serve) -> None:
    both(serve, product, lambda: (leaf(5, 3), leaf(5, 3)), gradients)


def test_gradients_of_one_argument_only(serve: Serve) -> None:
    both(serve, product, lambda: (leaf(5, 3), torch.randn(5, 3)), gradients)


def test_a_result_whose_gradient_does_not_come_or_lies_otherwise(serve: Serve) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * y, (x + y).abs(), x > y

    def use(run: Function, x: torch.Tensor, y: torch.Tensor) -> Any:
        first, second, third = run(x, y)
        assert first.requires_grad and second.requires_grad and not third.requires_grad
        first.backward(torch.arange(12.0).reshape(4, 3).t())
        return first.detach(), second.detach(), third, x.grad, y.grad

    both(serve, function, lambda: (leaf(3, 4), leaf(3, 4)), use)


def test_a_gradient_does_not_come_for_a_result_that_lies_otherwise_than_it_would(
    serve: Serve,
) -> None:
    """Of a slice with symbolic sizes, and of an expanded result, gradients are contiguous."""

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x * y
        return z[:, :4], z.relu(), x.sum(1, keepdim=True).expand(x.shape[0], 3)

    def marked() -> tuple[torch.Tensor, ...]:
        x, y = leaf(6, 5), leaf(5)
        torch._dynamo.mark_dynamic(x, 0)
        return x, y

    def use(run: Function, x: torch.Tensor, y: torch.Tensor) -> Any:
        run(x, y)[1].backward(torch.ones(6, 5))
        return x.grad, y.grad

    both(serve, function, marked, use)


def test_sizes_that_backward_needs(serve: Serve) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.abs().sum(0)

    def marked(rows: int) -> torch.Tensor:
        x = whole(rows, 1).requires_grad_()
        torch._dynamo.mark_dynamic(x, 0)
        return x

    served = serve(function, marked(4))
    for rows in (4, 7):
        x = marked(rows)
        same(gradients(served, x), gradients(function, x.detach().clone().requires_grad_()))


def test_backward_twice(serve: Serve) -> None:
    served = serve(product, leaf(4), leaf(4))
    x, y = leaf(4), leaf(4)
    result = served(x, y).sum()
    result.backward(retain_graph=True)
    first = x.grad.clone()  # type: ignore[union-attr]
    result.backward()
    same(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        result.backward()


def test_a_second_derivative_is_refused(serve: Serve) -> None:
    served = serve(product, leaf(4), leaf(4))
    x, y = leaf(4), leaf(4)
    (first,) = torch.autograd.grad(served(x, y).pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()


def test_a_reset_forgets_what_was_served(serve: Serve) -> None:
    x, y = torch.ones(3, 2), torch.ones(2)
    for _ in range(12):  # more than may be of one code at once
        assert serve(product, x, y)(x, y).sum() == -6
        assert tensord.stats()["frames_served"] == 1


def test_what_was_saved_and_changed_is_seen(serve: Serve) -> None:
    served = serve(product, leaf(4), leaf(4))
    x, y = leaf(4), leaf(4)
    result = served(x, y)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_hooks_of_tensors(serve: Serve) -> None:
    def use(run: Function, x: torch.Tensor, y: torch.Tensor) -> Any:
        seen: list[torch.Tensor] = []
        inner = x * 2
        inner.register_hook(lambda gradient: seen.append(gradient) or gradient * 3)
        result = run(inner, y)
        result.register_hook(seen.append)
        result.sum().backward()
        return [*seen, x.grad, y.grad]

    both(serve, product, lambda: (leaf(4), leaf(4)), use)


def test_within_a_checkpoint(serve: Serve) -> None:
    def layer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return product(x, y) if torch.is_grad_enabled() else product(x, y).clone()

    def use(run: Function, x: torch.Tensor, y: torch.Tensor) -> Any:
        checkpoint(run, x, y, use_reentrant=True).sum().backward()  # type: ignore[no-untyped-call]
        return [x.grad, y.grad]

    with torch.no_grad():
        tensord.compile(layer)(leaf(4), leaf(4))
    both(serve, layer, lambda: (leaf(4), leaf(4)), use)


def test_threads_go_backward_side_by_side(serve: Serve) -> None:
    served = serve(product, leaf(4), leaf(4))
    inputs = [(leaf(4), leaf(4)) for _ in range(60)]
    results = [served(x, y) for x, y in inputs]
    failures: list[BaseException] = []

    def backward(first: int) -> None:
        try:
            for result in results[first::3]:
                result.sum().backward()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=backward, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    found = [one.grad for pair in inputs for one in pair]
    for pair in inputs:
        for one in pair:
            one.grad = None
    for x, y in inputs:
        product(x, y).sum().backward()
    same(found, [one.grad for pair in inputs for one in pair])


def test_nothing_is_kept(serve: Serve) -> None:
    served = serve(product, leaf(4), leaf(4))
    x, y = leaf(4), leaf(4)
    inner = x * 2
    result = served(inner, y)
    gone = [weakref.ref(one) for one in (inner, result)]
    result.sum().backward()
    del inner, result
    gc.collect()
    assert [one() for one in gone] == [None, None]


def views(x: torch.Tensor, y: torch.Tensor) -> Any:
    base = x * y
    return x[1:, ::2], base.t(), base[2:], x.detach()[0], (x + y).neg()


def use_views(function: Function, leaf_: torch.Tensor, y: torch.Tensor) -> Any:
    """Numbers, gradients, what is a view of what, and what a change of one does to others."""
    x = leaf_ * 1
    results = function(x, y)
    whose = [one.untyped_storage().data_ptr() for one in (x, *results)]
    # Of a detached view torch.compile knows no more that it is one.
    differentiable = [one.requires_grad and one._is_view() for one in results]
    kinds = [(one.requires_grad, one.storage_offset()) for one in results], differentiable
    results[2].mul_(2)
    sum(one.square().sum() for one in results if one.requires_grad).backward()
    return [one.detach() for one in results], leaf_.grad, [whose.index(one) for one in whose], kinds


def whole(*sizes: int) -> torch.Tensor:
    """Numbers that are rounded nowhere, however their products are added up."""
    return torch.randint(-4, 5, sizes).float()


def test_views_of_arguments_and_of_results(serve: Serve) -> None:
    both(serve, views, lambda: (whole(5, 6).requires_grad_(), whole(5, 6)), use_views)


def test_views_without_gradients(serve: Serve) -> None:
    def use(function: Function, x: torch.Tensor, y: torch.Tensor) -> Any:
        with torch.no_grad():
            results = function(x, y)
            x.add_(1)
        return results, [one.requires_grad for one in results]

    def begin(function: Function, *arguments: torch.Tensor) -> Function:
        with torch.no_grad():
            return serve(function, *arguments)

    both(begin, views, lambda: (leaf(5, 6), torch.randn(5, 6)), use)
    both(begin, views, lambda: (torch.randn(5, 0), torch.randn(5, 0)), use)
