# SPDX-License-Identifier: Apache-2.0
"""`tensorctl compile --dump`: what each pass makes of a graph, from every form that one has."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from google.protobuf import text_format
from real_daemon import binary
from tensord.v1 import artifact_pb2, requests_pb2
from tensord.wire import export
from torch.fx.experimental.proxy_tensor import make_fx


def _graph() -> Any:
    with torch._subclasses.FakeTensorMode() as mode:
        x = mode.from_tensor(torch.zeros(4, 6))
    module = make_fx(lambda x: [torch.ops.aten.mul.Tensor(torch.ops.aten.sigmoid(x), x)])(x)
    return export.export(module).graph


def _job() -> Any:
    """What a CompileJob begins with: that message is the daemon's own, with the same fields."""
    target = artifact_pb2.Target(cpu=artifact_pb2.CpuTarget(isa=artifact_pb2.ISA_AVX2))
    return requests_pb2.CompileRequest(graph=_graph(), target=target)


def _dump(file: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(binary("tensorctl")), "compile", "--dump", str(file), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


_FORMS = {
    "job": lambda: _job().SerializeToString(),
    "job as text": lambda: text_format.MessageToString(_job()).encode(),
    "graph": lambda: _graph().SerializeToString(),
    "graph as text": lambda: text_format.MessageToString(_graph()).encode(),
}


@pytest.mark.parametrize("form", _FORMS)
def test_every_form_of_a_graph(form: str, tmp_path: Path) -> None:
    file = tmp_path / "graph"
    file.write_bytes(_FORMS[form]())
    done = _dump(file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "==== rewrite/cross_entropy\nunchanged\n" in done.stdout
    passes = [line[5:] for line in done.stdout.splitlines() if line.startswith("==== ")]
    assert passes[0] == "import" and passes[-1] == "plan"
    assert "normalize/split_loops" in passes and "rewrite/pad_products" not in passes
    assert "aten::mul.Tensor(self=%1, other=%0): float32[4, 6] strides [6, 1] cpu" in done.stdout


def test_one_pass_for_another_target(tmp_path: Path) -> None:
    file = tmp_path / "graph"
    file.write_bytes(_graph().SerializeToString())
    done = _dump(file, "--dump-after", "codegen", "--target", "avx512")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("==== codegen\n") and done.stdout.count("==== ") == 1
    assert "sigmoid" in done.stdout


def test_mistakes_are_named(tmp_path: Path) -> None:
    file = tmp_path / "graph"
    file.write_bytes(_graph().SerializeToString())
    unknown = _dump(file, "--dump-after", "fuse")
    assert unknown.returncode == 2
    assert "no pass 'fuse'; there are import, rewrite/common_subexpressions," in unknown.stderr
    target = _dump(file, "--target", "z80")
    assert target.returncode == 2 and "sm_NN" in target.stderr
    assert _dump(tmp_path / "absent").returncode == 2
    file.write_bytes(b"\xff" * 100)
    rubbish = _dump(file)
    assert rubbish.returncode == 2
    assert "neither a CompileJob" in rubbish.stderr and "nor a Graph" in rubbish.stderr
    command = [str(binary("tensorctl")), "compile", "--dump", str(file), str(file)]
    several = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert several.returncode == 2 and "one GRAPH" in several.stderr


def test_a_graph_that_does_not_compile_shows_how_far_it_came(tmp_path: Path) -> None:
    job = _job()
    job.graph.nodes[1].outputs[0].sizes[0].constant = 5
    file = tmp_path / "job"
    file.write_bytes(job.SerializeToString())
    done = _dump(file)
    assert done.returncode == 1
    assert "==== import" in done.stdout and "==== lower" not in done.stdout
    assert "INVALID_ARGUMENT: node " in done.stderr


def _many(nodes: int) -> Any:
    """A graph whose dumps are longer than what a pipe holds."""
    job = _job()
    first = job.graph.nodes[0]
    for number in range(nodes):
        copy = job.graph.nodes.add()
        copy.CopyFrom(first)
        copy.name = f"sigmoid_{number}"
    return job


def test_what_passes_made_is_there_when_a_later_one_ends_the_compiler(tmp_path: Path) -> None:
    file = tmp_path / "job"
    file.write_bytes(_many(2000).SerializeToString())
    command = [str(binary("tensorctl")), "compile", "--dump", str(file)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as compiler:
        assert compiler.stdout is not None
        assert compiler.stdout.readline() == "==== import\n"
        # The rest does not fit into the pipe, so it is at work: as a failed check ends it.
        compiler.send_signal(signal.SIGABRT)
        output, errors = compiler.communicate(timeout=60)
    assert compiler.returncode == 1
    assert "sigmoid" in output and "==== plan" not in output
    assert errors == "INTERNAL: the compiler died behind what it printed last\n"
