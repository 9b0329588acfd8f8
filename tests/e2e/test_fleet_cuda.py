# SPDX-License-Identifier: Apache-2.0
"""Programs for GPUs go from host to host as those for CPUs do: by a tier, and as a file. NVRTC
makes them here without a GPU; what arrives is the very same binary, and makes no kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_hosts import Host, graphs
from real_daemon import ROOT, binary
from tensord.v1 import artifact_pb2, requests_pb2

sys.path.append(str(ROOT / "tests" / "deploy"))
import ask

pytest_plugins = ["fleet_fixtures"]
pytestmark = pytest.mark.skipif(
    os.environ.get("TENSORD_NO_CUDA_TESTS") == "1", reason="TENSORD_NO_CUDA_TESTS=1"
)

ARCHITECTURES = (80, 90)
GRAPHS = (1, 2)


def requests() -> list[Any]:
    """A few graphs, each for every architecture."""
    made = []
    for sm in ARCHITECTURES:
        for number in GRAPHS:
            request = graphs.request(graphs.small(number))
            ask.on_gpu(request.graph)
            request.target.CopyFrom(artifact_pb2.Target(cuda={**ask.H200, "sm": sm}))
            made.append(request)
    return made


def compiled(host: Host, outcome: str) -> list[Any]:
    """The replies to all requests, each of which is to have this outcome."""
    replies = [host.compile(request)[0] for request in requests()]
    names = [requests_pb2.CompileReply.Outcome.Name(reply.outcome) for reply in replies]
    assert names == [outcome] * len(replies), host.log_text()
    return replies


def binaries(reply: Any) -> list[bytes]:
    """Of its kernels, from the folder where a job reads them."""
    assert reply.artifact.modules
    found = []
    for module in reply.artifact.modules:
        assert module.kind == artifact_pb2.Module.CUBIN
        digest = module.sha256.hex()
        found.append((Path(reply.blob_folder) / digest[:2] / digest).read_bytes())
    return found


def assert_served(one: list[Any], host: Host) -> None:
    """The host answers with what `one` is, and has made nothing."""
    two = compiled(host, "HIT")
    for made, served in zip(one, two, strict=True):
        assert served.program_key == made.program_key
        assert served.artifact == made.artifact
        assert served.blob_folder != made.blob_folder
        assert binaries(served) == binaries(made)
        assert all(blob.startswith(b"\x7fELF") for blob in binaries(served))
    stats = host.stats()
    assert stats["compiled"] == stats["kernels_compiled"] == stats["kernels_failed"] == 0
    assert all(miss["count"] in (0, "0") for miss in stats["misses"])


def test_another_host_makes_no_kernel_that_the_tier_has(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    (clean / "shared").mkdir()
    url = f"file://{clean / 'shared'}"
    one = hosts(url, key.parent / "trust", key)
    made = compiled(one, "COMPILED")
    one.wait_for("fleet_put", len(made))
    two = hosts(url, key.parent / "trust", None)
    assert_served(made, two)
    stats = two.stats()
    assert (stats["hits_fleet"], stats["hits_store"]) == (len(made), 0)
    assert_served(made, two)
    assert two.stats()["hits_store"] == len(made)


def test_another_host_makes_no_kernel_that_an_export_has(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    one = hosts("", key.parent / "trust", None)
    made = compiled(one, "COMPILED")
    two = hosts("", key.parent / "trust", None)
    for command in (
        ("export", clean / "file", "--all", f"--store={one.store}", f"--fleet-sign-key={key}"),
        ("import", clean / "file", f"--store={two.store}", f"--fleet-trust={key.parent / 'trust'}"),
    ):
        environment = {**os.environ, "TENSORD_CONFIG": "/dev/null"}
        done = subprocess.run(
            [binary("tensorctl"), *command], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
    assert_served(made, two)
    assert two.stats()["hits_store"] == len(made)
    # Of GPUs, too, the sources are there for people.
    digest = made[0].program_key.hex()
    assert "__global__" in two.tensorctl("kernel", digest, "0")
