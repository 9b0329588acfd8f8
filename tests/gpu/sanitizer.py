# SPDX-License-Identifier: Apache-2.0
"""Where compute-sanitizer is, and how it is called."""

from __future__ import annotations

import glob
import os
import shutil
import sysconfig

# The status of a program in which the tool found an error.
ERROR_STATUS = 86


def find() -> str | None:
    """TENSORD_COMPUTE_SANITIZER, PATH, a CUDA toolkit, or a Python package that brings it."""
    if named := os.environ.get("TENSORD_COMPUTE_SANITIZER"):
        return named
    packages = sysconfig.get_path("purelib")
    places = [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin")]
    places += ["/usr/local/cuda/compute-sanitizer", *glob.glob("/usr/local/cuda-*/bin")]
    places += glob.glob(os.path.join(packages, "nvidia", "*", "bin"))
    places += glob.glob(os.path.join(packages, "nvidia", "*", "compute-sanitizer"))
    path = os.pathsep.join([os.environ.get("PATH", ""), *places])
    return shutil.which("compute-sanitizer", path=path)


def command(program: str, tool: str) -> list[str]:
    """Only tensord's own kernels are looked at: torch's would take most of the time."""
    return [
        program,
        f"--tool={tool}",
        f"--error-exitcode={ERROR_STATUS}",
        "--target-processes=application-only",
        "--kernel-regex",
        "kns=tensord",
        "--print-limit=20",
    ]
