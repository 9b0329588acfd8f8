# SPDX-License-Identifier: Apache-2.0
"""What importing tensord costs, counted in modules: seconds depend on who else is at work."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "client" / "tensord"
COUNTS = """
import json, sys, torch
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def imported(statement: str) -> list[str]:
    """Modules that it imports beyond torch's."""
    program = COUNTS.format(statement=statement)
    environment = {name: value for name, value in os.environ.items() if name != "TENSORD_FRAMES"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    names: list[str] = json.loads(done.stdout)
    return names


@pytest.mark.parametrize(("statement", "most"), [
    ("import tensord", 4),
    ("import tensord; tensord.compile(lambda x: x)", 190),
])  # fmt: skip
def test_little_is_imported_beyond_torch(statement: str, most: int) -> None:
    names = imported(statement)
    of_others = {name.partition(".")[0] for name in names} - {"tensord"} - sys.stdlib_module_names
    assert of_others <= {"google", "h2", "hpack", "hyperframe"}
    assert not [name for name in names if name.startswith(("torch._dynamo", "torch._functorch"))]
    assert len(names) <= most, names


def _private(node: ast.AST) -> str:
    """The private name of torch's own that an expression begins with; "" of another."""
    while isinstance(node, ast.Attribute):
        value = node.value
        if isinstance(value, ast.Name) and value.id == "torch" and node.attr.startswith("_"):
            if node.attr.endswith("__"):
                return ""
            return node.attr
        node = value
    return ""


def test_frames_reach_private_torch_by_torch_compat_alone() -> None:
    found = [
        f"{path.relative_to(CLIENT)}:{node.lineno}: torch.{name}"
        for path in sorted((CLIENT / "frames").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and (name := _private(node))
    ]
    assert found == []
