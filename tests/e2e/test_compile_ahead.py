# SPDX-License-Identifier: Apache-2.0
"""`tensorctl compile`: programs that are there before a job asks, made where there is no GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import warm_python
from fleet_hosts import Host, run_job
from real_daemon import RealDaemon, binary
from tensord.v1 import artifact_pb2, requests_pb2
from tensord.wire import export, rpc
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

pytest_plugins = ["fleet_fixtures"]

needs_nvrtc = pytest.mark.skipif(
    os.environ.get("TENSORD_NO_CUDA_TESTS") == "1", reason="TENSORD_NO_CUDA_TESTS=1"
)

_TARGET = """
cuda {
  sm: 90
  multiprocessors: %d
  shared_bytes_per_block: 232448
  l2_bytes: 52428800
  registers_per_multiprocessor: 65536
}
"""


def request(multiprocessors: int = 132, sm: int = 90) -> Any:
    """As a job on such a GPU asks: of the whole target."""
    with FakeTensorMode():
        x = torch.empty(64, 48, device="cuda")
        module = make_fx(lambda x: [torch.ops.aten._softmax(x.sin(), 1, False)])(x)
    target = artifact_pb2.Target()
    target.cuda.sm = sm
    target.cuda.multiprocessors = multiprocessors
    target.cuda.shared_bytes_per_block = 232448
    target.cuda.l2_bytes = 50 << 20
    target.cuda.registers_per_multiprocessor = 65536
    return requests_pb2.CompileRequest(graph=export.export(module).graph, target=target)


def ask(daemon: RealDaemon, asked: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The daemon's reply to a job there."""
    monkeypatch.setenv("TENSORD_ADDRESS", daemon.address)
    rpc.client().forget()
    return rpc.client().compile(asked).wait()


def outcome(daemon: RealDaemon, asked: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    reply = ask(daemon, asked, monkeypatch)
    return requests_pb2.CompileReply.Outcome.Name(reply.outcome)


def tensorctl(*arguments: object) -> subprocess.CompletedProcess[str]:
    """With no configuration but these, and the NVRTC of the tests."""
    given = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TENSORD_") or name == "TENSORD_NVRTC"
    }
    return subprocess.run(
        [str(binary("tensorctl")), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**given, "TENSORD_CONFIG": "/dev/null"},
    )


def compiled(*arguments: object) -> dict[str, Any]:
    """What tensorctl says of what it compiled; none failed."""
    done = tensorctl("--json", "compile", *arguments)
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def graph(clean: Path) -> Path:
    """A graph that lies on a GPU, as a file, and beside it the target of one."""
    asked = request()
    (clean / "gpu.target").write_text(_TARGET % 132)
    (clean / "graph").write_bytes(asked.graph.SerializeToString())
    return clean / "graph"


@pytest.fixture
def serve(clean: Path) -> Iterator[Callable[[Path], RealDaemon]]:
    """Starts daemons over stores that are there already."""
    started: list[RealDaemon] = []

    def start(folder: Path, *flags: str) -> RealDaemon:
        started.append(RealDaemon(folder, flags=flags))
        return started[-1]

    yield start
    for one in started:
        one.close()


@needs_nvrtc
def test_a_job_on_a_gpu_finds_what_a_host_without_one_compiled(
    graph: Path,
    clean: Path,
    serve: Callable[[Path], RealDaemon],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = clean / "host"
    into = (f"--store={host / 'store'}", f"--target={clean / 'gpu.target'}")
    said = compiled(graph, *into)
    assert (said["made"], said["hit"], said["failed"], said["skipped"]) == (1, 0, 0, 0)
    (one,) = said["graphs"]
    assert one["outcome"] == "made" and one["kernels"] == one["kernels_made"] == 1
    assert one["target"].startswith("sm_90-") and one["name"] == str(graph)
    assert compiled(graph, *into)["hit"] == 1

    serving = serve(host)
    reply = ask(serving, request(), monkeypatch)
    assert reply.outcome == requests_pb2.CompileReply.HIT
    assert reply.program_key.hex() == one["key"]
    (module,) = reply.artifact.modules
    digest = module.sha256.hex()
    blob = Path(reply.blob_folder) / digest[:2] / digest
    assert module.kind == artifact_pb2.Module.CUBIN and blob.read_bytes()[:4] == b"\x7fELF"
    # Of another GPU, or another architecture, it is no program.
    assert outcome(serving, request(multiprocessors=114), monkeypatch) == "COMPILED"
    assert outcome(serving, request(sm=80), monkeypatch) == "COMPILED"


@needs_nvrtc
def test_a_daemon_that_runs_finds_it_too(
    graph: Path,
    clean: Path,
    serve: Callable[[Path], RealDaemon],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (clean / "host").mkdir()
    serving = serve(clean / "host")
    assert compiled(graph, f"--store={serving.store}", f"--target={clean / 'gpu.target'}")["made"]
    assert outcome(serving, request(), monkeypatch) == "HIT"


@needs_nvrtc
def test_a_target_comes_from_what_jobs_asked_for(
    graph: Path,
    clean: Path,
    serve: Callable[[Path], RealDaemon],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (clean / "host").mkdir()
    serving = serve(clean / "host")
    store = f"--store={serving.store}"
    unknown = tensorctl("compile", graph, store, "--target=sm_90")
    assert unknown.returncode == 2
    assert "tensorctl targets NAME -o FILE" in unknown.stderr
    assert outcome(serving, request(), monkeypatch) == "COMPILED"
    # From here on the name of the architecture says enough, and no name does too.
    assert compiled(graph, store, "--target=sm_90")["hit"] == 1
    assert compiled(graph, store)["hit"] == 1
    (listed,) = json.loads(tensorctl("--json", "targets", store).stdout)
    assert listed["programs"] == 1 and "132 multiprocessors" in listed["has"]
    written = clean / "written"
    assert tensorctl("targets", "sm_90", store, "-o", written).returncode == 0
    elsewhere = f"--store={clean / 'elsewhere' / 'store'}"
    said = compiled(graph, elsewhere, f"--target={written}")
    assert said["made"] == 1 and said["graphs"][0]["target"] == listed["name"]
    assert outcome(serve(clean / "elsewhere"), request(), monkeypatch) == "HIT"
    # Two of one architecture: which, must be said.
    assert outcome(serving, request(multiprocessors=114), monkeypatch) == "COMPILED"
    several = tensorctl("compile", graph, store, "--target=sm_90")
    assert several.returncode == 2 and listed["name"] in several.stderr
    assert compiled(graph, store, f"--target={listed['name']}")["hit"] == 1


@needs_nvrtc
def test_it_lands_in_the_fleet_and_in_exports(
    graph: Path,
    clean: Path,
    hosts: Callable[..., Host],
    key: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (clean / "shared").mkdir()
    url, trust = f"file://{clean / 'shared'}", key.parent / "trust"
    build = f"--store={clean / 'build'}"
    said = compiled(
        graph, build, f"--target={clean / 'gpu.target'}", f"--fleet={url}",
        f"--fleet-sign-key={key}", f"--fleet-trust={trust}",
    )  # fmt: skip
    assert said["made"] == 1 and said["put"] >= 1
    far = hosts(url, trust, None)  # with an empty store; it only reads
    assert outcome(far, request(), monkeypatch) == "HIT"
    assert outcome(far, request(multiprocessors=114), monkeypatch) == "COMPILED"
    assert far.stats()["compiled"] == 1

    file = clean / "file"
    done = tensorctl("export", file, "--all", build, f"--fleet-sign-key={key}")
    assert done.returncode == 0, done.stderr
    closed = hosts("", trust, None)
    done = tensorctl("import", file, f"--store={closed.store}", f"--fleet-trust={trust}")
    assert done.returncode == 0, done.stderr
    assert outcome(closed, request(), monkeypatch) == "HIT"


def another_build(folder: Path) -> Path:
    """A worker that compiles alike, and is another build by its digest."""
    worker = folder / "tensord-worker"
    shutil.copy(binary("tensord-worker"), worker)
    with worker.open("ab") as file:
        file.write(b"another build")
    return worker


def test_an_upgrade_finds_what_jobs_captured_before_compiled_again(
    hosts: Callable[..., Host],
    key: Path,
    clean: Path,
    serve: Callable[..., RealDaemon],
    native_guards: None,
) -> None:
    """Frames of the old build's export, compiled by the new one for what its programs were for."""
    old = hosts("", key.parent / "trust", None)
    assert run_job(old, *warm_python.CAPTURE)["frames_recorded"] == 1
    file, trust = clean / "file", f"--fleet-trust={key.parent / 'trust'}"
    done = tensorctl("export", file, "--all", f"--store={old.store}", f"--fleet-sign-key={key}")
    assert done.returncode == 0, done.stderr
    worker = f"--worker={another_build(clean)}"
    new = clean / "new"
    into = (f"--store={new / 'store'}", worker)
    assert tensorctl("import", file, *into, trust).returncode == 1
    said = compiled("--export", file, *into, trust)
    assert (said["made"], said["failed"], said["skipped"]) == (1, 0, 0)
    assert said["graphs"][0]["label"] == "inference"
    found = run_job(serve(new, worker), *warm_python.CAPTURE)
    assert (found["compiled"], found["hits"]) == (0, 1)
    # The store's own frames, with the build that made its programs.
    assert compiled("--frames", f"--store={old.store}")["hit"] == 1
    assert compiled("--frames", f"--store={old.store}", worker)["made"] == 1


def test_frames_of_a_job_make_its_programs_part_of_what_it_uses(
    hosts: Callable[..., Host], key: Path, clean: Path, native_guards: None
) -> None:
    old = hosts("", key.parent / "trust", None)
    assert run_job(old, *warm_python.CAPTURE, job="train")["frames_recorded"] == 1
    old.stop()  # writes what the job used
    worker = f"--worker={another_build(clean)}"
    said = compiled("--job=train", f"--store={old.store}", worker)
    assert said["made"] == 1
    done = tensorctl(
        "--json", "export", clean / "file", "--job=train", f"--store={old.store}",
        f"--fleet-sign-key={key}", worker,
    )  # fmt: skip
    exported = json.loads(done.stdout)
    assert (exported["programs"], exported["frames"], exported["of_other_builds"]) == (1, 1, 1)
    assert tensorctl("compile", "--job=another", f"--store={old.store}").returncode == 1


def test_what_does_not_compile_is_named_and_the_rest_is_made(clean: Path) -> None:
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.zeros(4, 6))
        module = make_fx(lambda x: [torch.ops.aten.sigmoid(x) * x])(x)
    target = artifact_pb2.CpuTarget(isa="ISA_SCALAR", l1_bytes=32 << 10, l2_bytes=1 << 20)
    job = requests_pb2.CompileRequest(
        graph=export.export(module).graph, target=artifact_pb2.Target(cpu=target)
    )
    (clean / "sound").write_bytes(job.SerializeToString())
    job.graph.nodes[1].outputs[0].sizes[0].constant = 5
    (clean / "wrong").write_bytes(job.SerializeToString())
    (clean / "rubbish").write_bytes(b"\xff" * 100)
    store = f"--store={clean / 'store'}"
    files = [clean / name for name in ("wrong", "rubbish", "absent", "sound")]
    done = tensorctl("compile", *files, store)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("failed") and "INVALID_ARGUMENT: node " in lines[0]
    assert lines[1].startswith("failed") and "neither a CompileJob" in lines[1]
    assert lines[2].startswith("failed") and "absent" in lines[2]
    assert lines[3].startswith("made") and "scalar-" in lines[3]
    # A target that came with a graph is for that alone, unless another one is said.
    (clean / "bare").write_bytes(job.graph.SerializeToString())
    (clean / "gpu.target").write_text(_TARGET % 132)
    done = tensorctl("compile", clean / "sound", store, f"--target={clean / 'gpu.target'}")
    assert done.returncode == 1 and done.stdout.startswith("skipped")
    assert tensorctl("compile", store).returncode == 2
    (clean / "half.target").write_text("cuda { sm: 90 }")
    half = tensorctl("compile", clean / "sound", store, f"--target={clean / 'half.target'}")
    assert half.returncode == 2 and "cuda.multiprocessors" in half.stderr


@pytest.fixture
def job(clean: Path) -> Path:
    """A job for a CPU, as a file."""
    with FakeTensorMode() as mode:
        x = mode.from_tensor(torch.zeros(4, 6))
        module = make_fx(lambda x: [torch.ops.aten.sigmoid(x) * x])(x)
    target = artifact_pb2.CpuTarget(isa="ISA_SCALAR", l1_bytes=32 << 10, l2_bytes=1 << 20)
    asked = requests_pb2.CompileRequest(
        graph=export.export(module).graph, target=artifact_pb2.Target(cpu=target)
    )
    (clean / "job").write_bytes(asked.SerializeToString())
    return clean / "job"


def test_what_the_store_has_no_room_for_is_no_success(job: Path, clean: Path) -> None:
    done = tensorctl("compile", job, f"--store={clean / 'store'}", "--store-limit=1")
    assert done.returncode == 1 and "not all of it is on disk" in done.stderr


def test_neither_is_what_the_tier_does_not_take(job: Path, clean: Path, key: Path) -> None:
    done = tensorctl(
        "compile", job, f"--store={clean / 'store'}", "--fleet=redis://127.0.0.1:1",
        f"--fleet-sign-key={key}", f"--fleet-trust={key.parent / 'trust'}",
    )  # fmt: skip
    assert done.returncode == 1 and done.stdout.startswith("made")
    assert "did not get into the fleet" in done.stderr and "refused" in done.stderr
