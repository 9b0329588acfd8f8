# SPDX-License-Identifier: Apache-2.0
"""Settings of torch's configuration modules, and what torch.compile takes."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

import torch

# Settings of torch._dynamo.config that torch.compile itself sets while a function runs for which it
# was told `dynamic` (2.11 to 2.13).
SET_BY_DYNAMIC: dict[bool | None, tuple[str, ...]] = {
    None: (),
    True: ("assume_static_by_default",),
    False: ("assume_static_by_default", "automatic_dynamic_shapes"),
}


_RECOMPILE_LIMIT = 8  # 2.11 to 2.13, unless the configuration says otherwise


def recompile_limit() -> int:
    """How many entries of one code there are when Dynamo captures it no more. The configuration is
    not imported for it: where nobody has, nobody has changed it."""
    config = sys.modules.get("torch._dynamo.config")
    return _RECOMPILE_LIMIT if config is None else int(config.recompile_limit)


@functools.cache
def compile_keywords() -> frozenset[str]:
    """Of torch.compile, beside the backend."""
    return frozenset(inspect.signature(torch.compile).parameters) - {"model", "backend"}


def changed_settings(module: Any) -> list[str]:
    """Those of a configuration module that are not as torch has them, as "name=value", sorted.

    2.11 to 2.13. Nothing where a version cannot tell.
    """
    is_default = getattr(module, "_is_default", None)
    if is_default is None:
        return []
    changed = []
    for name, entry in module._config.items():
        # What was set for a while is not by default ever after, but may be as usual.
        if not is_default(name) and (value := getattr(module, name)) != entry.default:
            changed.append(f"{name}={value!r}")
    return sorted(changed)
