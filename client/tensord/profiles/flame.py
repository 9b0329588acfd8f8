# SPDX-License-Identifier: Apache-2.0
"""Profiles as flame graphs, in forms that viewers read."""

from __future__ import annotations

import json
from typing import Any

from ..v1 import profile_pb2
from .numbers import stacks

FORMATS = ("speedscope", "folded")


def folded(profile: profile_pb2.Profile) -> str:
    """Folded stacks, as flamegraph.pl, inferno and speedscope read them: a line a stack with its
    nanoseconds."""
    lines = [
        f"{';'.join(name.replace(';', ',') for name in stack)} {weight}"
        for stack, weight in stacks(profile) if weight > 0
    ]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def speedscope(profile: profile_pb2.Profile) -> str:
    """JSON for https://www.speedscope.app, which reads it in the browser."""
    numbers: dict[str, int] = {}
    samples, weights = [], []
    for stack, weight in stacks(profile):
        if weight > 0:
            samples.append([numbers.setdefault(name, len(numbers)) for name in stack])
            weights.append(weight)
    content: dict[str, Any] = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "tensord",
        "name": profile.function,
        "shared": {"frames": [{"name": name} for name in numbers]},
        "profiles": [
            {
                "type": "sampled",
                "name": profile.function,
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(weights),
                "samples": samples,
                "weights": weights,
            }
        ],
    }
    return json.dumps(content)
