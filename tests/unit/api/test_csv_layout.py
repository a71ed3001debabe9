"""The layout of a CSV that init looks at: title lines, delimiters, lines that are no header; measured columns are no key."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.inference.infer import infer_table
from lakeidx.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "landing"),
    [
        ("id,name\n1,a\n2,b\n", {}),
        ("id;name\n1;a,b\n2;c,d\n", {"delimiter": ";"}),
        ("id;a;b\n1;1,5;2,5\n2;3,5;4,5\n", {"delimiter": ";", "decimal": ","}),
        ("Report of May\n\nid,a,b\n1,x,y\n2,x,z\n", {"skip_lines": 2}),
        ("Report of May\nid;a;b\n1;1,5;2,5\n2;3,5;4,5\n", {"skip_lines": 1, "delimiter": ";", "decimal": ","}),
        ("Report;;\nid;a;b\n1;x;y\n2;x;z\n", {"skip_lines": 1, "delimiter": ";"}),
        ("sep=;\nid;a\n1;x\n", {"delimiter": ";"}),
        ("id\n1\n2\n", {}),
        ('id,"a\nb",c\n1,x,y\n2,x,z\n', {}),
    ],
)
def test_layouts(tmp_path: Path, text: str, landing: dict[str, object]) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text, encoding="utf-8")
    found = infer_table(str(file), keys=["id"]).attributes["landing"]
    assert {k: v for k, v in found.items() if k not in ("path", "pattern", "columns")} == landing


@pytest.mark.parametrize("text", ["id\n1,a\n2,b\n", "x y\n1,a\n2,b\n", "a,b\n1,2,3\n4,5,6\n"])
def test_a_first_line_with_fewer_fields_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"the first line has \d fields? between ',', most have \d"):
        infer_table(str(file))


def test_what_is_measured_or_may_be_null_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("price,paid,lot\n1.50,yes,n/a\n2.50,no,7\n3.50,yes,8\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="name the primary key with --key"):
        infer_table(str(file))
