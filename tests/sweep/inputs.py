# SPDX-License-Identifier: Apache-2.0
"""The inputs of a case: the database's samples, and what the variants make of them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from entries import Case, Entry
from torch.nn.attention.flex_attention import BlockMask
from torch.utils import _pytree as pytree

# Samples of the variants whose inputs hardly differ from sample to sample.
FEW = {"empty": 8, "scalar": 8, "rejected": 2}

# Positional arguments that stay numbers among special values where gradients are asked for, by
# entry: at NaN eager on the CPU adds to the gradient of an image beside its memory.
ADDRESSES = {"grid_sampler_2d": {1}, "nn.functional.grid_sample": {1}}


@dataclass
class Sample:
    """One call. finish: what a gradient is taken of, for results that are not unique in themselves
    (signs of eigenvectors); from the database."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    finish: Callable[[Any], Any]

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that a call may change: copies in the same layout, which share memory where
        these do."""
        storages: dict[int, torch.UntypedStorage] = {}
        return pytree.tree_map_only(
            torch.Tensor, lambda t: _copy(t, storages), (self.args, self.kwargs)
        )

    def call(self, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        args, kwargs = arguments
        return self.function(*args, **kwargs)

    def wide(self, device: str) -> Sample:
        """The same in float64 (complex128) on that device, dtypes among the arguments too."""
        args, kwargs = pytree.tree_map(lambda v: _wide(v, device), (self.args, self.kwargs))
        return Sample(self.function, args, kwargs, self.finish)

    def text(self) -> str:
        """The arguments for a message."""
        words = [_text(value) for value in self.args]
        words += [f"{name}={_text(value)}" for name, value in self.kwargs.items()]
        return ", ".join(words)[:400]

    def elements(self) -> int:
        return sum(t.numel() for t in tensors((self.args, self.kwargs)))


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors of nested containers, in order."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def is_plain(tensor: torch.Tensor) -> bool:
    """A tensor that is its storage, sizes and strides, and nothing else."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def samples(entry: Entry, case: Case) -> list[Sample]:
    """The case's inputs, the same at each run; none where the variant does not apply."""
    seed = hashlib.sha256(f"{case.entry}|{case.dtype}|{case.variant}".encode()).digest()
    torch.manual_seed(int.from_bytes(seed[:4], "big"))
    dtype, info = getattr(torch, case.dtype), entry.info
    if case.variant == "errors":
        if info.error_inputs_func is None:
            return []
        return [
            _sample(info.get_op(), error.sample_input) for error in info.error_inputs(case.device)
        ]
    source = info.reference_inputs if case.variant == "reference" else info.sample_inputs
    function = info.get_inplace() if case.variant == "inplace" else info.get_op()
    if case.variant == "inplace" and case.gradient:  # of a leaf, eager allows none
        function = _on_a_copy(function)
    found: list[Sample] = []
    for sample in source(case.device, dtype, requires_grad=case.gradient):
        if case.variant == "inplace" and sample.broadcasts_input:
            continue
        found += _variants(_sample(function, sample), case, dtype)
        if len(found) >= FEW.get(case.variant, math.inf):
            break
    return found


def _sample(function: Callable[..., Any], sample: Any) -> Sample:
    return Sample(
        function, (sample.input, *sample.args), dict(sample.kwargs), sample.output_process_fn_grad
    )


def _on_a_copy(inplace: Callable[..., Any]) -> Callable[..., Any]:
    def function(first: Any, *args: Any, **kwargs: Any) -> Any:
        return inplace(pytree.tree_map_only(torch.Tensor, torch.clone, first), *args, **kwargs)

    return function


def _variants(sample: Sample, case: Case, dtype: torch.dtype) -> Iterator[Sample]:
    variant = case.variant
    if variant in ("samples", "reference", "rejected"):
        yield sample
        return
    if variant == "inplace":
        if is_plain(sample.args[0]) if isinstance(sample.args[0], torch.Tensor) else True:
            yield sample
        return
    numbers = variant == "special" and case.gradient
    kept = ADDRESSES.get(case.entry, set()) if numbers else set()

    def changed(value: Any) -> Any:
        change = _CHANGES[variant]
        return pytree.tree_map_only(torch.Tensor, lambda t: _changed(t, change, dtype), value)

    args = tuple(arg if at in kept else changed(arg) for at, arg in enumerate(sample.args))
    if variant == "special" or _layouts(sample.args) != _layouts(args):
        yield Sample(sample.function, args, changed(sample.kwargs), sample.finish)


def _layouts(value: Any) -> list[Any]:
    plain = [t for t in tensors(value) if is_plain(t)]
    return [(t.shape, t.stride(), t.storage_offset()) for t in plain]


Change = Callable[[torch.Tensor, torch.dtype], torch.Tensor]


def _changed(tensor: torch.Tensor, change: Change, dtype: torch.dtype) -> torch.Tensor:
    if not is_plain(tensor):
        return tensor
    return change(tensor.detach(), dtype).requires_grad_(tensor.requires_grad)


def _noncontiguous(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    if tensor.numel() == 0 or tensor.dim() == 0:
        return tensor
    wide = tensor.new_empty((*tensor.shape[:-1], tensor.shape[-1] * 2))
    wide[..., ::2] = tensor
    wide[..., 1::2] = tensor  # what is between must not be read; if it is, it is not always wrong
    wide[..., 1::2] = 1 if tensor.dtype is torch.bool else 113
    return wide[..., ::2]


def _transposed(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    reverse = tuple(range(tensor.dim() - 1, -1, -1))
    return tensor.permute(reverse).contiguous().permute(reverse)


def _expanded(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    large = next((d for d in range(tensor.dim()) if tensor.shape[d] > 1), None)
    if large is None:
        return tensor
    return tensor.narrow(large, 0, 1).contiguous().expand(tensor.shape)


def _offset(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    if tensor.numel() == 0:
        return tensor
    return torch.cat([tensor.new_ones(3), tensor.reshape(-1)])[3:].view(tensor.shape)


def _empty(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    return tensor.narrow(0, 0, 0).clone() if tensor.dim() else tensor


def _scalar(tensor: torch.Tensor, _: torch.dtype) -> torch.Tensor:
    return tensor.reshape(-1)[0].clone() if tensor.numel() else tensor


def _special(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Of the case's dtype only: others are indices, lengths and the like."""
    if tensor.dtype is not dtype or dtype is torch.bool or tensor.numel() == 0:
        return tensor
    if dtype.is_floating_point or dtype.is_complex:
        limits = torch.finfo(dtype)
        values = [math.nan, math.inf, -math.inf, 0.0, -0.0, limits.max, limits.min, limits.tiny]
    else:
        whole = torch.iinfo(dtype)
        values = [whole.min, whole.max, 0, whole.max - 1, whole.min + 1]
    result = tensor.clone(memory_format=torch.contiguous_format)
    flat = result.view(-1)
    # Every second element, with another value in each tensor of a call.
    places = torch.arange(0, flat.numel(), 2, device=flat.device)
    given = torch.tensor(values, device=flat.device, dtype=dtype)
    flat[places] = given[(places // 2 + tensor.dim()) % len(values)]
    return result


_CHANGES: dict[str, Change] = {
    "noncontiguous": _noncontiguous,
    "transposed": _transposed,
    "expanded": _expanded,
    "offset": _offset,
    "empty": _empty,
    "scalar": _scalar,
    "special": _special,
}


def _copy(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if not is_plain(tensor):
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    storage = tensor.untyped_storage()
    if storage._cdata not in storages:
        storages[storage._cdata] = storage.clone()
    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    copy.set_(storages[storage._cdata], tensor.storage_offset(), tensor.shape, tensor.stride())
    return copy.requires_grad_(tensor.requires_grad)


def _wide(value: Any, device: str) -> Any:
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    if isinstance(value, (torch.device, str)) and str(value).startswith("cuda"):
        return torch.device(device)
    if isinstance(value, BlockMask):
        return value.to(device)
    if not isinstance(value, torch.Tensor):
        return value
    moved = value.detach().to(device, _WIDER.get(value.dtype, value.dtype))
    return moved.requires_grad_(value.requires_grad)


_WIDER = {
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        odd = is_plain(value) and not value.is_contiguous()
        return f"{name}{list(value.shape)}" + (f" strides {list(value.stride())}" if odd else "")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return repr(value)[:80]
