# SPDX-License-Identifier: Apache-2.0
"""What recorded frames have put in place of functions: torch's hook has checked the guards of these
before it calls."""

from __future__ import annotations

import types

from ..torch_compat import eval_frame

_ByOwner = tuple[object, dict[bytes, types.CodeType]]


class Running:
    """`running()` is the process's."""

    def __init__(self) -> None:
        # By the code and the owner, which are kept: their numbers name them, for codes compare
        # equal that torch's hook tells apart.
        self._served: dict[int, tuple[types.CodeType, dict[int, _ByOwner]]] = {}

    def of(self, code: types.CodeType, owner: object) -> dict[bytes, types.CodeType]:
        """By the frames' keys what an owner's entry of the code runs; what torch's hook has
        forgotten (torch._dynamo.reset) is gone."""
        _, owners = self._served.setdefault(id(code), (code, {}))
        _, codes = owners.setdefault(id(owner), (owner, {}))
        if codes:
            kept = {id(one) for one in eval_frame.codes_run_for(code)}
            for key in [key for key, one in list(codes.items()) if id(one) not in kept]:
                codes.pop(key, None)
        return codes

    def served(self, code: types.CodeType) -> list[types.CodeType]:
        """For all owners."""
        _, owners = self._served.get(id(code), (code, {}))
        return [one for _, codes in list(owners.values()) for one in list(codes.values())]


_running = Running()


def running() -> Running:
    """This process's."""
    return _running
