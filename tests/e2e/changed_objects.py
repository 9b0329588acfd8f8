# SPDX-License-Identifier: Apache-2.0
"""More programs that change between processes (changed_programs.py): what classes and objects of
Python do by their special methods, and what a capture may read without saying so."""

from __future__ import annotations

from changed_programs import Program, function, network


def _object(methods: str, use: str, change: tuple[str, str], make: str = "OF = O()") -> Program:
    """Of a class O with such methods, of whose instance OF the compiled function makes such use."""
    body = "".join(f"    {line}\n" if line else "\n" for line in methods.splitlines())
    return Program(f"class O:\n{body}\n{make}\n\n" + function(use), *change)


def _global(value: str, other: str, use: str, more: str = "") -> Program:
    """Of a global N."""
    return Program(
        function(f"return {use}", f"{more}\nN = {value}"), f"N = {value}", f"N = {other}"
    )


PROGRAMS: dict[str, Program] = {
    "bool_method": _object("def __bool__(self):\n    return True",
                           "return t * (2 if OF else 3)", ("True", "False")),
    "iter_method": _object("def __iter__(self):\n    return iter((1, 2))",
                           "return sum(t * i for i in OF)", ("(1, 2)", "(1, 5)")),
    "contains_method": _object("def __contains__(self, n):\n    return n < 3",
                               "return t * (2 if 2 in OF else 3)", ("n < 3", "n > 3")),
    "getitem_method": _object("def __getitem__(self, n):\n    return n + 1",
                              "return t * OF[1]", ("n + 1", "n + 2")),
    "eq_method": _object("def __eq__(self, n):\n    return True",
                         "return t * (2 if OF == 1 else 3)", ("True", "False")),
    "enter_method": _object("def __enter__(self):\n    return 2\n\n"
                            "def __exit__(self, *error):\n    return None",
                            "with OF as n:\n        t = t * n\n    return t",
                            ("return 2", "return 4")),
    "init_method": _object("def __init__(self, n):\n    self.n = n + 1",
                           "return t * O(2).n", ("n + 1", "n + 3"), make=""),
    "new_method": _object("def __new__(cls):\n    one = super().__new__(cls)\n    one.n = 2\n"
                          "    return one", "return t * OF.n", ("one.n = 2", "one.n = 3")),
    "descriptor": Program(
        "class D:\n    def __get__(self, one, cls):\n        return 2\n\nclass O:\n    n = D()\n\n"
        "OF = O()\n\n" + function("return t * OF.n"), "return 2", "return 3"),
    "metaclass": Program(
        "class Meta(type):\n    @property\n    def n(cls):\n        return 2\n\n"
        "class O(metaclass=Meta):\n    pass\n\n" + function("return t * O.n"),
        "return 2", "return 3"),
    "super_method": Program(
        "class A:\n    def g(self, t):\n        return t * 2\n\nclass B(A):\n"
        "    def g(self, t):\n        return super().g(t) + 1\n\nOF = B()\n\n"
        + function("return OF.g(t)"), "t * 2", "t * 3"),
    "order_of_bases": Program(
        "class A:\n    n = 2\n\nclass B:\n    n = 3\n\nclass C(A, B):\n    pass\n\nOF = C()\n\n"
        + function("return t * OF.n"), "C(A, B)", "C(B, A)"),
    "other_name_of_class": Program(
        "class O:\n    pass\n\nOF = O()\n\n" + function("return t * len(type(OF).__name__)"),
        "class O:\n    pass\n\nOF = O()", "class Other:\n    pass\n\nOF = Other()"),
    "registered_subclass": Program(
        "import abc\n\nclass A(abc.ABC):\n    pass\n\nclass B:\n    pass\n\nOF = B()\nDONE = 1\n\n"
        + function("return t * (2 if isinstance(OF, A) else 3)"), "DONE = 1", "A.register(B)"),
    "attribute_of_function": Program(
        function("return t * h.n", "def h(t):\n    return t\n\nh.n = 2"), "h.n = 2", "h.n = 3"),
    "mutable_default": Program(
        function("return h(t)", "def h(t, n=[2]):\n    return t * n[0]"), "[2]", "[3]"),
    "closure_of_closure": Program(
        function("return g(t)", "def make(n):\n    def a():\n        def b(t):\n"
                 "            return t * n\n        return b\n    return a()\n\ng = make(2)"),
        "make(2)", "make(3)"),
    "attribute_getter": _global("operator.attrgetter('real')", "operator.attrgetter('imag')",
                                "N(t.to(torch.complex64))", "import operator"),
    "item_getter": _global("operator.itemgetter(0)", "operator.itemgetter(1)", "N((t, t * 2))",
                           "import operator"),
    "dispatch": Program(
        function("return h(3, t)", "@functools.singledispatch\ndef h(n, t):\n    return t * 2\n\n"
                 "@h.register\ndef _(n: float, t):\n    return t * 3"), "n: float", "n: int"),
    "builtin_shadowed": Program(
        function("return t * len((1, 2))", "SIZE = 1"), "SIZE = 1", "def len(o):\n    return 7"),
    "builtin_of_helper_shadowed": Program(
        function("return h(t)", "def h(t):\n    return t * max(1, 2)\n\nSIZE = 1"),
        "SIZE = 1", "def max(a, b):\n    return 9"),
    "negative_zero": _global("0.0", "-0.0", "torch.ones(6) / (t * 0 + N)"),
    "negative_zero_that_is_a_constant": _global("0.0", "-0.0",
                                                "torch.full((6,), N).signbit() * t"),
    "true_for_one": _global("1", "True", "torch.full((6,), N)"),
    "one_as_a_real": _global("1", "1.0", "torch.full((6,), N)"),
    "key_as_a_real": _global("{1: 2}", "{1.0: 2}", "sum(torch.full((6,), k) for k in N)"),
    "tuple_with_true": _global("(1, 2)", "(True, 2)", "torch.full((6,), N[0])"),
    "big_integer": _global("2**40", "2**41", "t.double() * N"),
    "complex_number": _global("2j", "3j", "t * N"),
    "data_type": _global("torch.float64", "torch.bfloat16", "t.to(N)"),
    "slice": _global("slice(0, 3)", "slice(1, 4)", "t[N]"),
    "ordered_dictionary": _global("OrderedDict(a=2.0, b=3.0)", "OrderedDict(b=3.0, a=2.0)",
                                  "sum(t ** i * n for i, n in enumerate(N.values()))"),
    "default_dictionary": _global("defaultdict(lambda: 2)", "defaultdict(lambda: 3)", "t * N['a']",
                                  "from collections import defaultdict"),
    "deque": _global("deque([1, 2])", "deque([1, 3])", "t * N[1]", "from collections import deque"),
    "number_of_numpy": _global("numpy.float64(2)", "numpy.float64(3)", "t * N", "import numpy"),
    "array_of_numpy": _global("numpy.ones(6)", "numpy.ones(6) * 2", "t * torch.as_tensor(N)",
                              "import numpy"),
    "pattern": _global("re.compile('a')", "re.compile('b')", "t * (2 if N.match('a') else 3)",
                       "import re"),
    "attribute_by_name": _global("'a'", "'b'", "t * getattr(OF, N)",
                                 "OF = types.SimpleNamespace(a=2, b=3)"),
    "nested_dictionary": _global("{'a': {'b': [2]}}", "{'a': {'b': [3]}}", "t * N['a']['b'][0]"),
    "context_variable": Program(
        function("return t * V.get()", "import contextvars\nV = contextvars.ContextVar('v')\n"
                 "V.set(2)"), "V.set(2)", "V.set(3)"),
    "environment_in_body": Program(
        function("return t * int(os.environ['N_IN_BODY'])", "os.environ['N_IN_BODY'] = '2'"),
        "= '2'", "= '3'"),
    "precision_of_products": Program(
        function("return t * (2 if torch.get_float32_matmul_precision() == 'highest' else 3)")
        .replace("    return compile(f)(x())",
                 "    torch.set_float32_matmul_precision('highest')\n    try:\n"
                 "        return compile(f)(x())\n    finally:\n"
                 "        torch.set_float32_matmul_precision('highest')"),
        "('highest')\n    try", "('medium')\n    try"),
    "package_version": Program(
        function("return t * (2 if package.__version__ < '2' else 3)",
                 "import sys\npackage = types.ModuleType('package_of_test')\n"
                 "sys.modules['package_of_test'] = package\npackage.__version__ = '1.0'"),
        "'1.0'", "'2.0'"),
    "package_global": Program(
        function("return package.h(t)",
                 "import sys\npackage = types.ModuleType('other_package')\n"
                 "sys.modules['other_package'] = package\n"
                 "exec('N = 2\\ndef h(t): return t * N', package.__dict__)"),
        "N = 2", "N = 3"),
    "operator_of_user": Program(
        "@torch.library.custom_op('tests_of_frames::op', mutates_args=())\n"
        "def op(t: torch.Tensor) -> torch.Tensor:\n    return t * 2\n\n"
        "@op.register_fake\ndef _(t):\n    return torch.empty_like(t)\n\n"
        + function("return op(t) + 1"), "t * 2", "t * 3"),
    "autograd_function_forward": Program(
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n"
        "        return t * 2\n\n    @staticmethod\n    def backward(ctx, g):\n"
        "        return g * 5\n\n" + function("return F.apply(t)"), "t * 2", "t * 3"),
    "autograd_function_backward": Program(
        "class F(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n"
        "        return t * 2\n\n    @staticmethod\n    def backward(ctx, g):\n"
        "        return g * 5\n\ndef f(t):\n    return F.apply(t)\n\ndef case(compile):\n"
        "    t = x().requires_grad_()\n    compile(f)(t).sum().backward()\n    return t.grad\n",
        "g * 5", "g * 7"),
    "tensor_attribute": Program(
        "def f(t):\n    return t * t.factor\n\ndef case(compile):\n    t = x()\n    t.factor = 2\n"
        "    return compile(f)(t)\n", "factor = 2", "factor = 3"),
    "arguments_that_overlap": Program(
        "def f(t, u):\n    t.add_(1)\n    return u * 2\n\n"
        "def case(compile):\n    t = x()\n    return compile(f)(t, x()), t\n",
        "(t, x())", "(t, t[:])"),
    "argument_in_other_memory_format": Program(
        function("return t * t.stride()[1]").replace("(x())", "(x(2, 3, 4, 5))"),
        "(x(2, 3, 4, 5))", "(x(2, 3, 4, 5).to(memory_format=torch.channels_last))"),
    "argument_conjugated": Program(
        function("return torch.view_as_real(t * 2)")
        .replace("(x())", "(x(4, 2).to(torch.complex64))"),
        ".to(torch.complex64)", ".to(torch.complex64).mul(1j).conj()"),
    "tied_modules": Program(
        network("def forward(self, t):\n    return self.b(self.a(t).relu())\n",
                use="compile(m)(x(2, 4)).sum().backward()\n"
                    "    return [p.grad for p in m.parameters()]"),
        "pass\n    compile", "m.b = m.a\n    compile"),
    "parametrized_weight": Program(
        network("def forward(self, t):\n    return self.a(t)\n")
        + "\n\nclass Twice(nn.Module):\n    def forward(self, w):\n        return w * 2\n",
        "pass\n    return", "nn.utils.parametrize.register_parametrization(m.a, 'weight', Twice())"
        "\n    return"),
    "dictionary_of_modules": Program(
        network("def forward(self, t):\n    return self.d['k'](self.a(t))\n",
                "m.d = nn.ModuleDict({'k': nn.ReLU(), 'l': nn.Tanh()})"),
        "{'k': nn.ReLU(), 'l': nn.Tanh()}", "{'l': nn.ReLU(), 'k': nn.Tanh()}"),
}  # fmt: skip
