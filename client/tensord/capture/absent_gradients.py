# SPDX-License-Identifier: Apache-2.0
"""Gradients that never come: those of what a training graph returns beside its loss.

A captured model returns more than its loss (logits, hidden states), and nothing is done with that
in training. For each such result autograd hands backward a tensor of zeros as large as the result,
and backward adds it to what comes from the loss. For logits over a vocabulary that is hundreds of
MiB to fill, to hold where memory is scarcest, and to read.

Here autograd is told to make none, where the pass passes/partitioned/absent_gradients.py made
backward a graph that reads none. A call that has other gradients needs another program, which is
compiled then; it also serves the calls after it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..buffers import buffer_like
from ..passes.partitioned.absent_gradients import likely_absent, tangents_of
from ..torch_compat import Boxed

# Held while the program for a backward call with all gradients is compiled.
_COMPILING = threading.Lock()


def _renew_lock() -> None:
    global _COMPILING
    _COMPILING = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_renew_lock)


class AbsentGradients:
    """Of one captured graph: its backward without the gradients that do not come."""

    def __init__(self) -> None:
        self._takes_none = False
        self._node_type: type | None = None  # each compiled graph has one of its own

    def spared(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The graph's callable, behind which autograd makes no zeros where backward wants none;
        `forward`: as AOTAutograd made it, with both graphs."""
        if not self._takes_none:
            return forward

        def call(*arguments: Any) -> Any:
            others: Container[type] = () if self._node_type else _node_types(arguments)
            results = forward(*arguments)
            self._spare(results, others)
            return results

        return call

    def _spare(self, results: Iterable[Any], others: Container[type]) -> None:
        """others: types of nodes that are not this graph's: a result may be an argument."""
        for result in results:
            node = torch_compat.backward_node(result)
            if node is None or type(node) in others:
                continue
            if self._node_type is None:
                self._node_type = type(node)
            if type(node) is self._node_type:
                torch_compat.make_no_zeros(node)
                return

    def backward(
        self, whole: fx.Graph, program: Boxed, compile_whole: Callable[[], Boxed]
    ) -> Boxed:
        """The backward graph's callable, of the program without what the pass took for absent.

        whole: the graph before the pass; compile_whole: gives its program.
        """
        torch_compat.make_zeros_for_compiled_autograd()
        self._takes_none = True
        tangents = tangents_of(whole)
        return _Backward(tangents, likely_absent(tangents), program, compile_whole).callable()


def _node_types(arguments: Iterable[Any]) -> set[type]:
    leaves = torch.utils._pytree.tree_leaves(arguments)
    return {type(node) for node in map(torch_compat.backward_node, leaves) if node is not None}


class _Backward:
    """A backward graph's program without some gradients, and the one with all, once it is asked
    for. tangents: by their arguments' numbers."""

    def __init__(
        self,
        tangents: dict[int, torch.Tensor],
        absent: Sequence[int],
        expected: Boxed,
        compile_whole: Callable[[], Boxed],
    ) -> None:
        self._tangents = tangents
        self._absent = absent
        self._expected = expected
        self._compile_whole: Callable[[], Boxed] | None = compile_whole
        self._whole: Boxed | None = None

    def callable(self) -> Boxed:
        """Takes AOTAutograd's boxed list of arguments."""

        @torch_compat.takes_list
        def call(arguments: list[Any]) -> Any:
            as_expected = all(arguments[i] is None for i in self._absent)
            # Others may be missing as well: of a second loss that nothing was done with.
            for i, like in self._tangents.items():
                if arguments[i] is None and not (as_expected and i in self._absent):
                    arguments[i] = buffer_like(like).zero_()
            if as_expected:
                return self._expected(arguments)
            return (self._whole or self._get_whole())(arguments)

        return call

    def _get_whole(self) -> Boxed:
        with _COMPILING:
            if self._whole is None:
                assert self._compile_whole is not None
                self._whole = self._compile_whole()
                self._compile_whole = None  # and the graph that it holds
            return self._whole
