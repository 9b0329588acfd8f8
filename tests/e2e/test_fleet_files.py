# SPDX-License-Identifier: Apache-2.0
"""A store as a file (tensorctl export, import): what one host made serves another."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_python
from fleet_hosts import Host, make_key, run_job
from real_daemon import RealDaemon, binary

pytest_plugins = ["fleet_fixtures"]


def tensorctl(*arguments: object) -> tuple[int, str, str]:
    """Exit code, what it printed, and its errors; with no configuration but these."""
    command = [str(binary("tensorctl")), *map(str, arguments)]
    given = {name: value for name, value in os.environ.items() if not name.startswith("TENSORD_")}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**given, "TENSORD_CONFIG": "/dev/null"},
    )
    return done.returncode, done.stdout, done.stderr


def numbers(*arguments: object) -> dict[str, Any]:
    code, printed, errors = tensorctl(*arguments, "--json")
    assert code == 0, errors
    found: dict[str, Any] = json.loads(printed)
    return found


def exported(daemon: RealDaemon, key: Path, file: Path, *what: str) -> dict[str, Any]:
    return numbers(
        "export", file, *(what or ["--all"]), f"--store={daemon.store}", f"--fleet-sign-key={key}"
    )


def trust(key: Path) -> str:
    return f"--fleet-trust={key.parent / 'trust'}"


@pytest.fixture
def made(hosts: Callable[..., Host], key: Path, native_guards: None) -> Host:
    """A host that has compiled a few programs and recorded a frame."""
    host = hosts("", key.parent / "trust", None)
    assert [host.ask(i)[0] for i in range(3)] == ["COMPILED"] * 3
    assert run_job(host, *warm_python.CAPTURE)["frames_recorded"] == 1
    return host


def test_another_host_compiles_and_captures_nothing(
    made: Host, hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    said = exported(made, key, clean / "file")
    assert (said["programs"], said["frames"], said["left_out"]) == (4, 1, 0)
    assert said["bytes"] == (clean / "file").stat().st_size
    assert numbers("import", clean / "file", "--check", trust(key))["programs"] == 4
    # Into a store that is there before its daemon, and into that of one that runs.
    before = clean / "before"
    into = (f"--store={before / 'store'}", trust(key))
    assert numbers("import", clean / "file", *into)["frames"] == 1
    running = hosts("", key.parent / "trust", None)
    into = (f"--store={running.store}", trust(key))
    assert numbers("import", clean / "file", *into)["programs"] == 4
    assert numbers("import", clean / "file", *into)["stored_before"] == 5
    started = RealDaemon(before)
    try:
        for daemon in (started, running):
            found = run_job(daemon)
            assert (found["compiled"], found["frames_captured"]) == (0, 0)
            assert found["frames_served"] == 1 and not found["dynamo"]
        assert [running.ask(i)[0] for i in range(3)] == ["HIT"] * 3
        assert running.stats()["compiled"] == running.stats()["kernels_compiled"] == 0
        assert running.stats()["programs_stored"] == 4
    finally:
        started.close()
    # What came is the store's own: it goes on to a third.
    again = clean / "again"
    exported(running, key, again)
    assert again.read_bytes() == (clean / "file").read_bytes()


def test_one_program_may_go_alone(
    made: Host, hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    listed = [line.split()[0] for line in made.tensorctl("ls").splitlines()[1:]]
    said = exported(made, key, clean / "file", listed[0])
    assert (said["programs"], said["frames"]) == (1, 0)
    other = hosts("", key.parent / "trust", None)
    numbers("import", clean / "file", f"--store={other.store}", trust(key))
    assert other.tensorctl("ls").splitlines()[1].split()[0] == listed[0]
    code, _, errors = tensorctl(
        "export", clean / "none", "0123456789", f"--store={made.store}", f"--fleet-sign-key={key}"
    )
    assert code == 1 and "0123456789" in errors
    assert not (clean / "none").exists()


def test_unpacked_it_is_a_folder_that_hosts_share(
    made: Host, hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    exported(made, key, clean / "file")
    shared = clean / "shared"
    shared.mkdir()
    subprocess.run(["tar", "-xmf", clean / "file", "-C", shared], check=True)
    other = hosts(f"file://{shared}", key.parent / "trust", None)
    assert [other.ask(i)[0] for i in range(3)] == ["HIT"] * 3
    assert run_job(other)["frames_captured"] == 0
    assert other.stats()["compiled"] == 0


def test_what_is_wrong_with_a_file_is_said(made: Host, key: Path, clean: Path) -> None:
    exported(made, key, clean / "file")
    sound = (clean / "file").read_bytes()
    (clean / "stranger").mkdir()
    stranger = make_key(clean / "stranger")
    (clean / "worker").write_text("of another build")

    def refused(*flags: str, bytes_: bytes = sound) -> str:
        (clean / "file").write_bytes(bytes_)
        store = clean / "store"
        code, _, errors = tensorctl(
            "import", clean / "file", f"--store={store}", *(flags or (trust(key),))
        )
        assert code == 1
        assert numbers("verify", f"--store={store}")["programs"] == 0
        return errors

    numbers("import", clean / "file", "--check", trust(key))
    (clean / "store").mkdir(mode=0o700)
    assert "fleet_trust does not list" in refused(trust(stranger))
    assert "cut short" in refused(bytes_=sound[: len(sound) // 2])
    middle = len(sound) // 2
    flipped = sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :]
    assert "copy it again" in refused(bytes_=flipped)
    assert "build of the compiler" in refused(trust(key), f"--worker={clean / 'worker'}")
    assert "--fleet-trust" in refused("--store-limit=1GB")
    # What this host's own compiler would make has other keys.
    others = (trust(key), "--cxx-flags=-fno-math-errno")
    assert "--any-toolchain" in refused(*others)
    assert numbers("import", clean / "file", "--check", "--any-toolchain", *others)["programs"] == 4
    assert numbers("import", clean / "file", "--check", trust(key), "--cxx=/none")["programs"] == 4


def test_what_a_job_used_is_there_before_it_starts(
    hosts: Callable[..., Host], key: Path, clean: Path, native_guards: None
) -> None:
    (clean / "shared").mkdir()
    url = f"file://{clean / 'shared'}"
    one = hosts(url, key.parent / "trust", key)
    one.ask(1)  # of no job
    assert run_job(one, *warm_python.CAPTURE, job="train")["frames_recorded"] == 1
    one.stop()  # gives what is left to the fleet, the job's list among it
    fresh = clean / "fresh"
    where = (f"--store={fresh / 'store'}", f"--fleet={url}", trust(key))
    code, _, errors = tensorctl("prefetch", "--job=another", *where)
    assert code == 1 and "another" in errors
    said = numbers("prefetch", "--job=train", *where)
    assert (said["programs"], said["frames"]) == (1, 1)
    assert said["missing"] == said["refused"] == 0
    assert numbers("prefetch", "--job=train", *where)["stored_before"] == 2
    daemon = RealDaemon(fresh)  # of no fleet
    try:
        found = run_job(daemon, job="train")
        assert (found["compiled"], found["frames_captured"], found["frames_served"]) == (0, 0, 1)
    finally:
        daemon.close()
    # Served is used too, so that the second host knows the job as well.
    for store in (one.store, daemon.store):
        file = clean / f"export of {store.parent.name}"
        flags = (f"--store={store}", f"--fleet-sign-key={key}")
        said = numbers("export", file, "--job=train", *flags)
        assert (said["programs"], said["frames"]) == (1, 1)
        code, _, errors = tensorctl("export", file, "--job=another", *flags)
        assert code == 1 and "another" in errors


def test_programs_are_prefetched_by_their_keys(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    (clean / "shared").mkdir()
    url = f"file://{clean / 'shared'}"
    one = hosts(url, key.parent / "trust", key)
    assert [one.ask(i)[0] for i in range(2)] == ["COMPILED"] * 2
    one.wait_for("fleet_put", 2)
    programs = json.loads(one.tensorctl("--json", "ls"))["programs"]
    keys = [base64.b64decode(program["key"]).hex() for program in programs]
    where = (f"--store={clean / 'store'}", f"--fleet={url}", trust(key))
    said = numbers("prefetch", *keys, "0" * 64, *where)
    assert (said["programs"], said["missing"]) == (2, 1)
    assert tensorctl("prefetch", keys[0][:12], *where)[0] == 1
    assert tensorctl("prefetch", *where)[0] == 2
    assert tensorctl("prefetch", keys[0], where[0], where[2])[0] == 1


def test_an_export_wants_a_key_and_something_to_export(made: Host, clean: Path) -> None:
    code, _, errors = tensorctl("export", clean / "file", "--all", f"--store={made.store}")
    assert code == 1 and "tensorctl fleet-key" in errors
    assert tensorctl("export", clean / "file", f"--store={made.store}")[0] == 2
    assert not (clean / "file").exists()
