# SPDX-License-Identifier: Apache-2.0
"""In which environments a capture is of use, and which functions are left to Python unasked."""

from __future__ import annotations

import collections
import pathlib
import shutil
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import torch._dynamo.config
import torch._functorch.config
from tensord import options
from tensord.frames import environment as environments
from tensord.frames import kinds
from tensord.frames.entered import Entered
from tensord.frames.tensorless import has_no_tensors
from tensord.torch_compat.settings import changed_settings
from tensord.v1 import frame_pb2
from torch._dynamo.convert_frame import has_tensor_in_frame
from torch.nn.parallel import DistributedDataParallel

_ROOT = __file__.split("/tests/")[0]


def _digest(chosen: options.Options | None = None, **capture: Any) -> bytes:
    told = {"dynamic": None, "fullgraph": False, **capture}
    return environments.environment(chosen or options.Options(), told).options


def test_it_says_format_python_and_torch() -> None:
    found = environments.environment(options.Options(), {})
    assert found.python.startswith(f"{sys.implementation.name} {sys.version_info[0]}.")
    assert found.torch == torch.__version__
    with open(f"{_ROOT}/base/version.h") as header:
        assert f"kFrameFormat = {found.format};" in header.read()


def test_the_same_is_the_same() -> None:
    assert _digest() == _digest() == _digest(options.parse("default", {}, {}))
    assert len(_digest()) == 32


def test_a_change_of_a_pass_counts(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two versions too: what a pass made before it was mended is not served behind it."""
    own = environments.capturing_code()
    package = tmp_path / "tensord"
    shutil.copytree(f"{_ROOT}/client/tensord", package, ignore=shutil.ignore_patterns("*.so"))
    assert environments.capturing_code(package) == own, "it tells where the package is"
    digests = {own}
    for place in (
        "passes/runner.py",
        "wire/exporter.py",
        "frames/record_guards.py",
        "cut.py",
    ):
        other = tmp_path / place.replace("/", "-")
        shutil.copytree(package, other)
        with (other / place).open("a") as source:
            source.write("# mended\n")
        digests.add(environments.capturing_code(other))
    assert len(digests) == 5
    (package / "passes" / "none.py").symlink_to("nowhere")
    assert environments.capturing_code(package) != environments.capturing_code(package)
    before = _digest()
    monkeypatch.setattr(environments, "_CAPTURING_CODE", "another")
    assert _digest() != before


@pytest.mark.parametrize("name", [
    "mode", "deterministic", "unchecked", "attention", "merged_products", "absent_gradients",
    "eager_random", "emulate_eager_rounding",
])  # fmt: skip
def test_every_option_counts(name: str) -> None:
    usual = getattr(options.Options(), name)
    other = "max-autotune" if name == "mode" else not usual
    assert _digest(options.Options(**{name: other})) != _digest()


def test_buckets_of_gradients_count(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = _digest()
    inside = {}
    for size in (1 << 20, 2 << 20):
        module = types.SimpleNamespace(bucket_bytes_cap=size)
        monkeypatch.setattr(DistributedDataParallel, "_active_ddp_module", module)
        inside[size] = _digest()
    assert len({outside, *inside.values()}) == 3


@pytest.mark.parametrize("capture", [{"dynamic": True}, {"dynamic": False}, {"fullgraph": True}])
def test_what_torch_compile_was_told_counts(capture: dict[str, Any]) -> None:
    assert _digest(**capture) != _digest()


@pytest.mark.parametrize(("name", "value", "counts"), [
    ("TORCHDYNAMO_SUPPRESS_ERRORS", "1", True),
    ("TORCH_COMPILE_DEBUG", "1", True),
    ("AOT_FX_GRAPHS", "1", True),
    ("TENSORD_UNCHECKED", "1", True),
    ("TENSORD_ATTENTION", "0", True),
    ("TENSORD_EAGER_RANDOM", "1", True),
    ("TENSORD_ATTENTION", "1", False),  # as usual
    ("TENSORD_JOB", "a job", False),
    ("RANK", "3", False),
    ("HOME", "/elsewhere", False),
])  # fmt: skip
def test_variables_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, counts: bool
) -> None:
    monkeypatch.delenv(name, raising=False)
    before = _digest()
    monkeypatch.setenv(name, value)
    assert (_digest() != before) == counts


def test_settings_that_were_changed_count_until_they_are_as_usual() -> None:
    before = _digest()
    dynamo, functorch = torch._dynamo.config, torch._functorch.config
    with dynamo.patch(capture_scalar_outputs=not dynamo.capture_scalar_outputs):
        changed = _digest()
        assert changed != before
        with functorch.patch(functionalize_rng_ops=not functorch.functionalize_rng_ops):
            assert _digest() not in (before, changed)
        assert _digest() == changed
    assert _digest() == before


def test_a_setting_is_told_by_name_and_value() -> None:
    config = torch._dynamo.config
    before = changed_settings(config)
    usual = config.recompile_limit
    with config.patch(recompile_limit=usual + 5):
        added = set(changed_settings(config)) - set(before)
        assert added == {f"recompile_limit={usual + 5}"}
    with config.patch(recompile_limit=usual):
        assert changed_settings(config) == before
    assert changed_settings(types.ModuleType("without_settings")) == []


def test_a_process_without_dynamo_has_the_digest_of_one_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_dynamo = _digest()
    monkeypatch.delitem(sys.modules, "torch._dynamo.config")
    monkeypatch.delitem(sys.modules, "torch._functorch.config")
    assert _digest() == with_dynamo


_Pair = collections.namedtuple("_Pair", "first second")


class _Holder:
    """Into whose attributes Dynamo does not look."""

    def __init__(self, held: Any) -> None:
        self.held = held


class _Number(numpy.float32):
    """NumPy's under another name."""


_Array = type("_Array", (numpy.ndarray,), {})


def _cycle(*more: Any) -> list[Any]:
    one: list[Any] = [*more]
    one.insert(0, one)
    return one


def _uses_torch(x: Any) -> Any:
    return torch.neg(x)


def _uses_numpy(x: Any) -> Any:
    return numpy.negative(x)


def _uses_neither(x: Any) -> Any:
    return sys.getsizeof(x)


def _uses_tensors_within(x: Any) -> Any:
    return (lambda: torch.neg(x))()


_T = torch.ones(2)
_ARGUMENTS: dict[str, Any] = {
    "number": 3,
    "text": "a",
    "none": None,
    "flag": True,
    "complex": 2j,
    "bytes": b"a",
    "tensor": _T,
    "parameter": torch.nn.Parameter(_T),
    "module": torch.nn.Linear(2, 2),
    "module class": torch.nn.Linear,
    "class": dict,
    "function": _uses_neither,
    "data type": torch.float32,
    "size": torch.Size([2]),
    "empty list": [],
    "list": [1, "a", None],
    "list of a tensor": [1, [2, (3, _T)]],
    "dictionary": {"a": 1, "b": [2]},
    "dictionary of a tensor": {"a": {"b": _T}},
    "tensor as key": {_T: 1},
    "set": {1, 2},
    "set of a tensor": {_T},
    "ordered dictionary": collections.OrderedDict(a=_T),
    "named tuple": _Pair(1, 2),
    "named tuple of a tensor": _Pair(1, _T),
    "object": _Holder(1),
    "object with a tensor": _Holder(_T),
    "array": numpy.ones(2),
    "number of numpy": numpy.float32(1),
    "number of a class of ours": _Number(1),
    "array of a class of ours": numpy.ones(2).view(_Array),
    "cycle": _cycle(1),
    "cycle with a tensor": _cycle(_T),
    "the same twice": (lambda one: [one, one])([1]),
    "iterator": iter([_T]),
    "range": range(3),
    "many": list(range(100)),
}


def _frame(function: Callable[..., Any], value: Any) -> Any:
    """As much of Python's frame as Dynamo looks at."""
    return types.SimpleNamespace(
        f_code=function.__code__, f_globals=function.__globals__, f_locals={"x": value}
    )


def _is_left(function: Callable[..., Any], value: Any) -> bool:
    return has_no_tensors(Entered(function.__code__, function.__globals__, {"x": value}))


# Of which it is not plain, so that Dynamo is asked.
_ASKED = {"array of a class of ours"}


@pytest.mark.parametrize("name", _ARGUMENTS)
def test_it_agrees_with_dynamo_on_arguments(name: str) -> None:
    value = _ARGUMENTS[name]
    dynamos = not has_tensor_in_frame(_frame(_uses_neither, value))
    assert _is_left(_uses_neither, value) == (dynamos and name not in _ASKED)


@pytest.mark.parametrize(
    "function", [_uses_torch, _uses_numpy, _uses_neither, _uses_tensors_within]
)
def test_it_agrees_with_dynamo_on_globals(function: Callable[..., Any]) -> None:
    assert _is_left(function, 3) == (not has_tensor_in_frame(_frame(function, 3)))


def test_a_large_argument_is_not_searched_to_its_end() -> None:
    many = [object() for _ in range(5000)]
    assert not _is_left(_uses_neither, many)
    assert not has_tensor_in_frame(_frame(_uses_neither, many))


def test_arguments_are_not_changed_or_asked() -> None:
    class Silent:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

        def __iter__(self) -> Any:
            raise AssertionError("iterated")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = None  # type: ignore[assignment]

    assert _is_left(_uses_neither, [Silent(), {"a": Silent()}])


FLAG = True


def test_kinds_of_locals_and_plain_globals_are_guarded() -> None:
    def function(x: torch.Tensor, n: int) -> object:
        return (x, n, FLAG)

    frame = frame_pb2.Frame()
    kinds.add_guards(frame, Entered(function.__code__, globals(), {"x": torch.ones(2), "n": 3}))
    assert [guard.text for guard in frame.guards] == [
        "type(L['x']) is Tensor",
        "L['n'] == 3",
        "G['FLAG'] == True",
        "the process's state is what it was",
    ]
    assert [guard.source for guard in frame.guards] == [1, 2, 3, 0]
