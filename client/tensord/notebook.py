# SPDX-License-Identifier: Apache-2.0
"""HTML forms for notebooks, which ask a cell's result for `_repr_html_`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

# Of a mapping within a mapping, such as reasons with their numbers.
_MOST_INNER = 100


def table(rows: Iterable[tuple[str, str]], caption: str = "") -> str:
    """A table of two columns. Cells are HTML already (`text`, `numbers`)."""
    body = "".join(
        f'<tr><th scope="row" style="text-align:left">{name}</th>'
        f'<td style="text-align:left">{value}</td></tr>'
        for name, value in rows
    )
    head = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    return f"<table>{head}<tbody>{body}</tbody></table>"


def grid(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts. A header that begins with ">" is of a column that is aligned to the
    right."""
    aligns = ["right" if header.startswith(">") else "left" for header in headers]

    def row(tag: str, cells: Sequence[str]) -> str:
        made = (
            f'<{tag} style="text-align:{align}">{text(cell)}</{tag}>'
            for cell, align in zip(cells, aligns, strict=True)
        )
        return f"<tr>{''.join(made)}</tr>"

    head = row("th", [header.removeprefix(">") for header in headers])
    body = "".join(row("td", cells) for cells in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def text(value: object) -> str:
    """Anything as text within HTML; lines stay lines."""
    return escape(str(value)).replace("\n", "<br>")


def items(lines: Iterable[str]) -> str:
    """A list of texts; nothing where there is none."""
    body = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{body}</ul>" if body else ""


def section(summary: str, body: str, *, is_open: bool = True) -> str:
    """A part that can be folded; `body` is HTML already."""
    start = "<details open>" if is_open else "<details>"
    return f"{start}<summary>{text(summary)}</summary>{body}</details>"


class Numbers(dict[str, Any]):
    """A dictionary of statistics that notebooks show as a table, without what is zero or empty."""

    def _repr_html_(self) -> str:
        rows = [(text(name), _value(value)) for name, value in self.items() if value]
        return table(rows) if rows else "nothing yet"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return _shortened([f"{name}: {_number(inner)}" for name, inner in value.items()])
    if isinstance(value, list | tuple):
        return _shortened(list(map(str, value)))
    return text(_number(value))


def _shortened(lines: list[str]) -> str:
    left = len(lines) - _MOST_INNER
    return items([*lines[:_MOST_INNER], f"and {left} more"] if left > 0 else lines)


def _number(value: Any) -> str:
    """Whole numbers with their thousands apart; others as they are."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_whole else str(value)
