#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which folder may include which: the rooms of the code, in one table.

A file belongs to the room of that name (`compiler/jit/jit` is jit.h and jit.cc), or else to that of
the nearest folder above it that the table names. It may include its own room and those that its
room's line names, nothing else; a room stands below those that it includes, so the table has no
cycle. C++ is read by its #include lines, the client by its imports.

    tests/lint/includes.py            lists what is included against the table, and ends with 1 then
    tests/lint/includes.py --used     prints what each room does include, with counts

The table has no more than is used (test_includes.py): who includes a room for the first time says
so here.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from files import ROOT, tracked

BASE = ["base", "proto"]

# Room -> what it may include. From the ground up; a line names rooms that stand above it.
ROOMS: dict[str, list[str]] = {
    # What crosses a process: messages of compiler and runtime, those of the RPCs, their stubs.
    "proto": [],
    "proto/service": ["proto"],
    "proto/grpc": ["proto/service", "proto"],
    "proto/third_party": [],
    "base": [],
    # What generated code includes: the preludes, and the interface to the runtime that calls it.
    "runtime/include": [],
    "kernels/special": [],
    "kernels/cpu": ["runtime/include", "kernels/special"],
    "kernels/cuda": ["kernels/special"],
    "kernels": ["runtime/include", "kernels/cpu", "kernels/cuda"],
    # The compiler: a stage includes what it works on and what is before it, never what follows.
    "compiler/sym": BASE,
    "compiler/ops": ["base"],
    "compiler/graph": [*BASE, "compiler/sym", "compiler/ops"],
    "compiler/import": [*BASE, "compiler/sym", "compiler/graph"],
    "compiler/rewrite": [*BASE, "compiler/ops", "compiler/graph"],
    "compiler/loop_ir": ["base", "compiler/sym", "compiler/graph"],
    "compiler/decompose": [
        "base",
        "compiler/sym",
        "compiler/ops",
        "compiler/graph",
        "compiler/loop_ir",
    ],
    "compiler/decompose/operators": [
        "base",
        "compiler/sym",
        "compiler/ops",
        "compiler/graph",
        "compiler/decompose",
    ],
    "compiler/schedule": [*BASE, "compiler/loop_ir"],
    "compiler/schedule/cpu": [*BASE, "compiler/loop_ir", "compiler/schedule"],
    "compiler/schedule/cuda": [*BASE, "compiler/sym", "compiler/loop_ir", "compiler/schedule"],
    "compiler/schedule/plan_kernels": [
        *BASE,
        "compiler/schedule",
        "compiler/schedule/cpu",
        "compiler/schedule/cuda",
    ],
    "compiler/memory": [
        *BASE,
        "compiler/sym",
        "compiler/graph",
        "compiler/loop_ir",
        "compiler/schedule",
    ],
    "compiler/kernel_ir": ["base", "compiler/sym", "compiler/graph", "compiler/loop_ir"],
    "compiler/codegen": ["base", "compiler/graph", "compiler/schedule", "compiler/kernel_ir"],
    "compiler/codegen/cpu": [
        "base",
        "compiler/schedule",
        "compiler/schedule/cpu",
        "compiler/kernel_ir",
        "compiler/codegen",
    ],
    "compiler/codegen/cuda": [
        "base",
        "compiler/schedule/cuda",
        "compiler/kernel_ir",
        "compiler/codegen",
    ],
    "compiler/plan": [
        *BASE,
        "compiler/sym",
        "compiler/graph",
        "compiler/schedule",
        "compiler/memory",
        "compiler/codegen",
    ],
    # The driver: the table of contents of everything above.
    "compiler": [
        *BASE,
        "compiler/graph",
        "compiler/import",
        "compiler/rewrite",
        "compiler/decompose",
        "compiler/schedule",
        "compiler/schedule/plan_kernels",
        "compiler/memory",
        "compiler/kernel_ir",
        "compiler/codegen",
        "compiler/codegen/cpu",
        "compiler/codegen/cuda",
        "compiler/plan",
    ],
    # Sources to binaries; knows no graph.
    "compiler/jit": BASE,
    "compiler/jit/cxx": [*BASE, "kernels", "compiler/jit"],
    "compiler/jit/nvrtc": [*BASE, "kernels", "compiler/jit"],
    "compiler/jit/jit": [*BASE, "compiler/jit", "compiler/jit/cxx", "compiler/jit/nvrtc"],
    # The library in the job: knows the artifact, not what made it.
    "runtime/base": ["base", "runtime/include"],
    "runtime/torch": ["proto", "runtime/include", "runtime/base"],
    "runtime/program": ["proto", "runtime/include", "runtime/base", "runtime/torch"],
    "runtime/call": ["runtime/program"],
    "runtime/operators": ["runtime/program", "runtime/call"],
    "runtime/profile": ["runtime/base", "runtime/include", "runtime/program", "runtime/call"],
    "runtime/cpu": ["runtime/base", "runtime/program", "runtime/call"],
    "runtime/cuda": ["runtime/base", "runtime/program", "runtime/call"],
    "runtime/load": [
        *BASE,
        "runtime/base",
        "runtime/program",
        "runtime/operators",
        "runtime/cpu",
        "runtime/cuda",
    ],
    "runtime/run": [
        "runtime/base",
        "runtime/program",
        "runtime/call",
        "runtime/operators",
        "runtime/profile",
    ],
    # The C interface.
    "runtime": [
        "base",
        "runtime/include",
        "runtime/base",
        "runtime/call",
        "runtime/operators",
        "runtime/profile",
        "runtime/cuda",
        "runtime/load",
        "runtime/run",
    ],
    # The service. gRPC is known to the daemon's own room, to one of the fleet's tiers and to
    # tensorctl, the compiler to workers.
    "server/store": ["base"],
    "server/log": [],
    "server/rpc": ["base"],
    # What daemon and worker both say of a program.
    "server/program": BASE,
    "server/worker": [*BASE, "compiler", "compiler/jit", "compiler/jit/jit", "server/program"],
    "server/fleet": [*BASE, "proto/service", "server/store", "server/log"],
    "server/fleet/remote": ["proto/third_party", "base", "server/store", "server/fleet"],
    "server/fleet/open": ["base", "server/fleet", "server/fleet/remote"],
    "server/traces": [*BASE, "proto/service"],
    "server/jobs": [
        "base",
        "proto/service",
        "server/store",
        "server/fleet",
        "server/log",
        "server/traces",
    ],
    "server/statistics": [*BASE, "proto/service"],
    "server/profiles": ["base", "proto/service", "server/traces"],
    "server/pool": [*BASE, "server/worker", "server/statistics"],
    "server/compile": [
        *BASE,
        "server/program",
        "proto/service",
        "server/store",
        "server/fleet",
        "server/log",
        "server/jobs",
        "server/statistics",
        "server/traces",
        "server/profiles",
        "server/pool",
    ],
    "server/frames": [
        "base",
        "proto/service",
        "server/store",
        "server/fleet",
        "server/log",
        "server/jobs",
        "server/statistics",
        "server/pool",
        "server/compile",
    ],
    # A store's programs and frames as a file.
    "server/archive": [
        *BASE,
        "proto/service",
        "server/store",
        "server/fleet",
        "server/log",
        "server/jobs",
        "server/frames",
    ],
    # Programs that are made before a job asks for them.
    "server/ahead": [
        *BASE,
        "proto/service",
        "server/store",
        "server/program",
        "server/compile",
        "server/archive",
    ],
    "server/http": ["base"],
    "server/monitoring": ["proto/service", "base", "server/http"],
    # What a browser shows of the daemon; asks by functions that it is given.
    "server/ui": [*BASE, "proto/service", "server/rpc", "server/http"],
    "server/cli": ["base"],
    "server/config": [
        "base",
        "server/rpc",
        "server/store",
        "server/fleet/open",
        "server/compile",
    ],
    "server/daemon": [
        "proto/service",
        "proto/grpc",
        "base",
        "server/rpc",
        "server/store",
        "server/fleet/open",
        "server/statistics",
        "server/traces",
        "server/profiles",
        "server/compile",
        "server/frames",
        "server/monitoring",
        "server/ui",
        "server/cli",
        "server/config",
    ],
    # What tensorctl shows as text.
    "server/ctl/view": ["base", "proto/service"],
    "server/ctl": [
        "proto/service",
        "proto/grpc",
        "base",
        "server/rpc",
        "server/store",
        "server/fleet",
        "server/fleet/open",
        "server/archive",
        "server/ahead",
        "server/cli",
        "server/config",
        "server/ctl/view",
    ],
    # Tests may include everything, and nothing includes a test.
    "tests": ["*"],
    # The client. Its modules outside of a folder are what all of it shares, but for the backend and
    # the package's own, on top.
    "client/tensord": [],
    "client/tensord/v1": [],
    "client/tensord/_native": [],
    "client/tensord/wire": ["client/tensord", "client/tensord/v1", "client/tensord/_native"],
    "client/tensord/passes": ["client/tensord", "client/tensord/wire"],
    "client/tensord/cut": ["client/tensord", "client/tensord/wire"],
    "client/tensord/cuda_graphs": ["client/tensord", "client/tensord/cut", "client/tensord/wire"],
    "client/tensord/bridge": [
        "client/tensord",
        "client/tensord/v1",
        "client/tensord/wire",
        "client/tensord/cuda_graphs",
        "client/tensord/_native",
    ],
    "client/tensord/profiles": [
        "client/tensord",
        "client/tensord/v1",
        "client/tensord/wire",
        "client/tensord/cuda_graphs",
        "client/tensord/bridge",
    ],
    "client/tensord/frames": [
        "client/tensord",
        "client/tensord/v1",
        "client/tensord/wire",
        "client/tensord/cuda_graphs",
        "client/tensord/bridge",
    ],
    "client/tensord/capture": [
        "client/tensord",
        "client/tensord/v1",
        "client/tensord/wire",
        "client/tensord/passes",
        "client/tensord/cut",
        "client/tensord/cuda_graphs",
        "client/tensord/bridge",
        "client/tensord/frames",
    ],
    "client/tensord/backend": [
        "client/tensord",
        "client/tensord/wire",
        "client/tensord/passes",
        "client/tensord/frames",
        "client/tensord/capture",
    ],
    "client/tensord/debug/explain": [
        "client/tensord",
        "client/tensord/frames",
        "client/tensord/backend",
    ],
    "client/tensord/__init__": [
        "client/tensord",
        "client/tensord/v1",
        "client/tensord/_native",
        "client/tensord/wire",
        "client/tensord/profiles",
        "client/tensord/frames",
        "client/tensord/backend",
        "client/tensord/debug/explain",
    ],
}

# What an include below `tensord/` stands for: generated headers, and the preludes' installed names.
HEADERS = [
    (r"tensord/v1/.*\.grpc\.pb\.h", "proto/grpc"),
    (r"tensord/v1/(fleet|frame|profile|requests|stats|service)\.pb\.h", "proto/service"),
    (r"tensord/v1/.*", "proto"),
    (r"tensord/cpu[./].*", "kernels/cpu"),
    (r"tensord/cuda[./].*", "kernels/cuda"),
    (r"tensord/special/.*", "kernels/special"),
    (r"tensord/.*", "runtime/include"),
    (r"(build/bazel|google/(api|bytestream|longrunning|rpc))/.*", "proto/third_party"),
]
CPP = ("*.cc", "*.h", "*.cu", "*.cuh", "*.def")
TOPS = {room.split("/")[0] for room in ROOMS}
CLIENT = ROOT / "client"


def room_of(path: str) -> str | None:
    """The room of a file, by its path below the root; None for what no room has."""
    where = path.rpartition(".")[0] or path
    while where not in ROOMS:
        if "/" not in where:
            return None
        where = where.rpartition("/")[0]
    return where


def cpp_includes(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Line, what is included, and its room; of includes of this repository's."""
    for number, line in enumerate(path.read_text().split("\n"), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if match is None:
            continue
        name = match[1]
        known = [room for pattern, room in HEADERS if re.fullmatch(pattern, name)]
        if known:
            yield number, name, known[0]
        elif name.split("/")[0] in TOPS and (ROOT / name).is_file():
            yield number, name, room_of(name)


def python_imports(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """As cpp_includes, of a module of the client."""
    package = list(path.relative_to(CLIENT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parts = package[: len(package) - node.level + 1] if node.level else []
            parts = parts + (node.module or "").split(".") if node.module else parts
            modules = [[*parts, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for module in modules:
            if module[0] == "tensord":
                yield node.lineno, ".".join(module), room_of_module(module)


def room_of_module(parts: list[str]) -> str | None:
    """The room of `tensord.folder.module.name`."""
    path = CLIENT
    for part in parts:
        if not (path / part).is_dir():
            path = path / f"{part}.py"
            break
        path = path / part
    if path.is_dir() or not path.is_file():  # a package, or a name of one
        path = (path if path.is_dir() else path.parent) / "__init__.py"
    return room_of(path.relative_to(ROOT).as_posix())


def all_includes() -> Iterator[tuple[Path, int, str, str, str | None]]:
    """Every include of the repository: file, line, its room, what is included, the room of that."""
    for path in tracked(*CPP, "client/tensord/*.py"):
        relative = path.relative_to(ROOT).as_posix()
        room = room_of(relative)
        if room is None:
            continue
        includes = python_imports(path) if path.suffix == ".py" else cpp_includes(path)
        for line, name, included in includes:
            yield path.relative_to(ROOT), line, room, name, included


def allowed(room: str, included: str | None) -> bool:
    return included == room or "*" in ROOMS[room] or included in ROOMS[room]


def check_table() -> list[str]:
    """What is wrong with the table itself: rooms that nobody has, and arrows upwards."""
    wrong = []
    order = list(ROOMS)
    for room, may in ROOMS.items():
        for other in may:
            if other == "*":
                continue
            if other not in ROOMS:
                wrong.append(f"{room} may include {other}, which is no room")
            elif order.index(other) >= order.index(room):
                wrong.append(f"{room} may include {other}, which stands below it in the table")
    return wrong


def unused() -> list[str]:
    """What rooms may include and do not. Protos are not read."""
    used = {(room, included) for _, _, room, _, included in all_includes()}
    return [
        f"{room} may include {other}, and does not"
        for room, may in ROOMS.items()
        for other in may
        if other != "*" and not room.startswith("proto") and (room, other) not in used
    ]


def main() -> int:
    wrong = check_table()
    if sys.argv[1:] == ["--used"]:
        used = Counter((room, included) for _, _, room, _, included in all_includes())
        for (room, included), count in sorted(used.items(), key=str):
            print(f"{room} -> {included}: {count}")
        return 0
    for path, line, room, name, included in all_includes():
        if not allowed(room, included):
            wrong.append(f"{path}:{line}: {room} may not include {name} (of {included})")
    for folder in {path.parent for path in tracked("*.cc", "client/tensord/*.py")}:
        where = folder.relative_to(ROOT).as_posix() + "/"
        if room_of(where) is None and not where.startswith(("deploy/", "examples/", "client/")):
            wrong.append(
                f"{where}: no room has this folder; add it to the table of {Path(__file__).name}"
            )
    for finding in wrong:
        print(finding)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
