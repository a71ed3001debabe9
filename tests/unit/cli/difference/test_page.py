"""The page of differences: whole, escaped, bounded."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa

from lakeidx.api import Table
from tests.kit.command_line import call

EVIL = "<script>alert('&amp;')</script>"


class Read(HTMLParser):
    """Texts of cells with their classes, and everything that would load from elsewhere or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[tuple[str, str]] = []
        self.rows: list[str] = []
        self.foreign: list[str] = []
        self.text = ""
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe") or any(name in ("src", "href", "onclick") for name, _ in attrs):
            self.foreign.append(tag)
        if tag == "tr":
            self.rows.append(str(dict(attrs).get("class")))
        if tag == "td":
            self._open = True
            self.cells.append((str(dict(attrs).get("class") or ""), ""))

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "td"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._open:
            kind, text = self.cells[-1]
            self.cells[-1] = (kind, text + data)


def test_the_page_shows_what_differs(tmp_path: Path) -> None:
    spec = {"fields": [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}], "primaryKeys": ["k"],
            "options": {"bucket": "1"}}  # fmt: skip
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    table.upsert(pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]}))
    table.upsert(pa.table({"k": [0, 2, 3, 4], "v": [EVIL, None, None, "d"], "_kind": ["+I", "+I", "-D", "+I"]}))

    def page(*more: str) -> Read:
        file = tmp_path / "page.html"
        assert call("diff", table.uri, 1, 2, "-o", file, *more).stdout == ""
        return Read(file.read_text(encoding="utf-8"))

    found = page()
    assert found.rows == ["None", "new", "changed", "deleted", "new"]
    assert found.cells == [
        ("", "0"), ("", EVIL), ("", "2"), ("changed", "b null"), ("", "3"), ("", "c"), ("", "4"), ("", "d"),
    ]  # fmt: skip
    assert found.foreign == []
    assert " ".join(found.text.split()).count("not shown") == 0
    assert "new 2 changed 1 deleted 1 column v 1" in " ".join(found.text.split())
    assert "2 more keys differ and are not shown." in page("--limit", "2").text
    assert [text for _, text in page("--columns", "v", "--where", "v = 'd'").cells] == ["4", "d"]
    assert "The two states are the same." in call("diff", table.uri, 2, 2, "--format", "html").stdout
