# SPDX-License-Identifier: Apache-2.0
"""einsum as the two products of attention, in whatever order its dimensions are."""

from __future__ import annotations

from typing import Any

from torch import fx

from ..insertion import arguments

Order = list[int] | None


def _parts(node: fx.Node) -> tuple[list[str], str, list[fx.Node]] | None:
    """The two operands' letters, the result's, and the operands."""
    equation, *operands = arguments(node)
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = list(operands[0])
    if not isinstance(equation, str) or len(operands) != 2:
        return None
    equation = equation.replace(" ", "")
    if equation.count("->") != 1 or "." in equation:
        return None
    left, result = equation.split("->")
    letters = left.split(",")
    if len(letters) != 2 or not all(isinstance(operand, fx.Node) for operand in operands):
        return None
    if any(len(set(word)) != len(word) for word in (*letters, result)):
        return None
    return letters, result, operands


def _order(letters: str, wanted: str) -> list[int]:
    return [letters.index(letter) for letter in wanted]


def scores(node: fx.Node) -> tuple[fx.Node, fx.Node, Order, Order] | None:
    """q, k and the orders that make them (batch, i, d) and (batch, j, d), for a result of
    (batch, i, j)."""
    parts = _parts(node)
    if parts is None:
        return None
    (a, b), result, (q, k) = parts
    if len(result) < 3:
        return None
    batch, i, j = result[:-2], result[-2], result[-1]
    if i in b and j in a:
        (a, b), (q, k) = (b, a), (k, q)
    shared = set(a) & set(b) - set(result)
    if len(shared) != 1 or set(a) != {*batch, i, *shared} or set(b) != {*batch, j, *shared}:
        return None
    d = shared.pop()
    return q, k, _order(a, f"{batch}{i}{d}"), _order(b, f"{batch}{j}{d}")


def weighted_sum(node: fx.Node) -> tuple[fx.Node, fx.Node, Order, Order] | None:
    """The weights (batch, i, j), v, the order that makes v (batch, j, d), and the one that makes
    the result of (batch, i, d)."""
    parts = _parts(node)
    if parts is None:
        return None
    (a, b), result, (weights, v) = parts
    if len(a) < 3:
        return None
    batch, i, j = a[:-2], a[-2], a[-1]
    width = set(b) - {*batch, j}
    if len(width) != 1 or i in b or set(b) != {*batch, j, *width}:
        return None
    d = width.pop()
    plain = f"{batch}{i}{d}"
    if set(result) != set(plain):
        return None
    return weights, v, _order(b, f"{batch}{j}{d}"), _order(plain, result)


def reorder(sizes: list[Any], order: Order) -> list[Any]:
    """Sizes after a permutation; as they are without one."""
    return sizes if order is None else [sizes[i] for i in order]
