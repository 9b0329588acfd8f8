# SPDX-License-Identifier: Apache-2.0
"""What notebooks show of statistics: all of it that is not zero, as HTML that holds no other's."""

from __future__ import annotations

import html.parser
import json
from collections.abc import Iterator

import pytest
import tensord
from tensord.counters import STATS
from tensord.notebook import Numbers, items


class Elements(html.parser.HTMLParser):
    """Tags and texts; fails where an end belongs to no start."""

    EMPTY = frozenset({"br"})

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    tensord.reset_stats()
    yield
    tensord.reset_stats()


def test_statistics_are_a_table_of_what_is_not_zero() -> None:
    STATS.add("graphs", 1234567)
    STATS.add_fallback('node "<script>alert(1)</script>" & more')
    shown = tensord.stats()
    page = Elements(shown._repr_html_())
    assert "1,234,567" in page.texts and "graphs" in page.texts
    assert any("<script>alert(1)</script>" in text for text in page.texts)
    assert "script" not in page.tags
    assert page.tags.count("tr") == 4  # graphs, fallbacks, reasons, bridge
    assert json.loads(json.dumps(shown))["graphs"] == 1234567  # still a dictionary


def test_nothing_yet() -> None:
    assert Numbers(STATS.snapshot())._repr_html_() == "nothing yet"


def test_long_mappings_are_cut_and_say_so() -> None:
    page = Elements(Numbers(reasons={f"reason {n}": n for n in range(250)})._repr_html_())
    assert page.tags.count("li") == 101
    assert "and 150 more" in page.texts


def test_lines_stay_lines() -> None:
    assert items(["a\nb"]) == "<ul><li>a<br>b</li></ul>"
