# SPDX-License-Identifier: Apache-2.0
"""What makes one process's captures useless to another: FrameEnvironment of frame.proto."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import pathlib
import sys
import uuid
from collections.abc import Mapping
from typing import Any

import torch

from .. import options as known_options
from .._version import VERSION
from ..torch_compat.split_graph import bucket_bytes
from ..v1 import frame_pb2

log = logging.getLogger("tensord")

FORMAT = 6  # kFrameFormat of base/version.h

# What torch's capture reads of the environment. What tensord's passes read there is in the options.
_PREFIXES = ("TORCHDYNAMO_", "TORCH_COMPILE_", "AOT_")

_PACKAGE = pathlib.Path(__file__).parents[1]
# What of the package decides neither which graphs a frame has nor what else is recorded of it.
_BESIDE = ("_native", "bridge", "cuda_graphs", "debug", "profiles", "v1")


def capturing_code(package: pathlib.Path = _PACKAGE) -> str:
    """Of the code that records frames: a capture is of no use behind a change of it, also one
    between two versions. An installation without sources has its version alone; sources that cannot
    be read are like no other process's."""
    hasher = hashlib.sha256()
    try:
        for folder, inner, files in os.walk(package):
            place = os.path.relpath(folder, package)
            inner[:] = sorted(name for name in inner if place != "." or name not in _BESIDE)
            for name in sorted(name for name in files if name.endswith(".py")):
                with open(f"{folder}/{name}", "rb", buffering=0) as file:
                    source = file.read()
                hasher.update(f"{place}/{name} {len(source)}\0".encode())
                hasher.update(source)
    except OSError as error:
        log.debug("tensord: frames of this process serve no other: %s", error)
        return uuid.uuid4().hex
    return hasher.hexdigest()


# As it is when it is imported, which others of these modules are by now, or soon.
_CAPTURING_CODE = capturing_code()


def environment(
    chosen: known_options.Options, capture: Mapping[str, Any]
) -> frame_pb2.FrameEnvironment:
    """capture: what else torch.compile was told (`dynamic`, `fullgraph`)."""
    parts = [VERSION, _CAPTURING_CODE, repr(chosen)]
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
