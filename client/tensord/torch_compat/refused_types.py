# SPDX-License-Identifier: Apache-2.0
"""Types for which eager has no kernel of an operator, where torch's decompositions and declarations
know of none that is missing: such calls are left to eager, whose error they are.

Seen with torch 2.11 on CUDA and 2.13 on the CPU, by tests/sweep.sh --variants rejected.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

aten = torch.ops.aten

_Types = frozenset[torch.dtype]

_BOOL: _Types = frozenset({torch.bool})
_WHOLE: _Types = frozenset(
    {torch.uint8, torch.uint16, torch.uint32, torch.uint64}
    | {torch.int8, torch.int16, torch.int32, torch.int64}
)
_COMPLEX: _Types = frozenset({torch.complex32, torch.complex64, torch.complex128})
_NARROW: _Types = frozenset({torch.float16, torch.bfloat16})
_NONE: _Types = frozenset()


@dataclass(frozen=True)
class _Refused:
    """By device: types of the first operand, or, where all are `promoted` to one, of that. Where
    they must be `alike`, different ones as well."""

    cpu: _Types
    cuda: _Types
    promoted: bool = False
    alike: bool = False

    def refuses(self, operands: Iterable[Any]) -> bool:
        leaves = pytree.tree_leaves(list(operands))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if not tensors:
            return False
        if self.alike and len({tensor.dtype for tensor in tensors}) > 1:
            return True
        types = {"cpu": self.cpu, "cuda": self.cuda}.get(tensors[0].device.type, _NONE)
        try:
            return (_promoted(leaves) if self.promoted else tensors[0].dtype) in types
        except RuntimeError:  # they become no type together, as torch says itself
            return False


def _everywhere(types: _Types, *, promoted: bool = False, alike: bool = False) -> _Refused:
    return _Refused(types, types, promoted, alike)


@functools.cache
def refusing_operators() -> dict[Any, _Refused]:
    """{OpOverload: what it refuses}. Not before a graph is captured: it costs 10 ms."""
    return {
        # Of truth values
        **dict.fromkeys(
            (
                aten.argmax.default,
                aten.argmin.default,
                aten.bucketize.Tensor,
                aten.searchsorted.Tensor,
                aten.ceil.default,
                aten.floor.default,
                aten.linalg_cross.default,
                aten.reflection_pad1d.default,
                aten.reflection_pad2d.default,
                aten.reflection_pad3d.default,
                aten.round.default,
                aten.trunc.default,
            ),
            _everywhere(_BOOL),
        ),
        **dict.fromkeys(
            (
                aten.addcmul.default,
                aten.clamp.default,
                aten.clamp.Tensor,
                aten.clamp_max.default,
                aten.clamp_max.Tensor,
                aten.clamp_min.default,
                aten.clamp_min.Tensor,
            ),
            _everywhere(_BOOL, promoted=True),
        ),
        aten.abs.default: _Refused(_BOOL, _NONE),
        aten._foreach_abs.default: _Refused(_BOOL, _NONE),
        aten.trace.default: _Refused(_BOOL, _NONE),
        # Of whole numbers
        **dict.fromkeys(
            (
                aten.lerp.Scalar,
                aten.lerp.Tensor,
                aten._foreach_lerp.List,
                aten._foreach_lerp.Scalar,
                aten._foreach_lerp.ScalarList,
            ),
            _everywhere(_BOOL | _WHOLE),
        ),
        **dict.fromkeys(
            (aten.logaddexp.default, aten.logaddexp2.default), _everywhere(_WHOLE, promoted=True)
        ),
        aten.im2col.default: _everywhere(_WHOLE),
        aten.soft_margin_loss.default: _everywhere(_BOOL | _WHOLE | _COMPLEX),
        aten.native_dropout_backward.default: _Refused(_NONE, _BOOL | _WHOLE | _COMPLEX),
        **dict.fromkeys(
            (
                aten.native_batch_norm.default,
                aten._native_batch_norm_legit.default,
                aten._native_batch_norm_legit.no_stats,
                aten._native_batch_norm_legit_functional.default,
                aten._native_batch_norm_legit_no_training.default,
                aten._batch_norm_with_update_functional.default,
                aten._batch_norm_no_update.default,
            ),
            _Refused(_BOOL | _WHOLE, _NONE),
        ),
        **dict.fromkeys(
            (
                aten.max_pool2d_with_indices.default,
                aten.max_pool2d_with_indices_backward.default,
                aten.max_pool3d_with_indices.default,
            ),
            _Refused(_NONE, _WHOLE),
        ),
        # Of complex numbers
        aten.erf.default: _everywhere(_COMPLEX),
        aten.special_log_ndtr.default: _everywhere(_COMPLEX | _NARROW),
        **dict.fromkeys(
            (
                aten.special_xlog1py.default,
                aten.special_xlog1py.other_scalar,
                aten.special_xlog1py.self_scalar,
            ),
            _everywhere(_COMPLEX, promoted=True),
        ),
        aten.randint_like.default: _everywhere(_COMPLEX),
        aten.randint_like.low_dtype: _everywhere(_COMPLEX),
        # Of narrow floats
        aten._cdist_forward.default: _everywhere(_NARROW),
        aten.complex.default: _everywhere(frozenset({torch.bfloat16}), alike=True),
        aten.polar.default: _everywhere(frozenset({torch.bfloat16}), alike=True),
        aten.avg_pool3d.default: _Refused(_NARROW, _NONE),
        # Chances
        aten.bernoulli.default: _everywhere(_BOOL | _WHOLE),
        aten.bernoulli.p: _everywhere(_COMPLEX),
    }


def eager_refuses(op: Any, operands: Iterable[Any]) -> bool:
    """Whether eager has no kernel of this operator for the types of its operands: tensors, fake
    ones as well, and numbers, or lists of them."""
    refused = refusing_operators().get(op)
    return refused is not None and refused.refuses(operands)


def eager_refuses_node(node: fx.Node) -> bool:
    """The same of a node whose operands have meta["val"]."""
    if node.target not in refusing_operators():
        return False
    operands: Any = fx.map_arg(node.args, lambda arg: arg.meta.get("val"))
    return eager_refuses(node.target, operands)


def _promoted(leaves: list[Any]) -> torch.dtype:
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    kinds = (Tensor, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
    operands = [leaf for leaf in leaves if isinstance(leaf, kinds)]
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
    return elementwise_dtypes(*operands, type_promotion_kind=kind)[1]
