# SPDX-License-Identifier: Apache-2.0
"""tensord.debug.minify: faults that are planted in the client are found, and shown by a script."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tensord.debug import minify
from tensord.debug.capture import capture
from tensord.debug.case import text_of
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")

# Every Python process of the test runs this at its start: a pass that harms what it finds.
FAULT = """
import os, time
import torch
from tensord import passes
from tensord.passes.runner import Pass

aten = torch.ops.aten

def planted(module):
    found = module.graph.find_nodes(op="call_function", target=aten.tanh.default)
    for node in found:
        {harm}
    return len(found)

passes.TABLE += (Pass("planted", "partitioned", planted, operators=(aten.tanh.default,)),)
"""
HARMS = {
    "wrong": "node.target = aten.sin.default",
    "refused": 'raise ValueError("no tanh here")',
    "crash": "os.abort()",
    "hang": "time.sleep(1000)",
}


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    def begin(kind: str) -> None:
        (tmp_path / "sitecustomize.py").write_text(FAULT.format(harm=HARMS[kind]))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return begin


class Model(nn.Module):
    """Several layers, one of which has a tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Tensor, scale: float = 2.0) -> tuple[Tensor, Tensor]:
        for layer in self.layers[:2]:
            x = F.gelu(layer(x)) + x
        x = self.norm(torch.tanh(x.transpose(0, 1).contiguous().t()) * scale)
        for layer in self.layers[2:]:
            x = layer(x).relu() - x.mean(-1, keepdim=True)
        return x, x.softmax(-1)


def calls(path: Path) -> list[str]:
    """The lines of the script's program that compute something."""
    _, _, body = path.read_text().partition("def program(")
    lines = body.partition("\n\n")[0].splitlines()[1:]
    return [line.strip() for line in lines if "return" not in line]


def run(path: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def test_nothing_differs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert minify(Model(), [torch.randn(5, 6)], path=tmp_path / "none.py") is None
    assert not list(tmp_path.glob("none*"))


@pytest.mark.long
def test_a_wrong_node_is_found(plant: object, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plant("wrong")
    path = minify(Model(), [torch.randn(5, 6)], path=tmp_path / "small.py")
    assert path == tmp_path / "small.py"
    (only,) = calls(path)
    assert "tanh" in only
    code, said = run(path)
    assert code == 1 and "DifferenceError: wrong: output 0" in said
    assert path.read_text().count("import ") == 2 and "drawn" not in path.read_text()
    (tmp_path / "sitecustomize.py").write_text("")
    code, said = run(path)  # mended
    assert code == 0, said


def test_a_refused_node_is_found(plant: object, tmp_path: Path) -> None:
    torch.manual_seed(0)
    plant("refused")
    path = minify(Model(), [torch.randn(5, 6)], {"scale": 3.0}, path=tmp_path / "small.py")
    assert path is not None
    (only,) = calls(path)
    assert "tanh" in only
    code, said = run(path)
    assert code == 1 and "no tanh here" in said


@pytest.mark.long
@pytest.mark.parametrize("kind", ["crash", "hang"])
def test_a_process_that_dies(plant: object, tmp_path: Path, kind: str) -> None:
    plant(kind)
    path = minify(
        torch.tanh, [torch.ones(4)], path=tmp_path / "small.py",
        seconds_each=8.0 if kind == "hang" else 60.0, seconds=5.0,
    )  # fmt: skip
    assert path is not None
    assert path.read_text().startswith(f'"""{kind}')
    assert any("tanh" in line for line in calls(path))


def varied(x: Tensor, state: Tensor, rows: int = 2) -> tuple[Tensor, ...]:
    """What is not a plain call: bodies, changes, modes, constants, parts."""

    def inner(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 100, lambda y: y.exp(), lambda y: y * 2, (x,))

    y = torch.cond(x.sum() > 1000, lambda y: y.sin(), inner, (x,))
    state.add_(1)
    state[1:3] = 7
    with torch.autocast("cpu", torch.bfloat16):
        z = y @ x.t()
    with torch.no_grad():
        total = (x * float("inf")).isinf().sum()
    first, _ = y.split(2, 1)
    return z, total, first.max(0).indices, y[..., None, 1:3] + 1j, torch.ones(rows, device=x.device)


def test_a_script_is_the_program(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, state = torch.randn(4, 4), torch.zeros(5)
    (case,) = capture(varied, [x.t(), state.clone()], {}, None)
    text, storages = text_of(case, "A title.", "tensord")
    path = tmp_path / "script.py"
    path.write_text(text)
    assert not storages
    script = runpy.run_path(str(path))
    arguments = script["inputs"]()
    assert any(t.dim() == 2 and t.stride() == (1, 4) for t in arguments)
    mine, eager = script["program"](*arguments), varied(x.t(), state)
    for a, b in zip(mine, eager, strict=True):
        assert torch.equal(a, b)
    assert any(torch.equal(t, state) for t in arguments if t.dim() == 1)
    code, said = run(path)
    assert code == 0, said


def test_what_eager_raises_comes_out() -> None:
    with pytest.raises(RuntimeError, match=r"shape|size"):
        minify(lambda x, y: x @ y, [torch.ones(2, 3), torch.ones(2, 3)])


def test_random_results_are_no_difference(tmp_path: Path) -> None:
    assert minify(lambda x: F.dropout(x, 0.5) * 2, [torch.ones(50)], path=tmp_path / "n.py") is None
