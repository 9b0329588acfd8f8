# SPDX-License-Identifier: Apache-2.0
"""Where in the model a node comes from, for people."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

import torch
from torch import fx

# A frame of a stack trace, and the line of code behind it where there is one.
_FRAME = re.compile(r'File "([^"]*)", line (\d+), in (.*)(?:\n(?!\s*File ")\s*(.*))?')
# Most of a line of code that is sent.
MOST_CHARACTERS = 160
_TORCH = os.path.dirname(torch.__file__) + os.sep


class Place(NamedTuple):
    """source: "model.py:42 in forward". line: the code there. Both are empty where nobody knows."""

    source: str = ""
    line: str = ""


def place_of(node: fx.Node) -> Place:
    """The innermost line that is not torch's own: a layer of torch.nn belongs to who calls it."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not frames:
        return Place()
    own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    file, number, function, line = (own or frames)[-1]
    source = f"{os.path.basename(file)}:{number} in {function.strip()}"
    return Place(source, line.strip()[:MOST_CHARACTERS])
