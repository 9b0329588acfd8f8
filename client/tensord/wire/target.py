# SPDX-License-Identifier: Apache-2.0
"""What a program is compiled for: this machine's CPU, or one kind of GPU.

The daemon never probes: two jobs on different machines may share it.
"""

from __future__ import annotations

import functools
import os
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..v1 import artifact_pb2

# Widest first: the flags of /proc/cpuinfo that an instruction set needs.
_ISA_FLAGS: tuple[tuple[str, set[str]], ...] = (
    ("avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}),
    ("avx2", {"avx2", "fma", "f16c"}),
    ("scalar", set()),
)
_DEFAULT_L1 = 32 << 10
_DEFAULT_L2 = 1 << 20


def isa_of(flags: set[str]) -> str:
    """The widest instruction set that `flags` (of /proc/cpuinfo) allow."""
    return next(name for name, needed in _ISA_FLAGS if needed <= flags)


def _cpu_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


def _cache_bytes(level: int, default: int) -> int:
    """The data cache of `level` of the first CPU, in bytes."""
    try:
        for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
            if int((index / "level").read_text()) != level:
                continue
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            unit = {"K": 1 << 10, "M": 1 << 20}.get(text[-1:], 1)
            return int(text.rstrip("KM")) * unit
    except (OSError, ValueError):
        pass
    return default


@functools.cache
def _cpu_target(override: str) -> artifact_pb2.Target:
    from ..v1 import artifact_pb2

    names = {name for name, _ in _ISA_FLAGS}
    if override and override not in names:
        raise ValueError(f"TENSORD_ISA={override!r} is none of {', '.join(sorted(names))}")
    isa = override or isa_of(_cpu_flags())
    cpu = artifact_pb2.CpuTarget(
        isa=f"ISA_{isa.upper()}",
        l1_bytes=_cache_bytes(1, _DEFAULT_L1),
        l2_bytes=_cache_bytes(2, _DEFAULT_L2),
    )
    return artifact_pb2.Target(cpu=cpu)


@functools.cache
def _cuda_target(index: int) -> artifact_pb2.Target:
    import torch

    from ..v1 import artifact_pb2

    properties = torch.cuda.get_device_properties(index)
    target = artifact_pb2.Target()
    target.cuda.sm = properties.major * 10 + properties.minor
    target.cuda.multiprocessors = properties.multi_processor_count
    # The opt-in limit is what a kernel can use at most; older torch only knows the default one.
    target.cuda.shared_bytes_per_block = getattr(
        properties,
        "shared_memory_per_block_optin",
        getattr(properties, "shared_memory_per_block", 49152),
    )
    target.cuda.l2_bytes = getattr(properties, "L2_cache_size", 0)
    target.cuda.registers_per_multiprocessor = getattr(properties, "regs_per_multiprocessor", 65536)
    return target


def detect(cuda_index: int | None) -> artifact_pb2.Target:
    """The Target (artifact.proto) for CUDA device `cuda_index`, or for the CPU when None."""
    if cuda_index is None:
        return _cpu_target(os.environ.get("TENSORD_ISA", "").lower())
    return _cuda_target(cuda_index)
