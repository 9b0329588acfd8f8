# SPDX-License-Identifier: Apache-2.0
"""Generates the protobuf modules before setuptools looks at the package."""

import pathlib
import subprocess

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).resolve().parent
GENERATE = ["sh", str(HERE / "generate_protos.sh")]
PROTOS = HERE.parent / "proto"


def stale() -> bool:
    """True when a generated module is missing or older than its proto."""
    if not PROTOS.is_dir():  # a source archive carries the generated modules
        return False
    listed = subprocess.run([*GENERATE, "--list"], check=True, capture_output=True, text=True)
    for proto in listed.stdout.split():
        module = HERE / f"{proto.removesuffix('.proto')}_pb2.py"
        if not module.exists() or module.stat().st_mtime < (PROTOS / proto).stat().st_mtime:
            return True
    return False


def shared() -> list[tuple[str, list[str]]]:
    """Manual pages and completions, where there are some beside this file (deploy/bundle.sh): pip
    puts them under the environment's own share/."""
    folders: dict[str, list[str]] = {}
    for file in sorted((HERE / "share").rglob("*")):
        if file.is_file():
            path = file.relative_to(HERE)
            folders.setdefault(str(path.parent), []).append(str(path))
    return list(folders.items())


if stale():
    subprocess.run(GENERATE, check=True)

setup(packages=find_packages(include=["tensord", "tensord.*"]), data_files=shared())
