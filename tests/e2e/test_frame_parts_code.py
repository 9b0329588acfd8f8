# SPDX-License-Identifier: Apache-2.0
"""Code objects as messages and back, and the digests that say which code it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest
from tensord.frames import code_objects, constants, digests, dynamo_stand_ins
from tensord.frames.entered import Entered
from tensord.frames.errors import UnrecordableError
from tensord.v1 import frame_pb2


def _only_function(source: str, file: str = "somewhere.py", before: int = 0) -> Any:
    """The one function that the source defines, `before` lines further down in the file."""
    scope: dict[str, Any] = {}
    exec(compile("\n" * before + source, file, "exec", dont_inherit=True), scope)
    return next(one for one in scope.values() if isinstance(one, types.FunctionType))


def _plain(a: int, b: int = 3) -> int:
    return a * 10 + b


def _keyword_only(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **named: int) -> Any:
    return a, b, rest, c, d, sorted(named.items())


def _comprehensions(n: int) -> Any:
    return (
        [i * j for i in range(n) for j in range(i) if i != j],
        {i: str(i) for i in range(n)},
        {i % 2 for i in range(n)},
        sum(i * n for i in range(n)),
    )


def _exceptions(n: int) -> Any:
    said = []
    for i in range(n):
        try:
            try:
                said.append(10 // (i - 1))
            except ZeroDivisionError as error:
                said.append(type(error).__name__)
                raise KeyError(i) from error
            else:
                said.append("else")
            finally:
                said.append("finally")
        except KeyError as error:
            said.append(error.args)
    return said


def _nested(n: int) -> Any:
    def outer(k: int) -> Callable[[int], int]:
        return lambda x, k=k: (lambda y: x * y + k + n)(2)

    return [outer(i)(i + 1) for i in range(n)]


def _generator(n: int) -> Any:
    def numbers() -> Any:
        received = yield n
        yield from (received, *range(n))

    running = numbers()
    return [next(running), running.send("sent"), *running]


def _constants(n: int) -> Any:
    return (
        None, True, False, ..., n, 1, -1, 2**100, 0.5, -0.0, 1e400, 2j, "text", "\0ä€", b"\xff\0",
        (1, (2.0, "three"), ()), n in {1, 2, "x"}, slice(1, None),
    )  # fmt: skip


def _local_class(n: int) -> Any:
    class Counter:
        start = n

        def next(self) -> int:
            return self.start + 1

    return Counter().next(), Counter.__name__


def _matched(n: int) -> Any:
    with_ = {"kind": n, "of": (1, *range(n))}
    first, *_, last = with_["of"]
    return f"{with_['kind']!r:>5}|{first}{last:03d}"


_FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (_plain, (4,), {}),
    (_keyword_only, (1, 2, 3), {"c": 5, "e": 6}),
    (_comprehensions, (4,), {}),
    (_exceptions, (3,), {}),
    (_nested, (4,), {}),
    (_generator, (3,), {}),
    (_constants, (2,), {}),
    (_local_class, (7,), {}),
    (_matched, (3,), {}),
]


def _and_back(code: types.CodeType) -> types.CodeType:
    message = frame_pb2.FrameCode.FromString(code_objects.write(code).SerializeToString())
    return code_objects.read(message, "elsewhere.py")


@pytest.mark.parametrize(
    ("function", "arguments", "named"), _FUNCTIONS, ids=lambda one: getattr(one, "__name__", "")
)
def test_what_is_read_runs_the_same(
    function: Any, arguments: tuple[Any, ...], named: dict[str, Any]
) -> None:
    again = types.FunctionType(
        _and_back(function.__code__), globals(), "again", function.__defaults__
    )
    again.__kwdefaults__ = function.__kwdefaults__
    assert repr(again(*arguments, **named)) == repr(function(*arguments, **named))


@pytest.mark.parametrize(
    "function", [one for one, _, _ in _FUNCTIONS], ids=lambda one: one.__name__
)
def test_all_but_the_file_is_kept(function: Any) -> None:
    code = function.__code__
    again = _and_back(code)
    assert again.co_filename == "elsewhere.py"
    for name in (
        "co_name",
        "co_flags",
        "co_firstlineno",
        "co_linetable",
        "co_stacksize",
        "co_code",
    ):
        assert getattr(again, name) == getattr(code, name), name
    assert digests.of_code(again) == digests.of_code(code)


def test_a_closure_is_bound_to_cells() -> None:
    def outer(scale: int) -> Any:
        offset = 100

        def inner(x: int) -> int:
            nonlocal offset
            offset += 1
            return x * scale + offset

        return inner

    inner = outer(3)
    code = _and_back(inner.__code__)
    assert code.co_freevars == inner.__code__.co_freevars
    again = types.FunctionType(code, globals(), "again", None, inner.__closure__)
    assert (again(2), inner(2), again(2)) == (107, 108, 109)


def test_a_traceback_names_the_new_file() -> None:
    def fails() -> None:
        raise ValueError("here")

    again = types.FunctionType(_and_back(fails.__code__), globals())
    with pytest.raises(ValueError, match="here") as raised:
        again()
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == ("elsewhere.py", fails.__code__.co_firstlineno + 1)


def _spoil(what: str) -> frame_pb2.FrameCode:
    message = code_objects.write(_plain.__code__)
    item = message.constants.items.add()
    if what == "no kind":
        pass
    elif what == "absent module":
        item.named.module, item.named.qualified_name = "no_such_module_at_all", "f"
    elif what == "integer":
        item.integer = "1; 2"
    elif what == "range":
        item.range.items.add().text = "0"
    elif what == "set of lists":
        item.set.items.add().list.SetInParent()
    elif what == "device":
        item.device = "abacus"
    elif what == "dictionary":
        item.dictionary.items.add().none = True
    elif what == "variables":
        item.none = True
        message.positional = 99
    elif what == "stack":
        item.none = True
        message.stack_size = 2**32 - 1
    elif what == "nested":
        item.code.CopyFrom(_spoil("integer"))
    return message


@pytest.mark.parametrize(
    "what",
    ["no kind", "absent module", "integer", "range", "set of lists", "device", "dictionary",
     "variables", "stack", "nested"],
)  # fmt: skip
def test_what_is_no_code_is_refused(what: str) -> None:
    with pytest.raises(ValueError):
        code_objects.read(_spoil(what), "elsewhere.py")


def test_a_constant_without_a_form_is_refused() -> None:
    code = _plain.__code__.replace(co_consts=(object(),))
    with pytest.raises(ValueError, match="object"):
        code_objects.write(code)
    with pytest.raises(ValueError, match="a constant of type object"):
        digests.of_code(code)


def test_a_function_that_does_nothing_is_a_constant() -> None:
    """As Dynamo's bytecode has one, without a name, from Python 3.12 on."""
    message = constants.write(lambda: None)
    assert constants.read(message) is dynamo_stand_ins.nothing
    for other in (lambda: 1, lambda x: None, lambda *, x: None, lambda *x: None):
        with pytest.raises(UnrecordableError, match="no module has a name"):
            constants.write(other)


def test_slices_are_constants() -> None:
    """As the compiler of Python 3.14 writes them."""
    one, same, other = (
        _plain.__code__.replace(co_consts=(None, slice(1, stop, "a"))) for stop in (2, 2, 2.0)
    )
    assert digests.of_code(one) == digests.of_code(same) != digests.of_code(other)
    assert digests.of_code(other) == digests.of_code(_and_back(other))
    assert _and_back(one).co_consts == (None, slice(1, 2, "a"))


def test_globals_are_renamed_in_nested_code_too() -> None:
    function = _only_function("def f():\n    return one() + [two() for _ in range(1)][0]\n")
    code = code_objects.renamed(function.__code__, {"one": "first", "two": "second"})
    scope = {"first": lambda: 1, "second": lambda: 2}
    assert types.FunctionType(code, {**globals(), **scope})() == 3


def test_integers_are_those_of_nested_code_too() -> None:
    function = _only_function("def f():\n    return 12345, lambda: 67890, True\n")
    code = function.__code__.replace(co_consts=(*function.__code__.co_consts, 12345, True))
    found = list(code_objects.integers(code))
    assert {12345, 67890} <= set(found)
    assert not any(isinstance(one, bool) for one in found)


_SOURCE = """
def function(x, y=2, *, z=3):
    def inner(v):
        return v + 1.5
    return inner(x) + y if x in {'a', 'b', 'c'} else other(z, "text", (1, 0.0))
"""

_CHANGES = {
    "a constant": ("1.5", "1.25"),
    "its type": ("(1, 0.0)", "(1.0, 0.0)"),
    "its sign": ("(1, 0.0)", "(1, -0.0)"),
    "a boolean for a number": ("(1, 0.0)", "(True, 0.0)"),
    "a text": ('"text"', '"test"'),
    "bytes for a text": ('"text"', 'b"text"'),
    "a member of a set": ("'c'", "'d'"),
    "an operator": ("v + 1.5", "v - 1.5"),
    "a global": ("other(", "others("),
    "the name of an argument": ("inner(v):\n        return v ", "inner(w):\n        return w "),
    "an argument by keyword": ("*, z", "z"),
    "an argument": ("function(x, ", "function(x, w, "),
    "the function's name": ("def function", "def functions"),
    "what is returned": ("if x", "if not x"),
}


def test_a_digest_knows_no_file_and_no_line() -> None:
    here = _only_function(_SOURCE, "a.py").__code__
    there = _only_function(_SOURCE, "/b/c.py", before=50).__code__
    assert here is not there and here.co_firstlineno != there.co_firstlineno
    assert digests.of_code(here) == digests.of_code(there)
    assert len(digests.of_code(here)) == 32


@pytest.mark.parametrize("change", _CHANGES)
def test_a_digest_knows_every_change(change: str) -> None:
    old, new = _CHANGES[change]
    assert old in _SOURCE
    before = _only_function(_SOURCE).__code__
    after = _only_function(_SOURCE.replace(old, new)).__code__
    assert digests.of_code(before) != digests.of_code(after)


def test_a_digest_is_that_of_another_process(tmp_path: Any) -> None:
    script = tmp_path / "other.py"
    script.write_text(
        "import sys\nsource = sys.stdin.read()\nscope = {}\n"
        "exec(compile(source, 'other.py', 'exec'), scope)\n"
        "from tensord.frames import digests\n"
        "print(digests.of_code(scope['function'].__code__).hex())\n"
    )
    client = os.path.dirname(os.path.dirname(sys.modules["tensord"].__file__ or ""))
    for seed in ("1", "2"):  # of hashes of texts, by which sets are ordered
        done = subprocess.run(
            [sys.executable, str(script)], input=_SOURCE, text=True, stdout=subprocess.PIPE,
            check=True, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": client},
        )  # fmt: skip
        assert done.stdout.strip() == digests.of_code(_only_function(_SOURCE).__code__).hex()


def _decorated(function: Any) -> Any:
    def wrapper(x: int) -> Any:
        return function(x)

    return wrapper


def _of_entered(function: Any) -> bytes:
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = {name: cell.cell_contents for name, cell in held.items()}
    return Entered(function.__code__, function.__globals__, {"x": 1, **cells}).digest


def test_what_a_decorator_returns_is_known_by_what_it_decorates() -> None:
    one, same, other = (_decorated(_only_function(s, f)) for s, f in (
        ("def f(x): return x + 1", "a.py"), ("def f(x): return x + 1", "b.py"),
        ("def f(x): return x + 2", "a.py"),
    ))  # fmt: skip
    assert one.__code__ is other.__code__
    assert _of_entered(one) == _of_entered(same) != _of_entered(other)
    assert _of_entered(_plain) == digests.of_code(_plain.__code__)


def test_other_values_in_a_closure_are_no_part_of_the_digest() -> None:
    one, other = _decorated(3), _decorated([4])
    assert _of_entered(one) == _of_entered(other) == digests.of_code(one.__code__)


def test_an_identity_has_module_and_qualified_name() -> None:
    identity = digests.identity(_plain.__code__, "some.module")
    assert (identity.module, identity.qualified_name) == ("some.module", "_plain")
    assert identity.digest == digests.of_code(_plain.__code__)


OTHER_OPERATION = (
    "instruction: BINARY_OP - instead of BINARY_OP +"
    if sys.version_info >= (3, 11)
    else "instruction: BINARY_SUBTRACT instead of BINARY_ADD"
)


@pytest.mark.parametrize(
    ("source", "difference"),
    [
        ("def f(x): return x + 1", ""),
        ("def f(y): return y + 1", "variable 0: y instead of x"),
        ("def f(x): return x - 1", OTHER_OPERATION),
        ("def g(x): return x + 1", "name: g instead of f"),
        ("def f(x): return x + len(x)", "name 0: len instead of None"),
    ],
)
def test_two_codes_differ_first_in(source: str, difference: str) -> None:
    one, other = (
        code_objects.write(_only_function(text).__code__)
        for text in ("def f(x): return x + 1", source)
    )
    said = code_objects.difference(one, other)
    assert re.sub(r"instruction \d+", "instruction", said) == difference
