# SPDX-License-Identifier: Apache-2.0
"""The guards of a frame, checked against its arguments (_native/guard_tree.cc).

Sources are found in the order in which they were added, each followed by its own checks; what is
asked of several sources, or of none, comes behind all.
"""

from __future__ import annotations

from builtins import dict, isinstance, len, tuple  # noqa: UP029
from typing import Any, NamedTuple

from ...torch_compat import dispatch
from . import checks, sources


class _Said(NamedTuple):
    """What does not hold, in words, and of which sources' values."""

    text: str
    sources: tuple[int, ...] = ()


# What is found of which value, by its place among the values; and what is asked of it.
_Asked = tuple[checks.Holds, Any, _Said]
_Source = tuple[sources.Find, int, Any, list[_Asked]]
_Values = list[Any]  # the frame's locals and globals, then those of sources
_ROOTS: dict[int, int] = {sources.Step.LOCAL: 0, sources.Step.GLOBAL: 1}
_FIRST = 2  # place of the first source's value


class GuardTree:
    """As the native one. globals: of the frame's function."""

    def __init__(self, globals: dict[str, Any]) -> None:
        if not isinstance(globals, dict):
            raise TypeError("a dictionary of the frame's globals is expected")
        self._globals = globals
        self._sources: list[_Source] = []
        self._last: list[tuple[checks.OfSeveral, tuple[int, ...], _Said]] = []
        # What was made of an argument that can be called, for all checks with that argument.
        self._shared: dict[tuple[int, int], tuple[Any, tuple[checks.Holds, Any]]] = {}

    def add_source(self, step: int, base: int, argument: Any) -> int:
        """Its number. base: -1 for none. Raises ValueError for what is no source."""
        number = len(self._sources)
        is_root = step in sources.FROM_FRAME
        if step not in sources.FIND or not -1 <= base < number or (base < 0) != is_root:
            raise ValueError(f"no source is a step {step} from source {base}")
        if not sources.takes(step, argument):
            raise ValueError(f"step {step} takes another argument than {argument!r}")
        place = _ROOTS.get(step, 0) if is_root else base + _FIRST
        self._sources.append((sources.FIND[step], place, argument, []))
        return number

    def add_check(self, check: int, source: int, argument: Any, text: str) -> None:
        """source: -1 for none. Raises ValueError or TypeError for what is no check."""
        count = len(self._sources)
        if check in checks.OF_SEVERAL and -1 <= source < count:
            asks, numbers = checks.OF_SEVERAL[check](source, argument)
            if any(type(one) is not int or not 0 <= one < count for one in numbers):
                raise ValueError(f"there is no source among {numbers}")
            own = (source,) if source >= 0 and source not in numbers else ()
            said = _Said(text, (*own, *numbers))
            self._last.append((asks, tuple(one + _FIRST for one in numbers), said))
        elif check in checks.OF_ONE and 0 <= source < count:
            of_source = self._sources[source][3]
            of_source.append((*self._made(check, argument), _Said(text, (source,))))
        else:
            raise ValueError(f"there is no check {check} of source {source}")

    def _made(self, check: int, argument: Any) -> tuple[checks.Holds, Any]:
        kind = checks.OF_ONE[check]
        if not kind.takes_argument(argument):
            raise ValueError(f"check {check} takes another argument than {argument!r}")
        if kind.takes is not callable:
            return kind.made(argument)
        key = (check, id(argument))
        if key not in self._shared:
            self._shared[key] = (argument, kind.made(argument))
        return self._shared[key][1]

    def __call__(self, locals: dict[str, Any], /) -> bool:
        """Whether all checks hold."""
        return self._missed(locals, []) is None

    def failure(self, locals: dict[str, Any], /) -> str | None:
        """The first that does not hold, in words."""
        missed = self._missed(locals, [])
        return None if missed is None else missed.text

    def failed(self, locals: dict[str, Any], /) -> tuple[str, tuple[tuple[int, Any], ...]] | None:
        """The same, and the values that it was asked of, by their sources."""
        values: _Values = []
        missed = self._missed(locals, values)
        if missed is None:
            return None
        return missed.text, tuple((one, values[one + _FIRST]) for one in missed.sources)

    def looked_at(self) -> list[str] | None:
        """What is looked at again at the next call: None, everything."""
        return None

    def _missed(self, locals: dict[str, Any], values: _Values) -> _Said | None:
        """The first that does not hold; `values` gets what was found until then."""
        if not isinstance(locals, dict):
            raise TypeError("a dictionary of the frame's locals is expected")
        values += (locals, self._globals)
        said: _Said | None = None
        try:
            # A mode of torch functions, or a subclass of tensors, is to see none of it.
            with dispatch.WithoutTorchFunctions():
                keys = dispatch.thread_keys()
                for find, base, argument, of_source in self._sources:
                    said = None
                    value = find(values[base], argument)
                    values.append(value)
                    for holds, expected, said in of_source:
                        if not (expected(value, keys) if holds is None else holds(value, expected)):
                            return said
            for asks, places, said in self._last:
                if not asks(*[values[place] for place in places]):
                    return said
        except Exception:
            return said or _Said(f"source {len(values) - _FIRST} is not there")
        return None
