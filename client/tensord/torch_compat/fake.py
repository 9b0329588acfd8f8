# SPDX-License-Identifier: Apache-2.0
"""Fake values, their modes, and the symbols in their sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, TypeGuard

import torch


def depends_on_data(value: Any) -> bool:
    """True for fake values with a size, or that are a number, which only the data tells."""
    return bool(data_symbols_of(value))


def data_symbols_of(value: Any) -> set[Any]:
    """The symbols of a fake value's sizes, or of a number, that only the data tells."""
    try:
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
    except ImportError:
        return set()
    found: set[Any] = set()
    for leaf in torch.utils._pytree.tree_leaves(value):
        if isinstance(leaf, (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
            found.update(free_unbacked_symbols(leaf))
    return found


def symbols_of(values: Iterable[Any]) -> set[Any]:
    """The symbols in the sizes of fake values; empty where torch cannot tell."""
    try:
        from torch.fx.experimental.symbolic_shapes import free_symbols
    except ImportError:
        return set()
    found: set[Any] = set()
    for leaf in torch.utils._pytree.tree_leaves(list(values)):
        if isinstance(leaf, (torch.Tensor, torch.SymInt)):
            found.update(free_symbols(leaf))
    return found


def is_symbol(value: Any, symbols: set[Any]) -> TypeGuard[torch.SymInt]:
    """True for a SymInt that is one of `symbols` and nothing else."""
    return isinstance(value, torch.SymInt) and value.node.expr in symbols


def shape_env_of(values: Iterable[Any]) -> Any:
    """The ShapeEnv behind the first symbolic size among fake tensors and SymInts, or None."""
    for value in values:
        if isinstance(value, torch.SymInt):
            return value.node.shape_env
        if isinstance(value, torch.Tensor):
            for size in (*value.shape, *value.stride()):
                if isinstance(size, torch.SymInt):
                    return size.node.shape_env
    return None


def symbol_hint(shape_env: Any, symbol: Any) -> int | None:
    """The value of a symbol at capture, or None (data-dependent)."""
    names = ("backed_var_to_val", "var_to_val")  # 2.11 and later; before
    tables = (getattr(shape_env, name, None) for name in names)
    table: Any = next((t for t in tables if t is not None), {})
    value = table.get(symbol)
    return None if value is None else int(value)


def hint_of(size: torch.SymInt) -> int | None:
    """Its value at capture, or None (data-dependent)."""
    node = size.node
    return int(node.hint) if node.has_hint() else None


def sample_of(size: Any) -> Any:
    """A size as a number, where each of its symbols has a multiple of its hint, by a prime of its
    own, or the hint itself where a guard would not let it (sizes of one hint are alike then). Sizes
    that are the same wherever symbols have the divisors that their hints have get the same one,
    however they are written. Where no number comes of it: the text."""
    if not isinstance(size, torch.SymInt):
        return size
    import sympy

    expression, shape_env = size.node.expr, size.node.shape_env

    bound: set[Any] = set()  # by guards that other numbers do not meet

    def sampled(expression: Any) -> Any:
        def number(symbol: Any) -> Any:
            prime = 1 if symbol in bound else _prime_of(str(symbol))
            return sympy.Integer(prime * (symbol_hint(shape_env, symbol) or 1))

        return expression.xreplace({symbol: number(symbol) for symbol in expression.free_symbols})

    relations = [g.expr for g in shape_env.guards if isinstance(g.expr, sympy.Eq)]
    relations = [one for one in relations if len(one.free_symbols) > 1]
    bound.update(*(one.free_symbols for one in relations if sampled(one) != sympy.true))
    sample = sampled(expression)
    return int(sample) if sample.is_Integer else str(expression)


def _prime_of(symbol: str) -> int:
    """Of each symbol another one; none is 2."""
    import sympy

    letters = symbol.rstrip("0123456789")
    kind = ("s", "u", "zf", "zuf").index(letters) if letters in ("s", "u", "zf", "zuf") else 4
    return int(sympy.prime(2 + 5 * int(symbol[len(letters) :] or 0) + kind))


def least_of(shape_env: Any, expression: Any) -> Any:
    """A sympy expression's lower bound: it is no less, whatever its symbols are in their ranges."""
    return shape_env.bound_sympy(expression).lower


def range_of(shape_env: Any, expression: Any) -> tuple[Any, Any]:
    """The inclusive range of a symbol or an expression as sympy numbers; infinite where nothing is
    known."""
    if expression.is_Symbol:
        bounds = shape_env.var_to_range[expression]
    else:
        bounds = shape_env.bound_sympy(expression)
    return bounds.lower, bounds.upper


def without_modes() -> contextlib.AbstractContextManager[Any]:
    """A block in which real tensors can be read although a graph is being captured."""
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


def fake_mode_of(value: Any) -> contextlib.AbstractContextManager[Any]:
    """A block in which new tensors are fake as `value` is; an empty one for a real tensor."""
    return getattr(value, "fake_mode", None) or contextlib.nullcontext()
