# SPDX-License-Identifier: Apache-2.0
"""Programs of which a later process has another version: what changes, and nothing else.

Each is a module's text after PREAMBLE in which `old` becomes `new`. Its `case(compile)` is run by
frame_runner.py.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

PREAMBLE = """
import contextlib
import copy
import dataclasses
import enum
import functools
import os
import types
from collections import OrderedDict, namedtuple

import torch
from torch import nn


def x(*sizes, seed=0):
    return torch.randn(sizes or (6,), generator=torch.Generator().manual_seed(seed))


def made(kind, *sizes, **told):
    torch.manual_seed(1)
    return kind(*sizes, **told)
"""


@dataclass(frozen=True)
class Program:
    """old, new: in the text. same_numbers: the change is not seen in eager's numbers."""

    text: str
    old: str
    new: str
    same_numbers: bool = False

    def version(self, changed: bool) -> str:
        body = textwrap.dedent(self.text)
        assert self.old in body, self.old
        return PREAMBLE + (body.replace(self.old, self.new) if changed else body)


def function(body: str, more: str = "") -> str:
    """A program whose compiled function is f of one tensor."""
    return f"{more}\n\ndef f(t):\n    {body}\n\ndef case(compile):\n    return compile(f)(x())\n"


def network(body: str, setup: str = "", use: str = "return compile(m)(x(2, 4))") -> str:
    """A program that compiles a module M made by `made`; setup: what is done to it."""
    return (
        "class Base(nn.Module):\n    factor = 2.0\n\n"
        "    def scale(self, t):\n        return t * self.factor\n\n"
        "class M(Base):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = nn.Linear(4, 4)\n        self.b = nn.Linear(4, 4)\n"
        f"        self.flag = True\n\n{textwrap.indent(body, '    ')}\n\n"
        f"def case(compile):\n    m = made(M)\n    {setup or 'pass'}\n    {use}\n"
    )


_FORWARD = "def forward(self, t):\n    return self.b(self.a(t).relu())\n"
_SCALED = "def forward(self, t):\n    return self.scale(self.a(t))\n"
_TWICE = "def doubled(g):\n    def call(t):\n        return g(t) * 2\n    return call\n\n@doubled\n"

FUNCTIONS: dict[str, Program] = {
    "body": Program(function("return t.sin() * 2"), "* 2", "* 3"),
    "operator": Program(function("return t.sin() * 2"), "sin", "cos"),
    "dtype_in_body": Program(function("return t.to(torch.float64) * 2"), "float64", "float16"),
    "helper": Program(function("return h(t) * 2", "def h(t):\n    return t + 1"), "t + 1", "t + 5"),
    "helper_of_helper": Program(
        function("return g(t)", "def h(t):\n    return t + 1\n\ndef g(t):\n    return h(t) * 2"),
        "t + 1", "t - 1"),
    "default": Program(
        function("return h(t)", "def h(t, n=2):\n    return t * n"), "n=2", "n=3"),
    "own_default": Program(
        "def f(t, n=2.0):\n    return t * n\n\ndef case(compile):\n    return compile(f)(x())\n",
        "n=2.0", "n=3.0"),
    "keyword_default": Program(
        function("return h(t)", "def h(t, *, n=2):\n    return t * n"), "n=2", "n=3"),
    "own_keyword_default": Program(
        "def f(t, *, n=2):\n    return t * n\n\ndef case(compile):\n    return compile(f)(x())\n",
        "n=2", "n=3"),
    "global_number": Program(function("return t * N", "N = 2"), "N = 2", "N = 4"),
    "global_float": Program(function("return t * N", "N = 0.5"), "N = 0.5", "N = 0.25"),
    "global_text": Program(
        function("return t.sin() if KIND == 'sine' else t.cos()", "KIND = 'sine'"),
        "KIND = 'sine'", "KIND = 'cosine'"),
    "global_tuple": Program(function("return t * N[1]", "N = (1, 2)"), "(1, 2)", "(1, 3)"),
    "global_list": Program(function("return t * N[1]", "N = [1, 2]"), "[1, 2]", "[1, 3]"),
    "global_list_length": Program(function("return t * len(N)", "N = [1, 2]"), "[1, 2]", "[1]"),
    "global_dictionary": Program(
        function("return t * D['a']", "D = {'a': 2, 'b': 3}"), "'a': 2", "'a': 5"),
    "dictionary_order": Program(
        function("return sum(t ** i * n for i, n in enumerate(D.values()))",
                  "D = {'a': 2.0, 'b': 3.0}"), "'a': 2.0, 'b': 3.0", "'b': 3.0, 'a': 2.0"),
    "dictionary_key": Program(
        function("return t * (2 if 'a' in D else 3)", "D = {'a': 2}"), "{'a'", "{'b'"),
    "global_set": Program(
        function("return t * (2 if 3 in S else 5)", "S = {1, 3}"), "{1, 3}", "{1, 4}"),
    "global_none": Program(
        function("return t if N is None else t * 2", "N = None"), "N = None", "N = 1"),
    "global_tensor": Program(
        function("return t * W", "W = torch.ones(6)"), "torch.ones(6)", "torch.ones(6) * 2"),
    "global_tensor_shape": Program(
        function("return t * W", "W = torch.ones(6)"), "torch.ones(6)", "torch.ones(3, 1)"),
    "global_flag": Program(function("return t * (2 if FLAG else 3)", "FLAG = True"),
                           "FLAG = True", "FLAG = False"),
    "global_function": Program(
        function("return ACT(t)", "ACT = torch.sin"), "torch.sin", "torch.tanh"),
    "global_lambda": Program(
        function("return ACT(t)", "ACT = lambda t: t * 2"), "t * 2", "t * 3"),
    "lambda": Program(
        "def case(compile):\n    return compile(lambda t: t * 2 + 1)(x())\n", "* 2", "* 3"),
    "nested_function": Program(
        "def f(t):\n    def inner(u):\n        return u * 2\n    return inner(t) + inner(t + 1)\n\n"
        "def case(compile):\n    return compile(f)(x())\n", "u * 2", "u * 3"),
    "closure_number": Program(
        "def make(n):\n    def f(t):\n        return t * n\n    return f\n\n"
        "def case(compile):\n    return compile(make(2))(x())\n", "make(2)", "make(3)"),
    "closure_function": Program(
        "def one(t):\n    return t + 1\n\ndef two(t):\n    return t + 2\n\n"
        "def make(g):\n    def f(t):\n        return g(t) * 2\n    return f\n\n"
        "def case(compile):\n    return compile(make(one))(x())\n", "make(one)", "make(two)"),
    "closure_tensor": Program(
        "def make(w):\n    def f(t):\n        return t * w\n    return f\n\n"
        "def case(compile):\n    return compile(make(torch.ones(6)))(x())\n",
        "torch.ones(6)", "torch.ones(6, dtype=torch.float64)"),
    "decorated": Program(function("return g(t)", _TWICE + "def g(t):\n    return t + 1"),
                         "t + 1", "t + 2"),
    "decorator": Program(function("return g(t)", _TWICE + "def g(t):\n    return t + 1"),
                         "g(t) * 2", "g(t) * 5"),
    "decorated_itself": Program(
        _TWICE + "def f(t):\n    return t + 1\n\ndef case(compile):\n    return compile(f)(x())\n",
        "t + 1", "t + 2"),
    "partial": Program(
        function("return P(t)", "def h(t, n):\n    return t * n\n\nP = functools.partial(h, n=2)"),
        "n=2", "n=3"),
    "partial_position": Program(
        function("return P(t)", "def h(n, t):\n    return t * n\n\nP = functools.partial(h, 2)"),
        "(h, 2)", "(h, 3)"),
    "named_tuple": Program(
        function("return t * O.n", "Opt = namedtuple('Opt', 'n m')\nO = Opt(2, 3)"),
        "Opt(2, 3)", "Opt(4, 3)"),
    "named_tuple_as_result": Program(
        "P = namedtuple('P', 'a b')\n\ndef f(t):\n    return P(t * 2, t + 1)\n\n"
        "def case(compile):\n    return compile(f)(x()).a\n",
        "'a b'", "'b a'"),
    "data_class_default": Program(
        function("return t * O.n",
                  "@dataclasses.dataclass\nclass Opt:\n    n: float = 2.0\n\nO = Opt()"),
        "= 2.0", "= 4.0"),
    "data_class_field": Program(
        function("return t * O.n",
                  "@dataclasses.dataclass\nclass Opt:\n    n: float\n\nO = Opt(2.0)"),
        "Opt(2.0)", "Opt(3.0)"),
    "enumeration": Program(
        function("return t * (2 if K is Kind.A else 3)",
                  "class Kind(enum.Enum):\n    A = 1\n    B = 2\n\nK = Kind.A"),
        "K = Kind.A", "K = Kind.B"),
    "enumeration_value": Program(
        function("return t * Kind.A.value", "class Kind(enum.Enum):\n    A = 2\n    B = 5"),
        "A = 2", "A = 3"),
    "config_flag": Program(
        function("return t * 2 if CONFIG.flag else t * 3",
                  "CONFIG = types.SimpleNamespace(flag=True)"), "flag=True", "flag=False"),
    "environment_at_import": Program(
        function("return t * N", "os.environ['N_OF_TEST'] = '2'\nN = int(os.environ['N_OF_TEST'])"),
        "= '2'", "= '7'"),
    "monkeypatched": Program(
        function("return h(t)", "def h(t):\n    return t + 1\n\ndef other(t):\n    return t - 1\n\n"
                  "h = h"), "h = h", "h = other"),
    "patched_in_torch": Program(
        function("return nn.functional.gelu(t)", "old = nn.functional.gelu")
        .replace("return compile(f)(x())", "with patched():\n        return compile(f)(x())")
        + "\n\n@contextlib.contextmanager\ndef patched():\n    before = nn.functional.gelu\n"
        "    nn.functional.gelu = before\n    try:\n        yield\n    finally:\n"
        "        nn.functional.gelu = before\n",
        "gelu = before\n    try", "gelu = nn.functional.silu\n    try"),
    "number_of_arguments": Program(
        "def f(*ts):\n    return sum(ts)\n\ndef case(compile):\n    return compile(f)(x(), x())\n",
        "(x(), x())", "(x(), x(), x())"),
    "type_of_argument": Program(
        "def f(t, n):\n    return t * n\n\ndef case(compile):\n    return compile(f)(x(), 2)\n",
        "(x(), 2)", "(x(), 2.5)"),
    "tensor_for_none": Program(
        "def f(t, m):\n    return t if m is None else t * m\n\n"
        "def case(compile):\n    return compile(f)(x(), None)\n", "None)", "x(seed=3))"),
    "keyword_given": Program(
        "def f(t, **more):\n    return t * len(more)\n\n"
        "def case(compile):\n    return compile(f)(x(), a=1)\n", "a=1)", "a=1, b=2)"),
    "same_tensor_twice": Program(
        "def f(t, u):\n    t.add_(1)\n    return u * 2\n\n"
        "def case(compile):\n    t = x()\n    return compile(f)(t, x()), t\n",
        "(t, x())", "(t, t)"),
    "argument_shape": Program(
        function("return t.sum(0) * t.shape[0]"), "(x())", "(x(3, 2))"),
    "argument_dtype": Program(function("return t * 2"), "(x())", "(x().double())"),
    "argument_stride": Program(
        function("return t.reshape(-1) * t.stride(0)").replace("(x())", "(x(2, 3))"),
        "(x(2, 3))", "(x(3, 2).t())"),
    "argument_requires_grad": Program(
        function("return t * 2"), "(x())", "(x().requires_grad_())"),
    "argument_is_parameter": Program(
        function("return t * 2 if isinstance(t, nn.Parameter) else t * 3"),
        "(x())", "(nn.Parameter(x()).data)", same_numbers=True),
    "grad_mode": Program(
        function("return t * 2").replace("(x())", "(x().requires_grad_())").replace(
            "    return compile", "    with torch.enable_grad():\n        return compile"),
        "enable_grad", "no_grad"),
    "grad_mode_asked": Program(
        function("return t * 2 if torch.is_grad_enabled() else t * 3").replace(
            "    return compile", "    with torch.enable_grad():\n        return compile"),
        "enable_grad", "no_grad"),
    "autocast": Program(
        function("return t @ t").replace("(x())", "(x(4, 4))").replace(
            "    return compile",
            "    with torch.autocast('cpu', torch.bfloat16, enabled=False):\n"
            "        return compile"),
        "enabled=False", "enabled=True"),
    "autocast_dtype": Program(
        function("return t @ t").replace("(x())", "(x(4, 4))").replace(
            "    return compile",
            "    with torch.autocast('cpu', torch.bfloat16):\n        return compile"),
        "bfloat16", "float16"),
    "default_dtype": Program(
        function("return t + torch.ones(6)").replace(
            "    return compile(f)(x())",
            "    torch.set_default_dtype(torch.float32)\n    try:\n"
            "        return compile(f)(x().float())\n"
            "    finally:\n        torch.set_default_dtype(torch.float32)"),
        "(torch.float32)\n    try", "(torch.float64)\n    try"),
    "threads": Program(
        function("return t * torch.get_num_threads()").replace(
            "    return compile(f)(x())",
            "    before = torch.get_num_threads()\n    torch.set_num_threads(1)\n    try:\n"
            "        return compile(f)(x())\n    finally:\n        torch.set_num_threads(before)"),
        "num_threads(1)", "num_threads(2)"),
    "deterministic": Program(
        function("return t * (2 if torch.are_deterministic_algorithms_enabled() else 3)").replace(
            "    return compile(f)(x())",
            "    torch.use_deterministic_algorithms(False)\n    try:\n"
            "        return compile(f)(x())\n"
            "    finally:\n        torch.use_deterministic_algorithms(False)"),
        "(False)\n    try", "(True)\n    try"),
    "inference_mode": Program(
        function("return t * (2 if torch.is_inference_mode_enabled() else 3)").replace(
            "    return compile(f)(x())",
            "    with torch.inference_mode(False):\n        r = compile(f)(x())\n"
            "    return r.clone()"),
        "mode(False)", "mode(True)"),
    "device_constant": Program(
        function("return t + torch.ones(6, device=DEVICE).sum()", "DEVICE = 'cpu'")
        .replace(".sum()", ".shape[0]"), "'cpu'", "'meta'", same_numbers=True),
    "wrapped_by_cache": Program(
        function("return t * h(3)", "@functools.lru_cache\ndef h(n):\n    return n + 1"),
        "n + 1", "n + 2"),
}  # fmt: skip

CLASSES: dict[str, Program] = {
    "class_attribute": Program(network(_SCALED), "factor = 2.0", "factor = 3.0"),
    "own_attribute": Program(network(_SCALED), "pass\n    return", "m.factor = 5.0\n    return"),
    "overriding_method": Program(
        network(_SCALED + "\ndef other(self, t):\n    return t * 7\n"), "def other", "def scale"),
    "inherited_method": Program(network(_SCALED), "t * self.factor", "t - self.factor"),
    "forward": Program(network(_FORWARD), "relu", "tanh"),
    "module_attribute": Program(
        network("def forward(self, t):\n    return self.a(t) if self.flag else self.b(t)\n"),
        "self.flag = True", "self.flag = False"),
    "property": Program(
        network("@property\ndef p(self):\n    return 2\n\n"
                 "def forward(self, t):\n    return self.a(t) * self.p\n"), "return 2", "return 3"),
    "static_method": Program(
        network("@staticmethod\ndef s(t):\n    return t * 2\n\n"
                 "def forward(self, t):\n    return self.s(self.a(t))\n"), "t * 2", "t * 3"),
    "class_method": Program(
        network("@classmethod\ndef s(cls, t):\n    return t * 2\n\n"
                 "def forward(self, t):\n    return self.s(self.a(t))\n"), "t * 2", "t * 3"),
    "getattr": Program(
        "class O:\n    def __getattr__(self, name):\n        return 2.0\n\nOF = O()\n\n"
        + function("return t * OF.n"), "return 2.0", "return 3.0"),
    "call_method": Program(
        "class O:\n    def __call__(self, t):\n        return t * 2\n\nOF = O()\n\n"
        + function("return OF(t)"), "t * 2", "t * 3"),
    "length_method": Program(
        "class O:\n    def __len__(self):\n        return 2\n\nOF = O()\n\n"
        + function("return t * len(OF)"), "return 2", "return 3"),
    "operator_method": Program(
        "class O:\n    def __add__(self, t):\n        return t * 2\n\nOF = O()\n\n"
        + function("return OF + t"), "t * 2", "t * 3"),
    "bound_method": Program(
        "class O:\n    n = 2\n\n    def g(self, t):\n        return t * self.n\n\n"
        "def case(compile):\n    return compile(O().g)(x())\n", "n = 2", "n = 3"),
    "instance_of": Program(
        "class A:\n    pass\n\nclass B:\n    pass\n\nOF = B()\n\n"
        + function("return t * (2 if isinstance(OF, A) else 3)"), "class B:", "class B(A):"),
    "other_class": Program(
        "class A:\n    n = 2\n\nclass B:\n    n = 3\n\nOF = A()\n\n" + function("return t * OF.n"),
        "OF = A()", "OF = B()"),
    "slots": Program(
        "class A:\n    __slots__ = ('n',)\n\n    def __init__(self):\n        self.n = 2\n\n"
        "OF = A()\n\n" + function("return t * OF.n"), "self.n = 2", "self.n = 3"),
    "training": Program(
        network("def forward(self, t):\n    return self.a(t) * (2 if self.training else 3)\n"),
        "pass\n    return", "m.eval()\n    return"),
    "batch_norm_in_evaluation": Program(
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.n = nn.BatchNorm1d(4)\n\n    def forward(self, t):\n        return self.n(t)"
        "\n\ndef case(compile):\n    m = M()\n    m.train()\n    return compile(m)(x(5, 4) * 3)\n",
        "m.train()", "m.eval()"),
    "module_replaced": Program(
        network(_FORWARD), "pass\n    return", "m.b = made(nn.Linear, 4, 7)\n    return"),
    "module_of_other_class": Program(
        network(_FORWARD), "pass\n    return", "m.b = nn.Softmax(-1)\n    return"),
    "module_added": Program(
        network("def forward(self, t):\n    for m in self.children():\n        t = m(t)\n"
                 "    return t\n"), "pass\n    return", "m.c = nn.Tanh()\n    return"),
    "module_removed": Program(
        network("def forward(self, t):\n    for m in self.children():\n        t = m(t)\n"
                 "    return t\n"), "pass\n    return", "del m.b\n    return"),
    "modules_order": Program(
        network("def forward(self, t):\n    for m in self.children():\n        t = m(t)\n"
                 "    return t\n"), "pass\n    return",
        "m._modules = dict(reversed(m._modules.items()))\n    return"),
    "list_of_modules": Program(
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.ms = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))\n\n"
        "    def forward(self, t):\n        for m in self.ms:\n            t = m(t)\n"
        "        return t\n\ndef case(compile):\n    return compile(made(M))(x(2, 4))\n",
        "range(2)", "range(3)"),
    "parameter_dtype": Program(
        network("def forward(self, t):\n    return self.a(t.to(self.a.weight.dtype))\n"),
        "pass\n    return", "m.double()\n    return"),
    "parameter_shape": Program(
        network("def forward(self, t):\n    return self.a(t).sum(-1)\n"), "pass\n    return",
        "m.a = made(nn.Linear, 4, 9)\n    return"),
    "parameter_stride": Program(
        network("def forward(self, t):\n    return self.a(t) * self.a.weight.stride(0)\n"),
        "pass\n    return", "m.a.weight = nn.Parameter(m.a.weight.detach().t().contiguous().t())\n"
        "    return"),
    "parameter_requires_grad": Program(
        network(_FORWARD), "pass\n    return", "m.requires_grad_(False)\n    return"),
    "one_parameter_frozen": Program(
        network(_FORWARD, use="compile(m)(x(2, 4)).sum().backward()\n"
                 "    return [p.grad for p in m.parameters()]"),
        "pass\n    compile", "m.b.bias.requires_grad_(False)\n    compile"),
    "parameter_removed": Program(
        network(_FORWARD), "pass\n    return", "m.b.bias = None\n    return"),
    "tied_weights": Program(
        network(_FORWARD, use="compile(m)(x(2, 4)).sum().backward()\n"
                 "    return [p.grad for p in m.parameters()]"),
        "pass\n    compile", "m.b.weight = m.a.weight\n    compile"),
    "buffer_added": Program(
        network("def forward(self, t):\n    return self.a(t) + sum(b.sum() for b in self.buffers())"
                 "\n"), "pass\n    return", "m.register_buffer('n', torch.ones(2))\n    return"),
    "forward_hook": Program(
        network(_FORWARD), "pass\n    return",
        "m.a.register_forward_hook(lambda m, i, o: o * 2)\n    return"),
    "forward_pre_hook": Program(
        network(_FORWARD), "pass\n    return",
        "m.b.register_forward_pre_hook(lambda m, i: (i[0] * 2,))\n    return"),
    "hook_of_the_module_itself": Program(
        network(_FORWARD), "pass\n    return",
        "m.register_forward_hook(lambda m, i, o: o * 2)\n    return"),
    "hook_of_all_modules": Program(
        network(_FORWARD, use="h = nn.modules.module.register_module_forward_hook(hook)\n"
                 "    try:\n        return compile(m)(x(2, 4))\n    finally:\n        h.remove()")
        + "\n\ndef hook(m, i, o):\n    return None\n", "return None", "return o * 2"),
    "forward_of_an_instance": Program(
        network(_FORWARD), "pass\n    return", "m.a.forward = lambda t: t * 3\n    return"),
    "method_patched_in_class": Program(
        network(_FORWARD, "before = nn.Linear.forward", "try:\n        return compile(m)(x(2, 4))\n"
                 "    finally:\n        nn.Linear.forward = before"),
        "forward\n    try", "forward\n    nn.Linear.forward = lambda s, t: t * 3\n    try"),
    "config_of_module": Program(
        network("def forward(self, t):\n    return self.a(t) * self.config.n\n",
                 "m.config = types.SimpleNamespace(n=2)"), "n=2", "n=3"),
    "dictionary_of_module": Program(
        network("def forward(self, t):\n    return self.a(t) * self.config['n']\n",
                 "m.config = {'n': 2}"), "'n': 2", "'n': 3"),
    "sequential_length": Program(
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.s = nn.Sequential(nn.ReLU())\n\n    def forward(self, t):\n"
        "        return self.s(t)\n\ndef case(compile):\n    return compile(M())(x())\n",
        "nn.ReLU())", "nn.ReLU(), nn.Tanh())"),
    "dropout_probability": Program(
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.d = nn.Dropout(1.0)\n\n    def forward(self, t):\n        return self.d(t)\n"
        "\ndef case(compile):\n    return compile(M())(x())\n", "(1.0)", "(0.0)"),
    "epsilon_of_norm": Program(
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.n = nn.LayerNorm(6, eps=1e-5)\n\n    def forward(self, t):\n"
        "        return self.n(t)\n\ndef case(compile):\n    return compile(M())(x())\n",
        "eps=1e-5", "eps=0.5"),
    "activation_of_instance": Program(
        network("def forward(self, t):\n    return self.act(self.a(t))\n",
                 "m.act = torch.relu"), "torch.relu", "torch.tanh"),
}  # fmt: skip

PROGRAMS = {**FUNCTIONS, **CLASSES}
