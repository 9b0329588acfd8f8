# SPDX-License-Identifier: Apache-2.0
"""What the numbers of one recorded profile come to: in Python and on the daemon's page.

They are to be the same as tensorctl's (tests/unit/server/profile_numbers_test.cc). A step of
`recorded_profile.json` ran in fewer than half of the calls.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from tensord.profiles import flame, numbers
from tensord.profiles.report import Profile
from tensord.v1 import profile_pb2

RECORDED = json.loads((Path(__file__).parent / "recorded_profile.json").read_text())
EXPECTED = RECORDED["expected"]
PAGE = Path(__file__).parents[2] / "server" / "ui" / "page"

ASKED = """
import {readFileSync} from "node:fs";
import * as data from "./profile_data.js";
const profile = JSON.parse(readFileSync(0));
const {calls, rows, programs} = profile;
console.log(JSON.stringify({
  call: data.median(calls),
  parts: data.partsOf(profile).map(({name, ns}) => [name, ns]),
  rows: rows.map((row) => data.numbersOf(profile, row)),
  programs: programs.map(data.programName),
  steps: rows.map(data.stepName),
  lines: rows.map((row) => data.lineOf(profile, row)),
  tree: data.treeOf(profile).ns,
}));
"""


def recorded() -> profile_pb2.Profile:
    return json_format.ParseDict(RECORDED["profile"], profile_pb2.Profile())


def approximately(rows: list[dict[str, Any]]) -> list[Any]:
    return [pytest.approx(row) for row in rows]


def test_a_recorded_profile_in_python() -> None:
    message = recorded()
    call = numbers.typical(message)
    assert message.calls[call] == numbers.median(message.calls) == EXPECTED["call"]
    parts = [[name, times[call]] for name, times in numbers.parts(message)]
    assert parts == EXPECTED["parts"] and sum(ns for _, ns in parts) == EXPECTED["call"]
    rows = [
        {"ns": numbers.median(row.nanoseconds), "runs": numbers.runs_per_call(message, row),
         "moves": numbers.moved(message, row), "rate": numbers.rate(row),
         "limit": numbers.limit(message, row), "flops": numbers.flop_rate(row)}
        for row in message.rows
    ]  # fmt: skip
    assert rows == approximately(EXPECTED["rows"])
    assert list(map(numbers.program_name, message.programs)) == EXPECTED["programs"]
    assert list(map(numbers.step_name, message.rows)) == EXPECTED["steps"]
    assert [numbers.line_of(message, row) for row in message.rows] == EXPECTED["lines"]
    assert sum(weight for _, weight in numbers.stacks(message)) == EXPECTED["call"]
    assert not numbers.overlap(message)


def test_a_recorded_profile_on_the_page(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the page's JavaScript")
    for name in ("profile_data.js", "format.js"):
        shutil.copy(PAGE / name, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "asked.js").write_text(ASKED)
    # As the daemon says it.
    text = json_format.MessageToJson(
        recorded(), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    said = subprocess.run(
        [node, tmp_path / "asked.js"], check=True, capture_output=True, text=True, input=text
    )
    answer = json.loads(said.stdout)
    assert answer.pop("rows") == approximately(EXPECTED["rows"])
    assert answer.pop("tree") == EXPECTED["call"]
    assert answer == {name: EXPECTED[name] for name in answer}


def test_parts_that_ran_at_the_same_time_are_said() -> None:
    message = recorded()
    message.rows[0].nanoseconds[1] += 50_000
    assert numbers.overlap(message)
    assert "programs ran at the same time" in str(Profile(message))
    assert "programs ran at the same time" not in str(Profile(recorded()))
    outside = dict(numbers.parts(message))[numbers.OUTSIDE]
    assert outside[1] == 0 and min(outside) >= 0


def test_flame_graphs_have_no_control_characters() -> None:
    message = recorded()
    message.function = "a\nb;c"
    message.rows[0].operators[0] = "\x1b[31mgelu"
    message.lines[0].source = "net.py:12\r\x9b\x7f"
    folded = flame.folded(message)
    weighed = [stack for stack, weight in numbers.stacks(message) if weight > 0]
    lines = folded.splitlines()
    assert len(lines) == len(weighed) and all(line.startswith("a b,c;") for line in lines)
    scope = flame.speedscope(message)
    assert json.loads(scope)["name"] == "a b;c"
    for text in (
        folded.replace("\n", ""),
        *(f["name"] for f in json.loads(scope)["shared"]["frames"]),
    ):
        assert flame.printable(text) == text
