# SPDX-License-Identifier: Apache-2.0
"""Counter-based random operators: `tensord::seed`, `tensord::philox_uniform`, `::philox_normal`.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Block b of
stream s under a seed is the four words of

    counter = {b mod 2^32, b div 2^32, s, 0},   key = {seed mod 2^32, seed div 2^32}.

Elements are counted in row-major order. philox_uniform of element e is (w >> 8) * 2^-24, in [0, 1),
of word e mod 4 of block e div 4. philox_normal of element e is sqrt(-2 ln(1 - u)) cos(2 pi v), with
u, v uniform as above of words 2 (e mod 2) and 2 (e mod 2) + 1 of block e div 2. Both are float32
and then rounded to the dtype asked for.

On the CPU the numbers come from the runtime library; elsewhere, or without it, from plain tensor
arithmetic, which is also the reference for the kernels that the daemon makes.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from . import library

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_ROUNDS = 10

_LIBRARY = torch.library.Library("tensord", "DEF")
_TAGS = (torch.Tag.pt2_compliant_tag,)
# A seed is drawn afresh by every call: never deduplicated, never moved to the backward pass.
_LIBRARY.define(
    "seed(Device? device=None) -> Tensor", tags=(*_TAGS, torch.Tag.nondeterministic_seeded)
)
for _name in ("philox_uniform", "philox_normal"):
    _LIBRARY.define(
        f"{_name}(Tensor seed, SymInt[] size, ScalarType dtype, Device device, int stream)"
        " -> Tensor",
        tags=_TAGS,
    )


def philox4x32(
    counter: Sequence[torch.Tensor | int], key: Sequence[torch.Tensor | int]
) -> list[torch.Tensor]:
    """Ten rounds of Philox4x32 on int64 tensors that hold 32-bit words; all broadcast.

    counter: four words; key: two; the result: four. int64 products wrap, which leaves the low and
    the high word of a 32x32-bit product as they should be.
    """
    c = [torch.as_tensor(word) for word in counter]
    k = [torch.as_tensor(word) for word in key]
    for _ in range(_ROUNDS):
        product0 = c[0] * _MULTIPLIERS[0]
        product1 = c[2] * _MULTIPLIERS[1]
        c = [
            ((product1 >> 32) & _MASK) ^ c[1] ^ k[0],
            product1 & _MASK,
            ((product0 >> 32) & _MASK) ^ c[3] ^ k[1],
            product0 & _MASK,
        ]
        k = [(k[0] + _WEYL[0]) & _MASK, (k[1] + _WEYL[1]) & _MASK]
    return c


def _words(
    seed: torch.Tensor, size: Sequence[int], device: torch.device, stream: int, each: int
) -> torch.Tensor:
    """`each` words of every element, int64 [elements, each]; 4 // each elements share a block."""
    count = math.prod(size)
    blocks = torch.arange(-(-count * each // 4), dtype=torch.int64, device=device)
    seed = seed.to(device)
    zero = torch.zeros((), dtype=torch.int64, device=device)
    words = philox4x32(
        [blocks & _MASK, blocks >> 32, zero + (stream & _MASK), zero],
        [seed & _MASK, (seed >> 32) & _MASK],
    )
    return torch.stack(words, -1).reshape(-1, each)[:count]


def _unit(word: torch.Tensor) -> torch.Tensor:
    return (word >> 8).to(torch.float32) * 2.0**-24


def _seed(device: torch.device | None = None) -> torch.Tensor:
    return torch.randint(-(2**63), 2**63 - 1, (), dtype=torch.int64, device=device)


@functools.cache
def _fill_functions() -> dict[str, Any]:
    """The runtime library's fill functions; empty where there is no library."""
    try:
        runtime = ctypes.CDLL(str(library.find()))
        functions = {
            "uniform": runtime.tensord_philox_uniform,
            "normal": runtime.tensord_philox_normal,
        }
    except (OSError, AttributeError):
        return {}
    for function in functions.values():
        function.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p]
        function.restype = None
    return functions


def _filled(
    kind: str, seed: torch.Tensor, size: Any, dtype: torch.dtype, device: torch.device, stream: int
) -> torch.Tensor | None:
    functions = _fill_functions() if torch.device(device).type == "cpu" else {}
    if not functions:
        return None
    result = torch.empty(size, dtype=torch.float32, device="cpu")  # whatever the default device is
    bits = int(seed) & (2**64 - 1)
    functions[kind](bits, stream & _MASK, result.numel(), result.data_ptr())
    return result.to(dtype)


def _uniform(
    seed: torch.Tensor, size: Any, dtype: torch.dtype, device: torch.device, stream: int
) -> torch.Tensor:
    filled = _filled("uniform", seed, size, dtype, device, stream)
    if filled is not None:
        return filled
    return _unit(_words(seed, size, device, stream, 1)).to(dtype).reshape(size)


def _normal(
    seed: torch.Tensor, size: Any, dtype: torch.dtype, device: torch.device, stream: int
) -> torch.Tensor:
    filled = _filled("normal", seed, size, dtype, device, stream)
    if filled is not None:
        return filled
    first, second = _unit(_words(seed, size, device, stream, 2)).unbind(-1)
    radius = torch.sqrt(-2.0 * torch.log1p(-first))
    return (radius * torch.cos(2.0 * math.pi * second)).to(dtype).reshape(size)


_LIBRARY.impl("seed", _seed, "CompositeExplicitAutograd")
_LIBRARY.impl("philox_uniform", _uniform, "CompositeExplicitAutograd")
_LIBRARY.impl("philox_normal", _normal, "CompositeExplicitAutograd")


@torch.library.register_fake("tensord::seed", lib=_LIBRARY)
def _seed_fake(device: torch.device | None = None) -> torch.Tensor:
    return torch.empty((), dtype=torch.int64, device=device)


def _philox_fake(
    seed: torch.Tensor, size: Any, dtype: torch.dtype, device: torch.device, stream: int
) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device=device)


torch.library.register_fake("tensord::philox_uniform", _philox_fake, lib=_LIBRARY)
torch.library.register_fake("tensord::philox_normal", _philox_fake, lib=_LIBRARY)

seed = torch.ops.tensord.seed.default
uniform = torch.ops.tensord.philox_uniform.default
normal = torch.ops.tensord.philox_normal.default
