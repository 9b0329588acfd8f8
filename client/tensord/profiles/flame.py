# SPDX-License-Identifier: Apache-2.0
"""Profiles as flame graphs, in forms that viewers read."""

from __future__ import annotations

import json
import re
from typing import Any

from ..v1 import profile_pb2
from .numbers import stacks

FORMATS = ("speedscope", "folded")
# A line break would begin another stack, and terminals do what others say.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def printable(name: str) -> str:
    """Without control characters."""
    return _CONTROL.sub(" ", name)


def folded(profile: profile_pb2.Profile) -> str:
    """Folded stacks, as flamegraph.pl, inferno and speedscope read them: a line a stack with its
    nanoseconds."""
    lines = [
        f"{';'.join(printable(name).replace(';', ',') for name in stack)} {weight}"
        for stack, weight in stacks(profile) if weight > 0
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def speedscope(profile: profile_pb2.Profile) -> str:
    """JSON for https://www.speedscope.app, which reads it in the browser."""
    numbers: dict[str, int] = {}
    samples, weights = [], []
    for stack, weight in stacks(profile):
        if weight > 0:
            names = map(printable, stack)
            samples.append([numbers.setdefault(name, len(numbers)) for name in names])
            weights.append(weight)
    content: dict[str, Any] = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "tensord",
        "name": printable(profile.function),
        "shared": {"frames": [{"name": name} for name in numbers]},
        "profiles": [
            {
                "type": "sampled",
                "name": printable(profile.function),
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }
    return json.dumps(content)
