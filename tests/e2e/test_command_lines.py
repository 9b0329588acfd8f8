# SPDX-License-Identifier: Apache-2.0
"""What shells complete of the programs' command lines, and their manual pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from real_daemon import binary

PROGRAMS = ("tensorctl", "tensord")


def said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def completion(program: str, shell: str) -> str:
    how = ["completion", shell] if program == "tensorctl" else ["--print-completion", shell]
    return said(str(binary(program)), *how)


def manual(program: str) -> str:
    return said(str(binary(program)), "man" if program == "tensorctl" else "--print-man")


def completed(*words: str) -> list[str]:
    """What bash offers for the last of the words."""
    asks = f"""
        {completion(words[0], "bash")}
        COMP_WORDS=({" ".join(f"'{word}'" for word in words)})
        COMP_CWORD={len(words) - 1}
        _{words[0]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return said("bash", "--norc", "-c", asks).split()


@pytest.mark.parametrize(("words", "offered"), [
    (("tensorctl", "sta"), ["status", "stats"]),
    (("tensorctl", "--js"), ["--json"]),
    (("tensorctl", "gc", "--"), "--help --store --help --version --address "
     "--tls-ca --tls-cert --tls-key --token-file --json".split()),
    (("tensorctl", "--json", "top", "--l"), ["--lines"]),
    (("tensorctl", "--address", "st"), []),  # a file
    (("tensorctl", "ls", "--limit", "st"), []),
    (("tensorctl", "kernel", "abc"), []),
    (("tensord", "--store-"), ["--store-limit"]),
    (("tensord", "--store", ""), []),
])  # fmt: skip
def test_bash_completes(words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(*words) == offered


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_of_their_shell(program: str, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(completion(program, shell))
    said(shell, "-n", str(tmp_path / "script"))


def test_fish_completes() -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = completion("tensorctl", "fish")
    found = said("fish", "--no-config", "-c", f"{script}\ncomplete -C 'tensorctl sta'")
    assert [line.split("\t")[0] for line in found.splitlines()] == ["stats", "status"]
    found = said("fish", "--no-config", "-c", f"{script}\ncomplete -C 'tensorctl ls --li'")
    assert found == "--limit\tat most so many\n"


def test_shells_that_nobody_knows_are_refused() -> None:
    done = subprocess.run(
        [binary("tensorctl"), "completion", "tcsh"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "bash" in done.stderr + done.stdout


@pytest.mark.parametrize("program", PROGRAMS)
def test_manual_pages_have_all_flags(program: str, tmp_path: Path) -> None:
    page = manual(program)
    listed = said(str(binary(program)), "--help")
    flags = {word.split(",")[-1] for word in listed.split() if word.startswith("--")}
    for flag in flags | {"--help"}:
        assert flag.replace("-", "\\-") in page, flag
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed: the page's language is not checked")
    (tmp_path / "page").write_text(page)
    text = said("groff", "-man", "-ww", "-Tascii", "-P-cbou", str(tmp_path / "page"))
    assert f"{program.upper()}(" in text
    assert "\\" not in text


def test_the_manual_has_all_commands() -> None:
    page = manual("tensorctl")
    listed = said(str(binary("tensorctl")), "--help").partition("Subcommands:")[2]
    commands = [line.split()[0] for line in listed.splitlines() if line.startswith("  ")]
    assert len(commands) > 15
    for command in commands:
        assert ".SS \\fB" + command.replace("-", "\\-") + "\\fR" in page


@pytest.mark.parametrize("command", ["verify", "gc", "du", "rebuild-index"])
def test_the_flag_of_a_store_beats_the_environment(tmp_path: Path, command: str) -> None:
    """Of every command that works on a store without a daemon."""
    for name in ("told", "other"):
        (tmp_path / name).mkdir(mode=0o700)
    environment = {**os.environ, "TENSORD_STORE": str(tmp_path / "other")}

    def run(*flags: str) -> None:
        words = [str(binary("tensorctl")), command, *flags]
        subprocess.run(words, check=True, capture_output=True, timeout=60, env=environment)

    run(f"--store={tmp_path}/told")
    assert not list((tmp_path / "other").iterdir())
    made = list((tmp_path / "told").iterdir())
    run()
    assert bool(list((tmp_path / "other").iterdir())) == bool(made)
