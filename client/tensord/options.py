# SPDX-License-Identifier: Apache-2.0
"""What a user can say in torch.compile(..., mode=..., options={...})."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# mode= of torch.compile -> Mode of compile.proto.
MODES = {
    "default": "MODE_DEFAULT",
    "reduce-overhead": "MODE_REDUCE_OVERHEAD",
    "max-autotune": "MODE_MAX_AUTOTUNE",
    "max-autotune-no-cudagraphs": "MODE_MAX_AUTOTUNE",
}


# Modes that replay programs on GPUs as CUDA graphs.
GRAPHED = ("reduce-overhead",)


@dataclass(frozen=True)
class Options:
    """One torch.compile call's options."""

    mode: str = "default"
    deterministic: bool = False
    unchecked: bool = False
    attention: bool = True
    merged_products: bool = True
    absent_gradients: bool = True
    eager_random: bool = False
    emulate_eager_rounding: bool = False
    # Not in the text by which frames know options: what is compiled is the same.
    wait: str = field(default="program", repr=False)


# What calls do while their program is compiled.
WAITS = ("program", "eager")


def _wait(value: Any) -> str:
    if value not in WAITS:
        raise ValueError(f"option 'wait' is {value!r}; it is one of {', '.join(map(repr, WAITS))}")
    return value


def _mode(value: Any) -> str:
    if value not in MODES:
        raise ValueError(f"mode={value!r} is none of {', '.join(map(repr, MODES))}")
    return value


def _bool(name: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError(f"option {name!r} is {value!r}; it must be True or False")
        return value

    return check


# Option -> what checks it.
_KNOWN: dict[str, Callable[[Any], Any]] = {
    "mode": _mode,
    "deterministic": _bool("deterministic"),
    # Indices from data are not checked against sizes, nor divisors; also TENSORD_UNCHECKED=1.
    "unchecked": _bool("unchecked"),
    # Hand-written attention becomes library calls on GPUs; also TENSORD_ATTENTION=0.
    "attention": _bool("attention"),
    # Linear layers of one input become one product on GPUs; also TENSORD_MERGED_PRODUCTS=0.
    "merged_products": _bool("merged_products"),
    # Backward is compiled without gradients that do not come; also TENSORD_ABSENT_GRADIENTS=0.
    "absent_gradients": _bool("absent_gradients"),
    # Random operators stay torch's own, so that a seed gives eager's numbers; also
    # TENSORD_EAGER_RANDOM=1.
    "eager_random": _bool("eager_random"),
    # Results in bfloat16 and float16 are rounded behind each operator, as in eager; also
    # TENSORD_EMULATE_EAGER_ROUNDING=1.
    "emulate_eager_rounding": _bool("emulate_eager_rounding"),
    # "program": a call waits for its program. "eager": calls run in eager until it is ready.
    "wait": _wait,
}


def parse(mode: str | None, options: Mapping[str, Any] | None, extra: Mapping[str, Any]) -> Options:
    """Checks what torch.compile handed over.

    Raises ValueError for an unknown option or mode, TypeError for a value of the wrong type; both
    list what is known.
    """
    given: dict[str, Any] = dict(options or {})
    given.update(extra)
    if mode is not None:
        given["mode"] = mode
    unknown = sorted(set(given) - set(_KNOWN))
    if unknown:
        raise ValueError(
            f"unknown option(s) {', '.join(map(repr, unknown))} for the tensord backend; "
            f"known are {', '.join(map(repr, _KNOWN))}"
        )
    return Options(**{name: _KNOWN[name](value) for name, value in given.items()})


# Options that passes depend on, each with a variable of the environment.
_SWITCHES = (
    "attention",
    "merged_products",
    "absent_gradients",
    "eager_random",
    "emulate_eager_rounding",
)


def switched_off(chosen: Options) -> frozenset[str]:
    """The options of passes that are not as usual, or whose variables of the environment (0 or 1)
    are not."""
    off = set()
    for name in _SWITCHES:
        usual = getattr(Options, name)
        variable = os.environ.get(f"TENSORD_{name.upper()}")
        if getattr(chosen, name) != usual or variable == str(int(not usual)):
            off.add(name)
    return frozenset(off)


def waits(chosen: Options) -> bool:
    """Whether calls wait for their programs."""
    return chosen.wait != "eager"


def unchecked(chosen: Options) -> bool:
    """Whether indices and divisors are not checked."""
    return chosen.unchecked or os.environ.get("TENSORD_UNCHECKED") == "1"
