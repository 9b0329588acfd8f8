# SPDX-License-Identifier: Apache-2.0
"""Checks that documents and comments speak of what exists, in paragraphs that one can read.

    python tests/lint/check_docs.py [FILE...]        # all tracked files, unless some are named

Prints a line a finding, `FILE:LINE: what`, and ends with 1 where there is one. In documents (*.md):

- a name in code spans or fenced blocks that does not exist: a file or folder, a flag of one of the
  project's own programs, an environment variable, a function or a type;
- a link to a file or a heading that does not exist;
- a paragraph, list item or table cell of more than 120 words.

In comments and docstrings of sources: a file that does not exist.

Generated parts, between `<!-- NAME -->` and `<!-- end of NAME -->`, are read as well.
"""

from __future__ import annotations

import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from files import ROOT, of_others, tracked

MOST_WORDS = 120
# Files that documents may name although git does not track them.
MADE = re.compile(r"^(build|dist|\.venv)(/|-|$)|^~|^/|[<*{$]|\.\.\.|^\.\.?/|^[A-Z]+/")
PATH = re.compile(
    r"^[\w.+-]+(/[\w.+*-]+)*(/|\.(cc|h|cu|cuh|def|py|sh|md|proto|txt|toml|json|cmake|yml))$"
)
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]+")
VARIABLE = re.compile(r"\bTENSORD_[A-Z0-9_]+\b")
# A function with its parentheses, and a name of several capitalised words.
FUNCTION = re.compile(r"^(?:[A-Za-z_]\w*(?:::|\.))*([A-Za-z_]\w*)\(\)$")
HUMPS = re.compile(r"^(?:[A-Za-z_]\w*::)*([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+)$")
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Programs whose flags are the project's own.
OWN = re.compile(
    r"(?:^|[\s/])(tensord|tensord-worker|tensorctl|compile_jobs)(?=\s|$)|(?:tests|deploy)/\S+"
)
# What torch, CUDA, gRPC and others call theirs.
FOREIGN = set(
    """
    --gtest_filter --minimal --split-compile
    AdamW AddressSanitizer FlexAttention HuggingFace IndexError LayerNorm OutOfMemoryError PyTorch
    RMSNorm RuntimeError SwiGLU ThreadSanitizer TorchDynamo TorchInductor
    """.split()
)
# Files of others, and of examples.
FOREIGN_FILES = {"cublasLt.h", "cuda.h", "job.py", "model.py", "nvrtc.h"}
# A file's name in a sentence, with the folders before it.
FILE = re.compile(
    r"(?<![\w/.*<>$}-])(?:[\w+.-]+/)*[\w+-]+\."
    r"(?:cc|h|cu|cuh|def|py|sh|md|proto|txt|toml|json|cmake|yml)(?![\w/.-]*\w)"
)
# Stands for a name: PASS_test.cc.
PLACEHOLDER = re.compile(r"(^|/)(NAME|FAMILY|PASS)(_\w+)?\.")
SOURCES = tuple(".cc .h .cu .cuh .def .py .sh .proto .txt .toml .json .yml .yaml".split())


@dataclass
class Tree:
    """What the repository holds."""

    root: pathlib.Path
    files: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.files = [path.relative_to(self.root).as_posix() for path in tracked(root=self.root)]

    @cached_property
    def text(self) -> str:
        """Every source, one after the other."""
        wanted = [
            f for f in self.files if f.endswith(SOURCES) and not f.startswith("tests/golden/")
        ]
        wanted = [f for f in wanted if f != "tests/lint/check_docs.py"]
        return "\n".join((self.root / f).read_text(errors="replace") for f in wanted)

    @cached_property
    def words(self) -> set[str]:
        return set(re.findall(r"[A-Za-z_]\w*", self.text))

    @cached_property
    def flags(self) -> set[str]:
        return set(FLAG.findall(self.text))

    @cached_property
    def folders(self) -> set[str]:
        return {str(parent) for f in self.files for parent in pathlib.PurePath(f).parents}

    def has(self, path: str) -> bool:
        """Whether a file or folder ends in these parts; `*` stands for any part."""
        path = path.rstrip("/")
        pattern = re.compile("(^|/)" + re.escape(path).replace(r"\*", "[^/]*") + "$")
        return any(pattern.search(name) for name in (*self.files, *self.folders))


def anchors(text: str) -> set[str]:
    """The headings of a document as links name them."""
    found = set()
    for title in re.findall(r"^#+ (.*)$", text, re.M):
        kept = re.sub(r"[^\w\- ]", "", title.lower())
        found.add(kept.replace(" ", "-"))
    return found


def check_names(tree: Tree, code: str, fenced: bool) -> Iterator[str]:
    """What one code span, or one line of a fenced block, names that does not exist."""
    for name in VARIABLE.findall(code):
        if name not in tree.words:
            yield f"no source knows the variable {name}"
    if not fenced or OWN.search(code):
        if not fenced and not code.startswith("--") and not OWN.search(code):
            pass  # somebody else's command
        else:
            for flag in FLAG.findall(code):
                # A key of the configuration is a flag as well (server/config/config.cc).
                key = flag.removeprefix("--").replace("-", "_")
                if flag not in tree.flags and key not in tree.words and flag not in FOREIGN:
                    yield f"no program has the flag {flag}"
    if fenced:
        return
    for word in code.split():
        word = word.strip(",;:()'\"")
        # `repros/`: a folder that a program makes.
        made = MADE.search(word) or PLACEHOLDER.search(word) or word.rstrip("/") in tree.words
        if PATH.match(word) and not made and not tree.has(word):
            yield f"no such file or folder: {word}"
    called = FUNCTION.match(code) or HUMPS.match(code)
    if called and called[1] not in tree.words and called[1] not in FOREIGN:
        yield f"nothing is called {called[1]}"


def check_link(tree: Tree, document: pathlib.Path, target: str) -> Iterator[str]:
    if re.match(r"[a-z]+:", target):
        return
    path, _, anchor = target.partition("#")
    file = (document.parent / path).resolve() if path else document
    if not file.exists():
        yield f"the link {target} leads nowhere"
    elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
        yield f"{file.name} has no heading #{anchor}"


def check_length(text: str) -> Iterator[str]:
    words = len(re.findall(r"\S+", text))
    if words > MOST_WORDS:
        yield f"{words} words in one piece, {MOST_WORDS} are the limit: {text.strip()[:50]}..."


def blocks(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Paragraphs, list items and table cells with their first lines' numbers, from 1."""
    start = 0
    piece: list[str] = []
    fenced = False
    for number, line in enumerate([*lines, ""], 1):
        if line.startswith("```"):
            fenced = not fenced
        is_item = re.match(r"\s*([-*]|\d+\.) ", line)
        ends = fenced or not line.strip() or is_item or line.startswith(("|", "#", "```", "<!--"))
        if ends and piece:
            yield start, " ".join(piece)
            piece = []
        if fenced or line.startswith("```"):
            continue
        if line.startswith("|"):
            for cell in line.strip("|").split(" | "):
                yield number, cell
        elif line.strip() and not line.startswith(("#", "<!--")):
            if not piece:
                start = number
            piece.append(line)


def check(tree: Tree, document: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The findings in one document, with their lines."""
    text = document.read_text()
    lines = text.splitlines()
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            fenced = not fenced
            continue
        if fenced:
            yield from ((number, what) for what in check_names(tree, line, fenced=True))
            continue
        for span in SPAN.findall(line):
            yield from ((number, what) for what in check_names(tree, span, fenced=False))
        for target in LINK.findall(SPAN.sub("", line)):
            yield from ((number, what) for what in check_link(tree, document, target))
    for number, block in blocks(lines):
        yield from ((number, what) for what in check_length(block))


def comments(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a source's comments and docstrings, with their numbers."""
    if name.endswith(".py"):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_text = token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
            if is_text or token.type == tokenize.COMMENT:
                yield from enumerate(token.string.splitlines(), token.start[0])
        return
    mark = "#" if name.endswith((".sh", ".txt", ".toml", ".yml", ".yaml")) else "//"
    for number, line in enumerate(text.splitlines(), 1):
        if found := re.search(rf"(?:^|\s){mark}(.*)", line):
            yield number, found[1]


def check_comments(tree: Tree, source: pathlib.Path) -> Iterator[tuple[int, str]]:
    """The findings in one source, with their lines."""
    for number, comment in comments(source.name, source.read_text(errors="replace")):
        for name in FILE.findall(comment):
            # Generated kernels include the preludes from a folder of the project's name.
            known = tree.has(name) or tree.has(name.removeprefix("tensord/"))
            if known or name in FOREIGN_FILES or MADE.search(name) or PLACEHOLDER.search(name):
                continue
            yield number, f"no such file: {name}"


def main(arguments: list[str]) -> int:
    tree = Tree(ROOT)
    findings = 0
    ours = [name for name in tree.files if not of_others(name)]
    for name in arguments or [name for name in ours if name.endswith((".md", *SOURCES))]:
        look = check if name.endswith(".md") else check_comments
        for line, what in look(tree, ROOT / name):
            print(f"{name}:{line}: {what}")
            findings += 1
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
