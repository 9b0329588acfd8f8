# SPDX-License-Identifier: Apache-2.0
"""What the client puts on the wire, checked by running it: results against eager PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import interpreter
import pytest
import tensord
import torch
import torch.nn.functional as F
from tensord.v1 import graph_pb2
from tensord.wire import rpc
from torch import nn


def check(daemon, function, *inputs, dynamic=None, training=False, tolerance=None):
    """Compiles, runs and compares with eager; with `training`, gradients too."""
    compiled = torch.compile(function, backend="tensord", dynamic=dynamic, fullgraph=True)

    def run(f):
        leaves = [
            i.detach().clone().requires_grad_(training and i.is_floating_point())
            if isinstance(i, torch.Tensor)
            else i
            for i in inputs
        ]
        with torch.set_grad_enabled(training):
            result = f(*leaves)
        if training:
            outputs = result if isinstance(result, tuple) else (result,)
            sum(o.float().sum() for o in outputs if o.requires_grad).backward()
        grads = [i.grad for i in leaves if isinstance(i, torch.Tensor) and i.requires_grad]
        return result, grads, leaves

    torch.testing.assert_close(run(compiled), run(function), **(tolerance or {}))
    assert daemon.requests
    return daemon.requests[-1].graph


CASES = {
    "pointwise": lambda x: F.gelu(x) * 2 + x.sin(),
    "softmax": lambda x: F.softmax(x / 8 + 1, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "views": lambda x: x.t()[1:, ::2].reshape(-1).view(-1, 1) + 1,
    "split": lambda x: torch.split(x, 3, dim=1)[1] * 2,
    "unbind": lambda x: x.unbind(0)[2] + x.unbind(0)[0],
    "chunk_all": lambda x: tuple(c + 1 for c in x.chunk(2)),
    "topk": lambda x: x.topk(3),
    "max_dim": lambda x: x.max(1),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "sort": lambda x: torch.sort(x, dim=0),
    "index": lambda x: x[torch.tensor([0, 2]), :] + x[:, torch.tensor([1])].sum(),
    "index_none": lambda x: x[:, torch.tensor([1, 0])],
    "where": lambda x: torch.where(x > 0, x, torch.tensor(-1.0)),
    "half": lambda x: x.half().float() + x.to(torch.bfloat16),
    "inf": lambda x: x.masked_fill(x < 0, float("-inf")),
    "bools": lambda x: (x > 0).any(1) & (x < 1).all(1),
    "arange": lambda x: x + torch.arange(x.shape[1], device=x.device),
    "full": lambda x: torch.full((3, 2), 7) + torch.zeros(2),
    "conv": lambda x: F.conv2d(x[None, None], torch.ones(2, 1, 3, 3), padding=1),
    "channels_last": lambda x: x[None, None].contiguous(memory_format=torch.channels_last) + 1,
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "matmul": lambda x: x @ x.t(),
    "none_and_int": lambda x: (x + 1, None, 3),
    "same_twice": lambda x: (x + 1, x + 1, x),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None]
    ),
    "empty": lambda x: x[:0].sum(0),
    "clamp": lambda x: x.clamp(min=-0.5).clamp_(max=0.5),
    "pow": lambda x: x**2 + 2**x,
    "cumsum": lambda x: x.cumsum(0),
    "scatter": lambda x: torch.zeros(4, 6).scatter_add(0, torch.zeros(4, 6, dtype=torch.int64), x),
    "embedding": lambda x: F.embedding(torch.tensor([1, 0, 1]), x),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="nearest"),
    "pad": lambda x: F.pad(x, (1, 2), value=3.0),
}


@pytest.mark.parametrize("name", CASES)
def test_inference(daemon, name):
    check(daemon, CASES[name], torch.randn(4, 6))


@pytest.mark.parametrize(
    "name", ["pointwise", "softmax", "views", "cat", "matmul", "pad", "arange"]
)
def test_dynamic(daemon, name):
    graph = check(daemon, CASES[name], torch.randn(5, 7), dynamic=True)
    assert len(graph.symbols) >= 1
    assert sorted(s.hint for s in graph.symbols) == [5, 7]


@pytest.mark.parametrize("name", ["pointwise", "softmax", "layer_norm", "conv", "matmul", "views"])
def test_training(daemon, name):
    check(daemon, CASES[name], torch.randn(4, 6), training=True)
    # Both are compiled at the same time.
    assert sorted(r.label for r in daemon.requests) == ["backward", "forward"]


def test_dynamic_training(daemon):
    def f(x, y):
        return (x @ y).relu().reshape(-1).softmax(0) * x.shape[0]

    check(daemon, f, torch.randn(5, 7), torch.randn(7, 3), training=True, dynamic=True)


def test_one_dynamic_program_serves_many_sizes(daemon):
    f = torch.compile(lambda x: (x * 2).reshape(-1) + x.shape[0], backend="tensord", dynamic=True)
    for size in (3, 4, 9):
        x = torch.randn(size, 5)
        torch.testing.assert_close(f(x), (x * 2).reshape(-1) + size)
    assert len(daemon.requests) == 1


def test_symbolic_expressions(daemon):
    def f(x):
        n, m = x.shape
        half = n // 2
        return (
            x[:half].sum(0),
            x.new_zeros(min(n, m), max(n, m)),
            x.new_ones((n * m + 3) % 5 + 1),
            torch.arange(-(-n // 3)),
            n * n,
        )

    graph = check(daemon, f, torch.randn(11, 6), dynamic=True)
    assert "op" in str(graph)


def test_mutation_of_an_input(daemon):
    def f(x, y):
        x.add_(y)
        return x * 2

    graph = check(daemon, f, torch.randn(3), torch.randn(3))
    assert "aten::copy_" in [n.op for n in graph.nodes]


def test_batch_norm_changes_its_buffers(daemon):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    twin = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    twin.load_state_dict(module.state_dict())
    compiled = torch.compile(module, backend="tensord", fullgraph=True)
    x = torch.randn(2, 3, 8, 8)
    compiled(x).sum().backward()
    twin(x).sum().backward()
    torch.testing.assert_close(dict(module.state_dict()), dict(twin.state_dict()))
    torch.testing.assert_close(module[0].weight.grad, twin[0].weight.grad)


def test_parameters_are_static(daemon):
    module = nn.Linear(3, 5)
    compiled = torch.compile(module, backend="tensord", fullgraph=True)
    compiled(torch.randn(2, 3)).sum().backward()
    inputs = daemon.graph("forward").inputs
    assert sorted((len(i.tensor.sizes), i.is_parameter) for i in inputs) == [
        (1, True),
        (2, False),
        (2, True),
    ]
    module.weight.grad = None
    with torch.no_grad():
        compiled(torch.randn(2, 3))
    assert [i.is_parameter for i in daemon.graph("inference").inputs].count(True) == 2


def test_arguments_are_complete_and_typed(daemon):
    graph = check(daemon, lambda x: torch.add(x, 2).sum(1), torch.randn(2, 3))
    add, total = graph.nodes
    assert (add.op, add.overload) == ("aten::add", "Tensor")
    kinds = [a.WhichOneof("kind") for a in total.args]
    assert (total.op, total.overload, kinds) == (
        "aten::sum",
        "dim_IntList",
        ["value", "list", "boolean", "none"],
    )
    assert "test_client_export.py:" in add.source
    assert "torch.add(x, 2).sum(1)" in add.line
    # It is said once.
    assert (total.source, total.line) == (add.source, "")


def test_a_layer_is_of_the_line_that_calls_it(daemon):
    layer = torch.nn.LayerNorm(4)

    def model(x):
        y = x * 2
        return layer(y)

    graph = check(daemon, model, torch.randn(2, 4))
    assert [node.line for node in graph.nodes] == ["y = x * 2", "return layer(y)"]
    assert all(node.source.endswith(" in model") for node in graph.nodes)


def test_constants_are_deduplicated(daemon):
    graph = check(
        daemon, lambda x: x * torch.tensor([3.0, 4.0]) + torch.tensor([3.0, 4.0]), torch.randn(2)
    )
    assert len(graph.constants) == 1
    assert graph.constants[0].data == b"\x00\x00@@\x00\x00\x80@"


def test_large_constants_become_inputs(daemon):
    from tensord.wire.export import export

    module = torch.fx.symbolic_trace(_WithTable())
    table = module.table
    fake = torch._subclasses.FakeTensorMode()
    for node in module.graph.nodes:
        value = fake.from_tensor(table)
        node.meta["val"] = [value] if node.op == "output" else value
    for node in module.graph.nodes:
        if node.op == "call_function":
            node.target = torch.ops.aten.add.Tensor
        if node.op == "output":
            node.args = ([node.args[0]],)
    exported = export(module)
    assert exported.extra[0] is table
    assert len(exported.graph.inputs) == 2 and not exported.graph.constants
    x = torch.ones(20000)
    torch.testing.assert_close(interpreter.run(exported.graph, [x, table])[0], x + table)


class _WithTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(20000.0))

    def forward(self, x):
        return x + self.table


def test_the_daemons_operators_stay_whole(daemon):
    def f(x):
        return torch.addcmul(x, x, x, value=2.0)

    daemon.operators = ("aten::addcmul",)
    assert [n.op for n in check(daemon, f, torch.randn(2, 3)).nodes] == ["aten::addcmul"]
    daemon.operators = ("aten::add.Tensor",)
    rpc.client().forget()
    torch._dynamo.reset()
    assert "aten::addcmul" not in [n.op for n in check(daemon, f, torch.randn(2, 3)).nodes]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)),
        lambda x: (torch.view_as_complex(x * 2).conj(), x + 1),
    ],
)
def test_what_has_no_form_is_a_call_back_that_says_why(daemon, function):
    x = torch.randn(3, 2)
    torch.testing.assert_close(torch.compile(function, backend="tensord")(x), function(x))
    stats = tensord.stats()
    assert stats["call_backs"] == 1 and stats["fallbacks"] == 0
    assert all("has no form on the wire" in reason for reason in stats["call_back_reasons"])


PROGRAM = """
import sys
import torch, torch.nn as nn, torch.nn.functional as F
sys.path.insert(0, {here!r})
from fake_daemon import FakeBridge, FakeDaemon
import interpreter, os
import tensord
fake = FakeDaemon({socket!r})
os.environ["TENSORD_ADDRESS"] = "unix:" + {socket!r}
os.environ["TENSORD_STRICT"] = "1"
bridge = FakeBridge(fake)
sys.modules["tensord.bridge.runtime"] = bridge

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.{field} = nn.Linear(6, 4)
        self.{field}_norm = nn.LayerNorm(4)
    def forward(self, {argument}):
        h = F.dropout(self.{field}({argument}), 0.3)
        return self.{field}_norm(h).softmax(-1) * {argument}.shape[0] + torch.tensor([1., 2, 3, 4])

torch.manual_seed(0)
model = torch.compile({name}(), backend="tensord", dynamic=True)
model(torch.randn(5, 6, requires_grad=True)).sum().backward()
# Both are sent before either is waited for, and come in any order.
requests = sorted(fake.requests, key=lambda r: r.label, reverse=True)
print([r.label for r in requests])
for r in requests:
    print(interpreter.canonical(r.graph).hex())
"""


def test_two_processes_give_the_same_bytes(clean: Path):
    here = str(Path(__file__).parent)
    names = [("Alpha", "zeta", "x", "1"), ("Zulu", "aaa", "other_input", "4711")]
    outputs = []
    for index, (name, field, argument, seed) in enumerate(names):
        program = PROGRAM.format(
            here=here, socket=str(clean / f"p{index}"), name=name, field=field, argument=argument
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert "['forward', 'backward']" in outputs[0]
    assert outputs[0] == outputs[1]


def test_symbols_are_ordered_without_names():
    import sympy
    from tensord.wire.symbols import Symbols

    def bytes_of(names):
        a, b = (sympy.Symbol(n, integer=True, positive=True) for n in names)
        symbols = Symbols(None)
        symbols._numbers = {a: 0, b: 1}
        return symbols._convert(a * b + 3 * b + 5).SerializeToString(deterministic=True)

    assert bytes_of(["s0", "s1"]) == bytes_of(["z9", "a1"])
    assert graph_pb2.SymExpr.FromString(bytes_of(["s0", "s1"])).op.kind == graph_pb2.SymOp.ADD
