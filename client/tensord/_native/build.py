# SPDX-License-Identifier: Apache-2.0
"""Builds the native extension with the host's C++ compiler: `python -m tensord._native.build`.

Once per (Python, torch, source): ~/.cache/tensord/native/<key>/_tensord_native.so. The folder
appears whole or not at all, and concurrent builds wait for the first. A bundle brings those of some
Pythons along (prebuilt/<key>, deploy/bundle.sh), for hosts without a compiler. Uses nothing but the
standard library and does not import torch.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

NAME = "_tensord_native"
_SOURCES = sorted(Path(__file__).parent.glob("*.cc"))
_HEADERS = sorted(Path(__file__).parent.glob("*.h"))
PREBUILT = Path(__file__).parent / "prebuilt"
_RETRY_SECONDS = 24 * 3600.0
_FLAGS = ["-O2", "-std=c++20", "-fPIC", "-shared", "-fvisibility=hidden", "-w", "-g0"]


def torch_folder() -> Path:
    if "TENSORD_TORCH" in os.environ:
        return Path(os.environ["TENSORD_TORCH"])
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torch is not installed")
    return Path(spec.origin).parent


def cache_folder() -> Path:
    root = os.environ.get("TENSORD_NATIVE_CACHE")
    if root:
        return Path(root)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tensord" / "native"


@functools.cache
def key() -> str:
    """What decides the binary: the Python ABI, torch's very files, the source."""
    digest = hashlib.sha256()
    for part in (sysconfig.get_config_var("SOABI") or sys.version, platform.machine()):
        digest.update(part.encode() + b"\0")
    digest.update((torch_folder() / "version.py").read_bytes() + b"\0")
    for path in [*_SOURCES, *_HEADERS]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(" ".join(_FLAGS).encode())
    return digest.hexdigest()[:32]


def built_path() -> Path | None:
    """The extension, if it is built and nobody else could have written it."""
    return next(filter(_is_ours, (_place(PREBUILT), _place(cache_folder()))), None)


def _place(folder: Path) -> Path:
    return folder / key() / f"{NAME}.so"


def _is_ours(path: Path) -> bool:
    try:
        found = [checked.stat() for checked in (path, path.parent)]
    except OSError:
        return False
    return all(
        info.st_uid in (os.geteuid(), 0) and not info.st_mode & stat.S_IWOTH for info in found
    )


def compiler() -> str | None:
    names = [os.environ["CXX"]] if os.environ.get("CXX") else []
    for name in [*names, "c++", "g++", "clang++"]:
        if found := shutil.which(name):
            return found
    return None


def obstacle() -> str:
    """Why nothing can be built on this machine, in words; empty: it can."""
    python_header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    torch_header = torch_folder() / "include" / "torch" / "csrc" / "autograd" / "python_variable.h"
    if compiler() is None:
        return "there is no C++ compiler"
    if not python_header.exists():
        return "Python's headers are not installed"
    return "" if torch_header.exists() else "torch came without its headers"


def can_build() -> bool:
    return not obstacle()


def failed_recently() -> bool:
    try:
        age = time.time() - (cache_folder() / f"{key()}.failed").stat().st_mtime
    except OSError:
        return False
    return age < _RETRY_SECONDS


def _write_whole(path: Path) -> Path:
    """One translation unit of all sources, for torch's headers take ten times longer to read than
    what is behind them. So names are one scope's, also in anonymous namespaces."""
    path.write_text("".join(f'#include "{source}"\n' for source in _SOURCES))
    return path


def _command(source: Path, output: Path) -> list[str]:
    torch = torch_folder()
    include = torch / "include"
    return [
        compiler() or "c++",
        *_FLAGS,
        "-D_GLIBCXX_USE_CXX11_ABI=1",  # as every torch wheel since 2.7
        f"-I{Path(__file__).parent}",
        f"-isystem{include}",
        f"-isystem{include / 'torch' / 'csrc' / 'api' / 'include'}",
        f"-isystem{sysconfig.get_paths()['include']}",
        str(source),
        f"-L{torch / 'lib'}",
        # Both are loaded with torch already; no run path is needed.
        *("-ltorch_python", "-ltorch_cpu", "-lc10"),
        *("-o", str(output)),
    ]


def build() -> Path:
    """Builds unless it is built; raises RuntimeError with the compiler's words."""
    return built_path() or build_into(cache_folder())


def build_into(folder: Path) -> Path:
    """Builds unless the folder has it; raises RuntimeError with the compiler's words."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(folder / f"{key()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_ours(path := _place(folder)):
            return path
        if not can_build():
            raise RuntimeError("no C++ compiler, no Python.h or no torch headers on this machine")
        work = Path(tempfile.mkdtemp(prefix=".build-", dir=folder))
        try:
            whole = _write_whole(work / f"{NAME}.cc")
            done = subprocess.run(
                _command(whole, work / f"{NAME}.so"), capture_output=True, text=True, check=False
            )
            whole.unlink()
            if done.returncode != 0:
                (folder / f"{key()}.failed").write_text(done.stderr)
                raise RuntimeError(f"{' '.join(done.args)}\n{done.stderr[-4000:]}")
            final = folder / key()
            shutil.rmtree(final, ignore_errors=True)
            os.rename(work, final)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    if not _is_ours(path):
        raise RuntimeError(f"{folder} may be written by others")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--background", action="store_true", help="lowest priority")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="for a bundle's prebuilt/")
    args = parser.parse_args()
    if args.background:
        os.nice(19)
    started = time.monotonic()
    try:
        path = build_into(args.into) if args.into else build()
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{path} ({time.monotonic() - started:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
