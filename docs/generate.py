# SPDX-License-Identifier: Apache-2.0
"""Writes the parts of the documents that follow from the sources.

    .venv/bin/python docs/generate.py           # after a build
    .venv/bin/python docs/generate.py --check   # ends with 1 where a document differs
    .venv/bin/python docs/generate.py --tables  # the tables of passes alone, which need no build

The parts stand between `<!-- NAME -->` and `<!-- end of NAME -->`: the tables of passes, from the
first sentences of their files, what each stage of the compiler makes of one small graph, and the
metrics of the daemon.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = "sm_90"
# What the daemon lowers of the example, which is therefore not decomposed.
LOWERED = ("aten::addmm", "aten::mm", "aten::gelu", "aten::add.Tensor", "aten::native_layer_norm")
SHAPES = ((4096, 256), (256, 1024), (1024,), (1024, 256))
# Part of a document -> the pass after which it shows the example.
DUMPS = {
    "import": "import",
    "rewrite": "rewrite",
    "lower": "lower",
    "schedule": "schedule",
    "kernel plans": "plan_kernels",
    "codegen": "codegen",
    "memory": "memory",
    "plan": "plan",
}


def block(x: Tensor, up: Tensor, bias: Tensor, down: Tensor) -> Tensor:
    hidden = F.gelu(torch.addmm(bias, x, up), approximate="tanh")
    return F.layer_norm(hidden @ down + x, (256,))


def example() -> bytes:
    """The graph of `block` as the client sends it, in bfloat16 on a GPU; none is needed."""
    from tensord.capture import autograd
    from tensord.wire import export

    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in SHAPES]
        module = make_fx(block, decomposition_table=autograd.decompositions(LOWERED))(*fakes)
    for node in module.graph.find_nodes(op="placeholder"):
        node.name = node.target = node.name.removesuffix("_1")
    return bytes(export.export(module).graph.SerializeToString())


def dumps() -> Iterator[tuple[str, str]]:
    """The parts that show the example."""
    with tempfile.NamedTemporaryFile(suffix=".pb") as graph:
        graph.write(example())
        graph.flush()
        for part, stage in DUMPS.items():
            command = [str(ROOT / "build/bin/tensorctl"), "compile", "--target", TARGET]
            command += ["--dump-after", stage, graph.name]
            run = subprocess.run(command, check=True, capture_output=True, text=True)
            lines = run.stdout.strip("\n").splitlines()
            lines = [line for line in lines if not line.startswith("==== ")]
            yield f"example: {part}", "```\n" + "\n".join(lines) + "\n```\n"


def first_sentence(comment: str) -> str:
    words = " ".join(comment.split())
    return re.split(r"(?<=[^.])[.:](?: |$)", words, maxsplit=1)[0]


def table(rows: list[tuple[str, str, str]]) -> str:
    head = "| pass | where | what it does |\n|---|---|---|\n"
    return head + "".join(f"| `{name}` | {where} | {what} |\n" for name, where, what in rows)


def rewrite_passes() -> str:
    """From the table of rewrite.cc and the headers of its passes."""
    source = (ROOT / "compiler/rewrite/rewrite.cc").read_text()
    targets = {"kCuda": "CUDA", "kBoth": "CUDA and CPU"}
    rows = []
    lines_of_table = re.findall(r'^ *\{"(\w+)",.*Targets::(\w+)', source, re.M)
    assert len(lines_of_table) == source.count('{"'), "rewrite.cc has a pass on several lines"
    for name, where in lines_of_table:
        header = ROOT / f"compiler/rewrite/{name}.h"
        comment = re.match(r"((?://.*\n)+)", header.read_text())
        assert comment, f"{header} begins with no comment"
        lines = [line.removeprefix("//") for line in comment[1].splitlines() if "SPDX" not in line]
        rows.append((name, targets[where], first_sentence("\n".join(lines))))
    assert rows, "rewrite.cc has no table of passes"
    return table(rows)


def client_passes() -> str:
    """From the client's table and the docstrings of its passes."""
    from tensord import passes

    rows = []
    for p in passes.TABLE:
        docstring = sys.modules[p.run.__module__].__doc__
        assert docstring, f"{p.run.__module__} has no docstring"
        where = f"{p.stage}, {' and '.join(p.devices).upper() or 'any'}"
        rows.append((p.name, where, first_sentence(docstring)))
    return table(rows)


def metrics() -> str:
    """What Prometheus finds of a daemon, by name: type, labels and help."""
    command = [str(ROOT / "build/bin/tensord"), "--print-metrics"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    helps = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.M))
    labels: dict[str, dict[str, list[str]]] = {name: {} for name in helps}
    for name, inner in re.findall(r"^(\w+?)(?:_count)?{(.*)} ", text, re.M):
        if name not in labels:  # other series of a histogram
            continue
        for label, value in re.findall(r'(\w+)="(.*?)"', inner):
            labels[name].setdefault(label, []).append(value)
    # What is there only once something was compiled.
    labels["tensord_compile_stage_seconds_total"] = {"stage": []}
    labels["tensord_compile_pass_seconds_total"] = {"stage": [], "pass": []}
    rows = ["| metric | type | labels | |\n|---|---|---|---|\n"]
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M):
        shown = [
            f"`{label}`" + (f": {', '.join(values)}" if len(values) > 1 else "")
            for label, values in labels[name].items()
        ]
        rows.append(f"| `{name}` | {kind} | {'; '.join(shown)} | {helps[name]} |\n")
    return "".join(rows)


def write(parts: dict[str, str], check: bool) -> int:
    """Puts the parts into the documents; returns how many documents differed."""
    found, different = set(), 0
    for document in sorted((ROOT / "docs").rglob("*.md")):
        old = new = document.read_text()
        for name, text in parts.items():
            begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            if begin not in new:
                continue
            found.add(name)
            head, rest = new.split(begin, 1)
            new = head + begin + text + end + rest.split(end, 1)[1]
        if new == old:
            continue
        different += 1
        print(
            f"{document.relative_to(ROOT)}: {'differs from' if check else 'written by'} this script"
        )
        if not check:
            document.write_text(new)
    missing = parts.keys() - found
    assert not missing, f"no document has the parts {sorted(missing)}"
    return different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--tables", action="store_true", help="only what needs no build")
    options = parser.parse_args()
    parts = {"client passes": client_passes(), "rewrite passes": rewrite_passes()}
    if not options.tables:
        parts |= {"metrics": metrics(), **dict(dumps())}
    return 1 if write(parts, options.check) and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
