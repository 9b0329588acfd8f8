# SPDX-License-Identifier: Apache-2.0
"""Generates the protobuf modules before setuptools looks at the package."""

import pathlib
import subprocess

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).resolve().parent
GENERATED = [
    HERE / "tensord" / "v1" / f"{name}_pb2.py"
    for name in ("graph", "artifact", "compile", "stats", "service")
]
PROTOS = HERE.parent / "proto" / "tensord" / "v1"


def stale() -> bool:
    """True when a generated module is missing or older than its proto."""
    if not PROTOS.is_dir():  # a source archive carries the generated modules
        return False
    return any(
        not path.exists()
        or path.stat().st_mtime
        < (PROTOS / f"{path.stem.removesuffix('_pb2')}.proto").stat().st_mtime
        for path in GENERATED
    )


if stale():
    subprocess.run([str(HERE / "generate_protos.sh")], check=True)

setup(packages=find_packages(include=["tensord", "tensord.*"]))
