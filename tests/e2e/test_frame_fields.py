# SPDX-License-Identifier: Apache-2.0
"""What a frame's bytes may hold, by format: a daemon refuses a field that it does not know, so that
one which comes without another format takes recording from all who have the daemon before.

`python test_frame_fields.py > frame_fields.txt` writes them anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import warm_python
from frame_processes import output, python
from real_daemon import RealDaemon
from tensord.frames.environment import FORMAT
from tensord.frames.recorded_graphs import LEFT_OUT
from tensord.v1 import frame_pb2, graph_pb2

KNOWN = Path(__file__).resolve().parent / "frame_fields.txt"

RECORDS = """
import tensord, torch
from tensord.frames.store import FrameStore

put = FrameStore.put

def noted(store, frame, capture):
    programs = [p for g in frame.graphs for p in (g.inference, g.forward, g.backward)]
    nodes = [node for p in programs for node in p.graph.nodes]
    print(len(nodes), *sorted({field.name for node in nodes for field, _ in node.ListFields()}))
    return put(store, frame, capture)

FrameStore.put = noted
net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh())
tensord.compile(net)(torch.ones(8, 6)).sum().backward()
assert tensord.stats()["frames_recorded"] == 1
"""


def fields(message: Any, found: dict[str, str]) -> dict[str, str]:
    """By message, the fields of all that a message may hold, with their numbers."""
    if message.full_name in found:
        return found
    left_out = LEFT_OUT if message.full_name == graph_pb2.Node.DESCRIPTOR.full_name else ()
    found[message.full_name] = " ".join(
        f"{field.name}={field.number}" for field in message.fields if field.name not in left_out
    )
    for field in message.fields:
        if field.message_type is not None:
            fields(field.message_type, found)
    return found


def text() -> str:
    found = fields(frame_pb2.Frame.DESCRIPTOR, {})
    lines = [f"{name}: {found[name]}\n" for name in sorted(found)]
    return f"format {FORMAT}\n" + "".join(lines)


def test_a_format_has_the_fields_that_it_had() -> None:
    """Where it fails, raise kFrameFormat (docs/versions.md), or leave the field out of frames."""
    assert text() == KNOWN.read_text()


def test_what_is_for_people_is_left_out(native_guards: None, frames_daemon: RealDaemon) -> None:
    said = output(python(frames_daemon, "-c", RECORDS, imported=warm_python.CAPTURE)).split()
    assert int(said[0]) > 0
    assert {"op", "args", "outputs"} <= set(said[1:])
    assert not set(LEFT_OUT) & set(said[1:])


if __name__ == "__main__":
    print(text(), end="")
