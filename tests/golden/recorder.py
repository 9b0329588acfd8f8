# SPDX-License-Identifier: Apache-2.0
"""Records golden cases: one call of an operator, its inputs, and the results that eager gives.

    case(aten.hypot, rand(5), rand(5))

A case is such a line. Its name is the call's text (`hypot_rand_5_rand_5`), and its random inputs
are drawn from a generator seeded by that name, so that no case depends on another. For that `rand`
and its like only note what is to be drawn (`Later`); what is done with a noted tensor, methods,
operators and functions made by `later`, is noted too. Inside a case the same note is the same
tensor.
"""

from __future__ import annotations

import hashlib
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten
prims = torch.ops.prims
INF = float("inf")
_LONGEST_NAME = 72


# ---- Values to be made once a case's generator is seeded


class Later:
    """An expression over tensors, with its text."""

    def __init__(
        self, make: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], text: str
    ) -> None:
        self._make, self._args, self._kwargs, self._text = make, args, kwargs, text

    def __getattr__(self, name: str) -> Later:
        if name.startswith("__"):
            raise AttributeError(name)
        return Later(getattr, (self, name), {}, f"{self._text}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Later:
        made = Later(_call, (self, *args), kwargs, "")
        made._text = f"{self._text}({_text_of(args, kwargs)})"
        return made

    def __getitem__(self, index: Any) -> Later:
        return Later(operator.getitem, (self, index), {}, f"{self._text}[{index}]")

    def __iter__(self) -> Any:
        raise TypeError(f"the parts of {self._text} go by index")

    def __bool__(self) -> bool:
        raise TypeError(f"{self._text} is not known yet")


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _binary(sign: str, function: Callable[..., Any], swapped: bool = False) -> Callable[..., Later]:
    def apply(self: Later, other: Any) -> Later:
        left, right = (other, self) if swapped else (self, other)
        text = f"{_text(left)} {sign} {_text(right)}"
        return Later(function, (left, right), {}, text)

    return apply


for _name, _sign in {"add": "plus", "sub": "minus", "mul": "times", "gt": "over"}.items():
    setattr(Later, f"__{_name}__", _binary(_sign, getattr(operator, _name)))
    if _name != "gt":
        setattr(Later, f"__r{_name}__", _binary(_sign, getattr(operator, _name), swapped=True))


def later(function: Callable[..., Any]) -> Callable[..., Later]:
    """The function on noted tensors. It may draw random numbers."""
    name = getattr(function, "__name__", str(function))

    def note(*args: Any, **kwargs: Any) -> Later:
        return Later(function, args, kwargs, f"{name}({_text_of(args, kwargs)})")

    return note


def _make(value: Any, made: dict[int, Any]) -> Any:
    if isinstance(value, Later):
        if id(value) not in made:
            args = [_make(a, made) for a in value._args]
            kwargs = {k: _make(a, made) for k, a in value._kwargs.items()}
            made[id(value)] = value._make(*args, **kwargs)
        return made[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)(_make(v, made) for v in value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, Later):
        return value._text
    if isinstance(value, torch.Tensor):
        kind = "" if value.dtype == torch.float32 else str(value.dtype).removeprefix("torch.")
        return f"{kind} {value.tolist()}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_text, value))}]"
    return str(value).removeprefix("torch.")


def _text_of(args: Any, kwargs: dict[str, Any]) -> str:
    named = [_text(v) if k == "dtype" else f"{k} {_text(v)}" for k, v in kwargs.items()]
    return ", ".join([*map(_text, args), *named])


# ---- Inputs


@later
def rand(*sizes: int, dtype: torch.dtype = torch.float32, scale: float = 2.0) -> torch.Tensor:
    """Normal numbers."""
    return (torch.randn(*sizes) * scale).to(dtype)


@later
def complex_rand(*sizes: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    """Complex numbers of normal parts."""
    return torch.complex(torch.randn(sizes), torch.randn(sizes)).to(dtype)


@later
def uniform(*sizes: int, low: float = 0.0, high: float = 1.0) -> torch.Tensor:
    return torch.rand(*sizes) * (high - low) + low


@later
def special() -> torch.Tensor:
    """Normal numbers with zero, infinities and NaN among them."""
    x = torch.randn(4, 5) * 2
    x.view(-1)[:6] = torch.tensor([0.0, INF, -INF, math.nan, 3.0, -3.0])
    return x


@later
def integers(
    *sizes: int, low: int = -9, high: int = 10, dtype: torch.dtype = torch.int64
) -> torch.Tensor:
    """From low to high - 1."""
    return torch.randint(low, high, sizes).to(dtype)


@later
def nonzero(*sizes: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """From 1 to 5 with either sign."""
    return (torch.randint(1, 6, sizes) * (torch.randint(0, 2, sizes) * 2 - 1)).to(dtype)


@later
def bools(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes) > 0.5


@later
def channels_last(*sizes: int) -> torch.Tensor:
    return (torch.randn(*sizes) * 2).contiguous(memory_format=torch.channels_last)


@later
def rand_like(tensor: torch.Tensor) -> torch.Tensor:
    """Normal numbers in the shape of a tensor, contiguous, float32."""
    return torch.randn(tensor.shape) * 2


# ---- Cases


class Family:
    """The cases of one file."""

    def __init__(self) -> None:
        self.cases: dict[str, dict[str, Any]] = {}


current = Family()


def start_family() -> Family:
    """What `case` adds to from here on."""
    global current
    current = Family()
    return current


def case(
    op: torch._ops.OpOverload | torch._ops.OpOverloadPacket,
    *args: Any,
    tolerance: float | None = None,
    reference: Callable[..., Any] | None = None,
    graph_device: str = "CPU",
    **kwargs: Any,
) -> None:
    """Records one call with positional arguments and arguments by name, as the schema has them.

    op: an overload, or an operator for its overload `default`. tolerance: of each result, relative
    and absolute; by default that of float32, or of the narrow floats where there are any.
    reference: stands in where eager has no kernel. graph_device: that the graph is said to be on,
    for what is lowered on one kind alone.
    """
    if isinstance(op, torch._ops.OpOverloadPacket):
        op = op.default
    overload = op._overloadname
    called = op.name().partition("::")[2].partition(".")[0]
    text = f"{called}{'' if overload == 'default' else '.' + overload}({_text_of(args, kwargs)})"
    name = _name_of(text)
    if name in current.cases:
        raise ValueError(f"there are two cases {text}")
    torch.manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big"))
    made: dict[int, Any] = {}
    current.cases[name] = {
        "name": name,
        **_record(
            op,
            _make(args, made),
            {k: _make(v, made) for k, v in kwargs.items()},
            tolerance,
            reference or op,
            graph_device,
        ),
    }


def _name_of(text: str) -> str:
    """The text as letters, digits and single underscores, as a test's name has to be."""
    spelt = re.sub(r"-(?=\w)", "neg", text).replace("*", "x")
    name = re.sub(r"[^A-Za-z0-9]+", "_", spelt).strip("_")
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(text.encode()).hexdigest()[:6]
        name = f"{name[: _LONGEST_NAME - 7].rstrip('_')}_{digest}"
    return name


def _record(
    op: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    tolerance: float | None,
    function: Callable[..., Any],
    graph_device: str,
) -> dict[str, Any]:
    schema = op._schema
    full = list(args)
    for parameter in schema.arguments[len(args) :]:
        full.append(kwargs.pop(parameter.name, parameter.default_value))
    if kwargs:
        raise TypeError(f"{op} has no argument {', '.join(kwargs)}")
    inputs: list[torch.Tensor] = []
    arguments = []
    for value, parameter in zip(full, schema.arguments, strict=True):
        real = str(getattr(parameter, "real_type", parameter.type))
        if "ScalarType" in real and isinstance(value, int):
            raise ValueError("dtypes go by keyword as torch.dtype")
        arguments.append(_argument(value, str(parameter.type), inputs))
    before = [_data(t) for t in inputs]  # some operators write their arguments
    # Keyword-only parameters must be passed by name.
    positional = [v for v, p in zip(full, schema.arguments, strict=True) if not p.kwarg_only]
    named = {p.name: v for v, p in zip(full, schema.arguments, strict=True) if p.kwarg_only}
    results = function(*positional, **named)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    op_name, _, overload = op.name().partition(".")
    outputs = [
        {"dtype": "DTYPE_UNSPECIFIED"} if r is None else _meta(r, graph_device) for r in results
    ]
    narrow = any(
        t is not None and t.dtype in (torch.bfloat16, torch.float16) for t in inputs + results
    )
    return {
        "tolerance": tolerance or (2e-2 if narrow else 2e-5),
        "graph": {
            "inputs": [
                {"tensor": _meta(t, graph_device), "name": f"x{i}"} for i, t in enumerate(inputs)
            ],
            "nodes": [
                {
                    "op": op_name,
                    "overload": overload,
                    "args": arguments,
                    "outputs": outputs,
                    "name": "n",
                }
            ],
            "outputs": [
                {"none": True} if r is None else {"value": {"value": len(inputs), "output": i}}
                for i, r in enumerate(results)
            ],
        },
        "inputs": before,
        "results": [None if r is None else _data(r) for r in results],
    }


# ---- As JSON: graph.proto's own, and tensors


def _dtype_name(dtype: torch.dtype) -> str:
    return "DTYPE_" + str(dtype).removeprefix("torch.").upper()


def _ints(values: Any) -> list[dict[str, Any]]:
    return [{"constant": int(v)} for v in values]


def _meta(t: torch.Tensor, device: str) -> dict[str, Any]:
    return {
        "dtype": _dtype_name(t.dtype),
        "device": f"DEVICE_TYPE_{device}",
        "sizes": _ints(t.shape),
        "strides": _ints(t.stride()),
        "storageOffset": {"constant": 0},
    }


def _argument(value: Any, schema_type: str, inputs: list[torch.Tensor]) -> dict[str, Any]:
    if value is None:
        return {"none": True}
    if isinstance(value, torch.Tensor):
        inputs.append(value)
        return {"value": {"value": len(inputs) - 1}}
    if isinstance(value, (list, tuple)):
        return {"list": {"items": [_argument(v, schema_type, inputs) for v in value]}}
    if isinstance(value, torch.dtype):
        return {"dtype": _dtype_name(value)}
    if isinstance(value, torch.device):
        return {"device": "DEVICE_TYPE_" + value.type.upper()}
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, int) and schema_type != "float":
        return {"integer": {"constant": value}}
    number = float(value)
    if math.isinf(number):
        return {"real": "Infinity" if number > 0 else "-Infinity"}
    return {"real": number}


def _data(t: torch.Tensor) -> dict[str, Any]:
    if t.is_complex():  # by its parts, as kernels see it
        t = torch.view_as_real(t.resolve_conj())
    values = t.detach().double().reshape(-1).tolist()
    if t.dtype != torch.float64:
        values = [float(f"{v:.9g}") for v in values]  # nine digits name a float32 exactly
    whole = [int(v) if v.is_integer() and abs(v) < 2**53 else v for v in values]
    return {
        "sizes": list(t.shape),
        "strides": list(t.stride()),
        "dtype": _dtype_name(t.dtype),
        "values": [v if math.isfinite(v) else str(v) for v in whole],
    }
