# SPDX-License-Identifier: Apache-2.0
"""Large products with an odd number of columns are saved by padded rows: `tensord::padded_rows`.

The GPU's library is fast where rows are whole 16 bytes, so the compiler pads what it multiplies. A
language model's logits are read once in backward, for their gradient, which two products read. By
rows of one length the gradient takes the logits' place; else both lie in memory at once, for a
vocabulary of 30,522 words and 8,192 tokens 500 MB each. And forward's own product gives padded rows
for nothing, where rows of eager's length cost it several products or a copy.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import torch
from torch import fx

from ..passes.insertion import (
    HANDED_ON,
    argument,
    arguments,
    fake_mode_of,
    inherited_meta,
    insert_call,
    memory_of,
)
from . import saved_layouts

_aten = torch.ops.aten

DEVICES = ("cuda",)
DTYPES = (torch.bfloat16, torch.float16)
_PRODUCTS = frozenset({_aten.mm.default, _aten.addmm.default})
# Of one memory with what they are of, and elements in the same order.
_VIEWS = HANDED_ON | {_aten.view.default, _aten._unsafe_view.default}
# What the compiler pads for certain, and to which multiple (compiler/rewrite/pad_products.h,
# product_facts.h). Where it does not, and where forward runs in eager, the padded rows are a copy.
LEAST_COLUMNS, MULTIPLE = 8192, 64
LEAST_ROWS, LEAST_INNER = 256, 32
LEAST_BYTES = 16 << 20

_LIBRARY = torch.library.Library("tensord", "FRAGMENT")
# x[M, N] -> [M, columns] with x in front of each row and anything behind it; columns >= N.
_LIBRARY.define(
    "padded_rows(Tensor x, SymInt columns) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,)
)


def _padded_rows(x: torch.Tensor, columns: int) -> torch.Tensor:
    return torch.constant_pad_nd(x, [0, columns - x.shape[1]])


_LIBRARY.impl("padded_rows", _padded_rows, "CompositeExplicitAutograd")


@torch.library.register_fake("tensord::padded_rows", lib=_LIBRARY)
def _padded_rows_fake(x: torch.Tensor, columns: int) -> torch.Tensor:
    return x.new_empty(x.shape[0], columns)


def pad_saved_products(forward: fx.GraphModule, backward: fx.GraphModule, results: int) -> int:
    """Changes both graphs in place; the number of padded products. results: how many of forward's
    come before those that are saved."""
    found = _saved_products(forward, results)
    if not found or (mode := fake_mode_of(forward.graph)) is None:
        return 0
    places = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    padded: dict[fx.Node, fx.Node] = {}
    for saved, product in found.items():
        if (place := places.get(saved.name)) is None:
            continue
        rows = -(-product.meta["val"].shape[1] // MULTIPLE) * MULTIPLE
        call = functools.partial(insert_call, forward.graph, mode, inherited_meta(saved))
        with forward.graph.inserting_after(product):
            longer = call(torch.ops.tensord.padded_rows.default, product, rows)
        try:
            _read_part(backward, place, longer.meta["val"], mode)
        except Exception as error:
            what = "padding of a product that backward takes"
            saved_layouts.take_back(forward, [longer], error, what)
            continue
        padded[saved] = longer
    if padded:
        saved_layouts.save_instead(forward, results, padded)
        backward.recompile()
    return len(padded)


def _saved_products(forward: fx.GraphModule, results: int) -> dict[fx.Node, fx.Node]:
    """What is saved of large products with odd columns, alone of their memory, and these."""
    saved = [x for x in saved_layouts.returned_by(forward)[results:] if isinstance(x, fx.Node)]
    found = {node: product for node in saved if (product := _product_of(node)) is not None}
    if not found:
        return {}
    kept = saved_layouts.kept_memory(forward, results)
    readers = Counter(memory for node in saved for memory in memory_of(node))
    return {
        node: product
        for node, product in found.items()
        if all(memory not in kept and readers[memory] == 1 for memory in memory_of(node))
    }


def _product_of(node: fx.Node) -> fx.Node | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type not in DEVICES:
        return None
    while node.target in _VIEWS:
        node = arguments(node)[0]
    if node.target not in _PRODUCTS:
        return None
    product = node.meta["val"]
    if product.dtype not in DTYPES or not all(map(saved_layouts.is_static, (value, product))):
        return None
    (rows, columns), item = product.shape, product.itemsize
    odd = columns * item % 16 != 0
    large = (
        rows >= LEAST_ROWS
        and columns >= LEAST_COLUMNS
        and argument(node, "mat2").meta["val"].shape[0] >= LEAST_INNER
        and product.numel() * item >= LEAST_BYTES
    )
    by_rows = value.is_contiguous() and product.is_contiguous() and value.shape[-1:] == (columns,)
    return node if odd and large and by_rows and value.dtype == product.dtype else None


def _read_part(backward: fx.GraphModule, place: fx.Node, longer: torch.Tensor, mode: Any) -> None:
    """Backward's argument becomes `longer`, and what reads it reads what stood there.

    Raises MustLieAsItDoesError, and has changed nothing then.
    """
    old = place.meta["val"]
    columns = old.shape[-1]
    with mode:
        part = _aten.slice.Tensor(longer, 1, 0, columns)
        part = _aten.view.default(part, list(old.shape))
    values = saved_layouts.values_with(backward, {place: part}, mode)
    saved_layouts.set_values({**values, place: longer})
    places = backward.graph.find_nodes(op="placeholder")
    readers = list(place.users)
    with backward.graph.inserting_after(places[-1]):
        call = functools.partial(insert_call, backward.graph, mode, inherited_meta(place))
        sliced = call(_aten.slice.Tensor, place, 1, 0, columns)
    with backward.graph.inserting_after(sliced):
        whole = call(_aten.view.default, sliced, list(old.shape))
    for reader in readers:
        reader.replace_input_with(place, whole)
