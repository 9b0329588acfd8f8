# SPDX-License-Identifier: Apache-2.0
"""The native extension `_tensord_native`: found in the user's cache, loaded, and built if need be.

Its source lies here and is compiled once for each pair of Python and torch (build.py).
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensord._native import build

_lock = threading.Lock()
_module: Any = None
_broken = False
_builder: subprocess.Popen[bytes] | None = None


def load(
    runtime_library: Path,
    make_error: Callable[[str, int], Exception],
    run_step: Callable[..., Any],
) -> Any:
    """The extension bound to `runtime_library`, or None when it is not built or does not load.

    make_error: of a message and a code. run_step: runs a plan's call-back (bridge/call_backs.py).
    """
    global _module, _broken
    if _module is not None or _broken:
        return _module
    path = build.built_path()
    if path is None:
        return None
    with _lock:
        if _module is None and not _broken:
            try:
                loader = importlib.machinery.ExtensionFileLoader(build.NAME, str(path))
                spec = importlib.machinery.ModuleSpec(build.NAME, loader, origin=str(path))
                module = importlib.util.module_from_spec(spec)
                loader.exec_module(module)
                module.init(str(runtime_library), make_error, run_step)
                _module = module
            except Exception:  # the slower bridge does everything too
                _broken = True
    return _module


def loaded() -> Any:
    """The extension where `load` found it, else None."""
    return _module


def bridge() -> str:
    """What takes this process's calls to programs and checks guards, in words: "native", or
    "python" and why the extension is not there (yet)."""
    try:
        reason = _missing()
    except ModuleNotFoundError as error:  # torch's, which decides what would be built
        reason = str(error)
    return f"python, because {reason}" if reason else "native"


def _missing() -> str:
    if os.environ.get("TENSORD_NATIVE") == "0":
        return "TENSORD_NATIVE is 0"
    if _broken:
        return "the native extension does not load"
    if _module is not None or build.built_path() is not None:
        return ""
    if build.failed_recently():
        return "the native extension could not be built: python -m tensord._native.build says why"
    return _obstacle() or "the native extension is not built yet"


_obstacle = functools.cache(build.obstacle)  # it is looked for along PATH


def build_in_background() -> bool:
    """Starts a build unless one ran or runs; whether the extension may turn up later."""
    global _builder
    with _lock:
        if _builder is not None:
            return _builder.poll() in (None, 0)
        if build.failed_recently() or not build.can_build():
            return False
        # By its path: running it as a module would import torch in the child.
        command = [sys.executable, "-I", str(Path(build.__file__)), "--background"]
        try:
            _builder = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "TENSORD_TORCH": str(build.torch_folder())},
            )
        except OSError:
            return False
    return True
