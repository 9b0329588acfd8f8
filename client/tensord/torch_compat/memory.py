# SPDX-License-Identifier: Apache-2.0
"""Storages, tensors over them, and the pools of CUDA graphs."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch


def storage_over(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Another storage over the same memory, which does not own it."""
    return storage_at(storage.data_ptr(), storage.device, storage.nbytes())


def storage_at(address: int, device: torch.device, size: int) -> torch.UntypedStorage:
    """A storage over `size` bytes there, which does not own them.

    2.11 to 2.13, as torch's own CUDA graph trees do.
    """
    make: Any = torch._C._construct_storage_from_data_pointer  # typed as another kind of storage
    over: torch.UntypedStorage = make(address, device, size)
    return over


# A tensor's dtype, size, stride and offset, in elements.
Layout = tuple[Any, tuple[int, ...], tuple[int, ...], int]


def layout_of(tensor: torch.Tensor) -> Layout:
    """What `tensor_over` takes to make it again."""
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())


def tensor_over(
    storage: torch.UntypedStorage,
    dtype: Any,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    offset: int,
) -> torch.Tensor:
    """A tensor on a storage.

    2.11 to 2.13, built with CUDA: in one call, as torch's own CUDA graph trees do.
    """
    make = getattr(torch._C, "_construct_CUDA_Tensor_From_Storage_And_Metadata", None)
    if make is not None and storage.device.type == "cuda":
        metadata = {
            "dtype": dtype,
            "device": storage.device,
            "size": size,
            "stride": stride,
            "storage_offset": offset,
        }
        return make(metadata, storage)
    tensor = torch.empty(0, dtype=dtype, device=storage.device)
    return tensor.set_(storage, offset, size, stride)


def storage_reference(storage: torch.UntypedStorage) -> Any:
    """A weak reference: expired() is True once no tensor uses the storage."""
    from torch.multiprocessing.reductions import StorageWeakRef

    return StorageWeakRef(storage)


@contextlib.contextmanager
def without_product_workspaces() -> Iterator[None]:
    """A block around a capture whose products leave nothing behind.

    2.11 to 2.13: torch keeps a workspace for each stream and library handle. One that is made in a
    capture lies in the capture's pool, and would be that of later captures too. torch can only drop
    all of them, as it does for its own CUDA graph trees.
    """
    try:
        yield
    finally:
        getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)()


def end_broken_capture(index: int, pool: tuple[int, int]) -> None:
    """Has device `index` no longer allocate from `pool` after a capture whose end raised.

    2.11 to 2.13: torch leaves that undone where the driver refuses to end the capture. Where it was
    done, this raises at its first step and changes nothing. Other graphs in the pool keep it.
    """
    with contextlib.suppress(Exception):
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)


class StorageUse:
    """Who has a storage. Only for as long as the tensor that it was made of has a user, and where
    no mode sees what is done here (`a_mode_sees()`): it may keep what it sees.

    2.11 to 2.13, as torch's own CUDA graph trees count. The counts have users that torch adds, how
    many is measured.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._place = storage._cdata
        self._objects = sys.getrefcount(storage)  # Python's, which all are one user to torch
        self._resizable = storage.resizable()  # not so of NumPy's memory

    def is_only(self) -> bool:
        """True where one tensor has the storage, no Python object does, and it is not NumPy's."""
        return self._resizable and (self._users(), self._objects) == _least_users()

    def _users(self) -> int:
        return int(torch._C._storage_Use_Count(self._place))


def a_mode_sees() -> bool:
    """Whether a mode of Python's is asked about operators or functions of torch."""
    return bool(torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack())


@functools.cache
def _least_users() -> tuple[int, int]:
    tensor = torch.empty(1, device="cpu")
    use = StorageUse(tensor)
    return use._users(), use._objects


def share_memory(sizes: Any, strides: Any) -> bool:
    """True where strides that are known lead to one element in several ways. A size that is a
    symbol counts as 2."""
    if any(isinstance(size, int) and size == 0 for size in sizes):
        return False
    steps = zip(strides, (size if isinstance(size, int) else 2 for size in sizes), strict=True)
    reach = 1
    for stride, size in sorted(step for step in steps if isinstance(step[0], int) and step[1] > 1):
        if stride < reach:
            return True
        reach += (size - 1) * stride
    return False


def pointwise_order(*tensors: torch.Tensor) -> list[int]:
    """Dimensions from the outermost to the innermost in memory, as a pointwise operator lays its
    result out. tensors: of one shape, at least one of them."""
    from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

    order, _ = compute_elementwise_output_logical_to_physical_perm(*tensors, _skip_checks=True)
    return list(order)


def is_known_contiguous(tensor: torch.Tensor) -> bool:
    """False also where data decides it."""
    from torch._prims_common import is_contiguous_or_false

    return is_contiguous_or_false(tensor)


def is_known_dense(tensor: torch.Tensor) -> bool:
    """Whether elements have places of their own and leave no gaps; False also where data, or a
    symbol's value, decides it."""
    from torch._prims_common import is_non_overlapping_and_dense_or_false

    return is_non_overlapping_and_dense_or_false(tensor)


def memory_format_of(tensor: torch.Tensor) -> torch.memory_format:
    """How a tensor is laid out, as eager's operators see it by its strides."""
    from torch._prims_common import suggest_memory_format

    return suggest_memory_format(tensor)
