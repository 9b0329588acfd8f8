# SPDX-License-Identifier: Apache-2.0
"""What AOTAutograd decided of a captured graph, as plain data, where it is plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class TangentLayout:
    """How a gradient lies that backward gets: sizes and strides, or a memory format, or neither."""

    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    memory_format: str = ""


@dataclass(frozen=True)
class ForwardFacts:
    """Of a forward or inference graph.

    arguments, results: how many the captured graph has; of the results the last ones, `hidden`, are
    there only for others to be views of them. is_argument: the argument that a result is, plus one;
    0: none. is_view: by result: it is a view of that argument, not the argument itself. is_view_of:
    the result that a result is a view of, plus one; 0: none. requires_grad: by result. changed:
    arguments that it changes in place, as autograd is to see. tangents: results whose gradients
    backward gets. saved_numbers: how many of the forward program's results, the last ones, are
    numbers for backward.
    """

    arguments: int
    results: int
    is_argument: tuple[int, ...]
    is_view: tuple[bool, ...]
    is_view_of: tuple[int, ...]
    hidden: int
    requires_grad: tuple[bool, ...]
    changed: tuple[int, ...]
    tangents: tuple[int, ...]
    layouts: tuple[TangentLayout, ...]
    saved_numbers: int


_OWN = ("non_alias", "unsafe_view_alias", "custom_function_view")
_OF_ARGUMENT = ("is_input", "alias_of_input")
# Of a result that is hidden, and of one that is not.
_OF_HIDDEN = ("alias_of_intermediate", "alias_of_intermediate_save_as_output")
_OF_RESULT = "alias_of_intermediate_base_is_user_output"


class NotPlain(Exception):
    """AOTAutograd does more for this graph than call its programs; the text says what."""


def forward_facts() -> ForwardFacts:
    """Of the capture under way, asked by its forward or inference compiler (2.11 to 2.13). Raises
    NotPlain."""
    context = torch._guards.TracingContext.try_get()
    facts = getattr(context, "fw_metadata", None)
    if facts is None:
        raise NotPlain("AOTAutograd says nothing of the graph")
    for reason in _obstacles(facts):
        raise NotPlain(reason)
    outputs = facts.output_info
    results, hidden = len(outputs), facts.num_intermediate_bases

    def by_result(fact: Callable[[Any], Any], of_hidden: Any) -> tuple[Any, ...]:
        return (*map(fact, outputs), *[of_hidden] * hidden)

    tangents = (
        *(
            i
            for i, info in enumerate(outputs)
            if info.output_type.name in _OWN and _is_tensor(info) and _wants_gradient(info)
        ),
        *range(results, results + hidden),
    )
    metas = list(facts.subclass_tangent_meta)
    saved = facts.num_symints_saved_for_bw
    return ForwardFacts(
        arguments=len(facts.input_info),
        results=results + hidden,
        is_argument=by_result(
            lambda info: info.base_idx + 1 if info.output_type.name in _OF_ARGUMENT else 0, 0
        ),
        is_view=by_result(lambda info: info.output_type.name == "alias_of_input", False),
        is_view_of=by_result(lambda info: _base_among_results(info, results), 0),
        hidden=hidden,
        requires_grad=by_result(lambda info: bool(info.requires_grad), True),
        changed=tuple(facts.mutated_graph_handled_indices_seen_by_autograd),
        tangents=tangents,
        layouts=tuple(_layout(meta) for meta in metas) if len(metas) == len(tangents) else (),
        saved_numbers=saved or 0,
    )


def _base_among_results(info: Any, results: int) -> int:
    """The number, plus one, of the result that one is a view of; hidden ones lie behind others."""
    kind = info.output_type.name
    if kind in _OF_HIDDEN:
        return int(results + info.base_idx + 1)
    return int(info.base_idx + 1) if kind == _OF_RESULT else 0


def _is_tensor(info: Any) -> bool:
    return isinstance(info.raw_type, type) and issubclass(info.raw_type, torch.Tensor)


def _wants_gradient(info: Any) -> bool:
    return bool(getattr(info, "requires_grad_for_backward", info.requires_grad))


def _obstacles(facts: Any) -> Iterator[str]:
    kinds = (*facts.subclass_inp_meta, *facts.subclass_fw_graph_out_meta)
    if any(type(kind).__name__ != "PlainTensorMeta" for kind in kinds):
        yield "the graph takes subclasses of tensors apart"
    if facts.tokens or getattr(facts, "num_backward_tokens", 0):
        yield "the graph has effects with tokens"
    if facts.mutated_inp_runtime_indices:
        yield "the graph changes arguments behind its program"
    if facts.grad_enabled_mutation is not None:
        yield "the graph changes the grad mode"
    if facts.is_rng_op_functionalized or getattr(facts, "num_graphsafe_rng_states", 0):
        yield "the graph has random states as arguments"
    if getattr(facts, "num_opaque_objects_saved_for_bw", None):
        yield "the graph saves objects for backward"
    if getattr(facts, "indices_of_inputs_that_requires_grad_with_mutations_in_bw", None):
        yield "backward changes arguments"
    for info in facts.output_info:
        kind = info.output_type.name
        if kind == _OF_RESULT and facts.output_info[info.base_idx].output_type.name not in _OWN:
            yield "a result of the graph is a view of a view"
        if kind not in (*_OWN, *_OF_ARGUMENT, *_OF_HIDDEN, _OF_RESULT):
            yield f"a result of the graph is {info.output_type.name.replace('_', ' ')}"


def _layout(meta: Any) -> TangentLayout:
    wanted = getattr(meta, "memory_format", None)
    if wanted is None:
        return TangentLayout()
    if wanted.memory_format is not None:
        return TangentLayout(memory_format=str(wanted.memory_format).removeprefix("torch."))
    try:
        return TangentLayout(tuple(map(int, wanted.size)), tuple(map(int, wanted.stride)))
    except (TypeError, RuntimeError) as error:
        raise NotPlain("the layout of a gradient is symbolic") from error
