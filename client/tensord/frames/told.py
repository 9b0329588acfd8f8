# SPDX-License-Identifier: Apache-2.0
"""What tensord.compile was told: the keywords of the installed torch.compile, but for `backend`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import torch

from .. import options as known_options
from ..torch_compat.settings import compile_keywords


@dataclass(frozen=True)
class Told:
    """more: other keywords of torch.compile, as they were given."""

    fullgraph: bool = False
    dynamic: bool | None = None
    mode: str | None = None
    options: dict[str, Any] | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, given: dict[str, Any]) -> Told:
        """Raises TypeError for what this torch.compile does not take, RuntimeError for `mode`
        together with `options`."""
        if "backend" in given:
            raise TypeError("tensord.compile is of the backend tensord: leave `backend` out")
        for name in given:
            if name not in compile_keywords():
                version = torch.__version__
                raise TypeError(f"torch.compile of torch {version} takes no keyword {name!r}")
        if given.get("mode") is not None and given.get("options") is not None:
            # As torch.compile, which only a capture calls.
            raise RuntimeError("either mode or options can be given; options may have a mode")
        own = {name: given[name] for name in _OWN if name in given}
        return cls(**own, more={name: given[name] for name in given if name not in _OWN})

    def chosen(self) -> known_options.Options:
        """Raises ValueError or TypeError for options that are not known."""
        return known_options.parse(self.mode, self.options, {})

    def for_torch(self) -> dict[str, Any]:
        """As torch.compile takes it."""
        own = {name: getattr(self, name) for name in _OWN}
        return {**own, **self.more}

    @property
    def is_disabled(self) -> bool:
        return bool(self.more.get("disable"))

    @property
    def recompile_limit(self) -> int | None:
        """None: torch's own."""
        limit: int | None = self.more.get("recompile_limit")
        return limit

    @property
    def needs_dynamo(self) -> bool:
        """Whether it says something of captures that no recorded frame knows."""
        return any(value for name, value in self.more.items() if name not in _KNOWN)


_OWN = tuple(one.name for one in fields(Told) if one.name != "more")
# Of `more`; others are Dynamo's to follow, from the first call on.
_KNOWN = ("disable", "name", "recompile_limit")
