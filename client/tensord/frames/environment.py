# SPDX-License-Identifier: Apache-2.0
"""What makes one process's captures useless to another: FrameEnvironment of frame.proto."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import torch

from .. import options as known_options
from .._version import VERSION
from ..torch_compat.split_graph import bucket_bytes
from ..v1 import frame_pb2

FORMAT = 3  # kFrameFormat of base/version.h

# What torch's capture reads of the environment. What tensord's passes read there is in the options.
_PREFIXES = ("TORCHDYNAMO_", "TORCH_COMPILE_", "AOT_")

# The packages of tensord whose code decides what the graphs of a frame are.
_CAPTURING = ("capture", "passes", "torch_compat")


@functools.cache
def capturing_code(package: pathlib.Path = pathlib.Path(__file__).parents[1]) -> str:
    """Of what makes the graphs of a frame: a capture is of no use behind a change of it, also one
    between two versions. Read once, in some 2 ms."""
    hasher = hashlib.sha256()
    for name in _CAPTURING:
        for path in sorted((package / name).rglob("*.py")):
            source = path.read_bytes()
            hasher.update(f"{path.relative_to(package)} {len(source)}\0".encode())
            hasher.update(source)
    return hasher.hexdigest()


def environment(
    chosen: known_options.Options, capture: Mapping[str, Any]
) -> frame_pb2.FrameEnvironment:
    """capture: what else torch.compile was told (`dynamic`, `fullgraph`)."""
    parts = [VERSION, capturing_code(), repr(chosen)]
    parts.append(repr(sorted(known_options.switched_off(chosen))))
    parts.append(repr(known_options.unchecked(chosen)))
    parts += [f"{name}={value!r}" for name, value in sorted(capture.items())]
    parts += sorted(
        f"{name}={value}" for name, value in os.environ.items() if name.startswith(_PREFIXES)
    )
    parts += _changed_settings(capture.get("dynamic"))
    if (buckets := bucket_bytes()) is not None:
        parts.append(f"buckets of {buckets} bytes")  # by which graphs are split
    return _environment("\n".join(parts))


@functools.lru_cache(maxsize=64)
def _environment(told: str) -> frame_pb2.FrameEnvironment:
    return frame_pb2.FrameEnvironment(
        format=FORMAT,
        python=f"{sys.implementation.name} {sys.version.split()[0]}",
        torch=str(torch.__version__),
        options=hashlib.sha256(told.encode()).digest(),
    )


def _changed_settings(dynamic: bool | None) -> list[str]:
    """Settings of torch's capture that a user has changed; in a process that has not imported them
    there are none. dynamic: as torch.compile was told, which sets some itself."""
    from ..torch_compat.settings import SET_BY_DYNAMIC, changed_settings

    modules = ("torch._dynamo.config", "torch._functorch.config")
    return [
        f"{name}.{setting}"
        for name in modules
        if (module := sys.modules.get(name)) is not None
        for setting in changed_settings(module)
        if setting.partition("=")[0] not in SET_BY_DYNAMIC[dynamic]
    ]
