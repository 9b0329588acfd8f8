# SPDX-License-Identifier: Apache-2.0
"""What random numbers are drawn by, checked as eager checks it: `tensord::checked_probability`,
`::checked_deviation`. Both give a copy of their operand; the kernel that reads it looks at it.

On a GPU a probability fails a device assertion, as in eager. For a deviation eager waits there, to
raise an error; nothing is checked instead.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_LIBRARY = torch.library.Library("tensord", "FRAGMENT")


def _is_probability(p: torch.Tensor) -> torch.Tensor:
    return (p >= 0) & (p <= 1)


def _is_deviation(x: torch.Tensor) -> torch.Tensor:
    return x >= 0


def _define(
    name: str, is_good: Callable[[torch.Tensor], torch.Tensor], words: str, asserts: bool
) -> None:
    """asserts: on devices other than the CPU."""

    def checked(x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu":
            if not is_good(x).all():
                raise RuntimeError(words)
        elif asserts:
            torch._assert_async(is_good(x).all())
        return x.clone()

    _LIBRARY.define(f"{name}(Tensor x) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, checked, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tensord::{name}", torch.empty_like, lib=_LIBRARY)


_define(
    "checked_probability",
    _is_probability,
    "Expected p_in >= 0 && p_in <= 1 to be true, but got false.",
    asserts=True,
)
_define(
    "checked_deviation",
    _is_deviation,
    "normal expects all elements of std >= 0.0",
    asserts=False,
)

probability = torch.ops.tensord.checked_probability.default
deviation = torch.ops.tensord.checked_deviation.default
