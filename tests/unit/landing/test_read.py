"""Reading landing files: the rows Python's own csv and json modules see, and the line each stands on."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.landing.columnar.batches import open_typed
from lakeidx.landing.read import LandingOptions, Piece, check_columns, landing_format, read_landing
from lakeidx.landing.text.csv import read_csv
from lakeidx.landing.text.json_lines import read_jsonl
from lakeidx.storage.local import LocalStore
from lakeidx.types import Field, parse_type

FIELDS = (
    Field(0, "k", parse_type("BIGINT NOT NULL")),
    Field(1, "v", parse_type("STRING")),
    Field(2, "d", parse_type("DECIMAL(10, 2)")),
)
DEFAULT = LandingOptions()


def gather(pieces: list[Piece]) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    """Rows, their lines, and (line, reason) of bad ones."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    bad: list[tuple[int, str]] = []
    for piece in pieces:
        n = piece.rows.num_rows
        rows += piece.rows.to_pylist()
        lines += [
            int(x) for x in (piece.lines if piece.lines is not None else range(piece.first_line, piece.first_line + n))
        ]
        bad += [(b.line, b.reason) for b in piece.bad_lines]
    assert len(rows) == len(lines)
    return rows, lines, bad


def from_csv(
    data: bytes, *, block: int = 1 << 20, **options: Any
) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    return gather(list(read_csv(io.BytesIO(data), "f.csv", FIELDS, LandingOptions(**options), block_bytes=block)))


def from_jsonl(
    data: bytes, *, block: int = 1 << 20, **options: Any
) -> tuple[list[dict[str, Any]], list[int], list[tuple[int, str]]]:
    return gather(list(read_jsonl(io.BytesIO(data), "f.jsonl", FIELDS, LandingOptions(**options), block_bytes=block)))


# --- CSV ---------------------------------------------------------------------------------------------------------------


def test_csv_lines_with_quoted_breaks_blank_lines_and_odd_rows() -> None:
    data = b'\xef\xbb\xbfk,v,d\r\n1,"a\r\nb",1.5\r\n\r\n2,x\r\n3,"say ""hi""",\r\n4,y,2,9\r\n5,"",NULL'
    rows, lines, bad = from_csv(data, null_values=("", "NULL"))
    assert [(r["k"], r["v"], r["d"]) for r in rows] == [
        ("1", "a\r\nb", "1.5"),
        ("3", 'say "hi"', None),
        ("5", "", None),
    ]
    assert lines == [2, 6, 8]
    assert bad == [(5, "2 columns instead of 3"), (7, "4 columns instead of 3")]


def test_csv_that_is_not_text_loses_only_the_broken_rows() -> None:
    rows, lines, bad = from_csv(b"k,v,d\n1,a,1\n2,\xff\xfe,2\n3,c,3\n")
    assert [r["k"] for r in rows] == ["1", "3"]
    assert lines == [2, 4]
    assert [(line, reason.partition(";")[0]) for line, reason in bad] == [(3, "not UTF-8 text")]


def test_csv_header_only_and_columns() -> None:
    assert from_csv(b"k,v,d\n") == ([], [], [])
    rows, _, _ = from_csv(b"x|v|k\n7|b|1\n", delimiter="|", ignore_extra=True)
    assert rows == [{"v": "b", "k": "1"}]
    with pytest.raises(InvalidInputError, match="columns the table does not have: x"):
        from_csv(b"x,v,k\n7,b,1\n")
    with pytest.raises(InvalidInputError, match="lacks the required columns k; it has v, d"):
        from_csv(b"v,d\na,1\n")
    with pytest.raises(InvalidInputError, match="columns k more than once"):
        from_csv(b"k,k\n1,2\n")
    with pytest.raises(InvalidInputError, match="no header line"):
        from_csv(b"\n\n")
    with pytest.raises(InvalidInputError, match="one ASCII character"):
        from_csv(b"k\n1\n", delimiter="::")


def test_csv_quote_never_closed_names_its_line() -> None:
    with pytest.raises(InvalidInputError, match="line 3 and never closed"):
        from_csv(b'k,v,d\n1,a,2\n2,"b,3\n4,c,5\n')


texts = st.text(st.sampled_from('ab,"\n\r 1é'), max_size=6)


@pytest.mark.slow
@given(st.lists(st.tuples(texts, texts, texts), max_size=12), st.integers(1, 40), st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=300, deadline=None)
def test_csv_as_pythons_csv_module(records: list[tuple[str, str, str]], block: int, end: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerow(["k", "v", "d"])
    at, wanted = [], []
    for record in records:
        text = out.getvalue()
        # A line ends with \n, \r\n or a \r alone.
        at.append(len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")))
        writer.writerow(record)
        wanted.append(record)
    rows, lines, bad = from_csv(out.getvalue().encode(), block=block)
    assert [(r["k"], r["v"], r["d"]) for r in rows] == wanted
    assert lines == at
    assert bad == []


# --- JSON lines --------------------------------------------------------------------------------------------------------


def test_jsonl_lines_with_broken_ones_among_them() -> None:
    data = (
        b'\xef\xbb\xbf{"k": 1, "v": "a", "d": 1.50}\r\n\r\n{"k": 2,\n[3]\n{"k": "4", "v": null, "d": "2"}\n'
        b'{"k": 5, "x": 1}\n{"k": 6, "k": 7}\n"text"\n{"k": 123456789012345678901234567890}\n'
        b'{"k": 8, "v": "\\ud800"}\n{"k": 9, "v": true}'
    )
    rows, lines, bad = from_jsonl(data)
    assert [(r["k"], r["v"], r["d"]) for r in rows] == [
        ("1", "a", "1.50"),
        ("4", None, "2"),
        ("123456789012345678901234567890", None, None),
        ("9", "true", None),
    ]
    assert lines == [1, 5, 9, 11]
    assert [line for line, _ in bad] == [3, 4, 6, 7, 8, 10]
    assert bad[2][1] == "unknown columns x"
    assert bad[3][1].startswith("not JSON: duplicate name")


def test_jsonl_numbers_keep_their_digits() -> None:
    rows, _, _ = from_jsonl(b'{"k": 9007199254740993, "d": 12345678.91}\n{"k": 2, "d": 0.1}\n')
    assert [str(r["d"]) for r in rows] == ["12345678.91", "0.10"]
    assert rows[0]["k"] == 9007199254740993
    slow, _, _ = from_jsonl(b'{"k": 9007199254740993, "d": 12345678.91}\n{"k": 2, "d": 0.123}\n')
    assert [(r["k"], r["d"]) for r in slow] == [("9007199254740993", "12345678.91"), ("2", "0.123")]


def test_jsonl_values_written_as_strings_go_the_fast_way() -> None:
    data = b"".join(b'{"k": "%d", "v": "t", "d": "1.25"}\n' % i for i in range(1000))
    pieces = list(read_jsonl(io.BytesIO(data), "f", FIELDS, DEFAULT))
    assert pieces[0].rows.schema.field("k").type == pa.string()
    # The slow way would give every column as text and a list of lines.
    assert not isinstance(pieces[0].lines, list)


def test_jsonl_columns_that_are_null_everywhere_and_lines_that_leave_them_out() -> None:
    rows, lines, bad = from_jsonl(b'{"k": 1, "v": null}\n\n{"k": 2}\n')
    assert [(r["k"], r["v"], r["d"]) for r in rows] == [(1, None, None), (2, None, None)]
    assert (lines, bad) == ([1, 3], [])


def test_jsonl_of_another_schema() -> None:
    with pytest.raises(InvalidInputError, match="columns the table does not have: a, b"):
        from_jsonl(b'{"a": 1, "b": 2}\n')
    with pytest.raises(InvalidInputError, match="lacks the required columns k; its first object has v"):
        from_jsonl(b'{"v": "x"}\n')
    assert from_jsonl(b'{"k": 1, "z": [1]}\n', ignore_extra=True)[0][0]["k"] in (1, "1")


def test_jsonl_two_objects_on_one_line_do_not_shift_the_others() -> None:
    rows, lines, bad = from_jsonl(b'{"k": 1}\n{"k": 2} {"k": 3}\n{"k": 4}\n')
    assert ([r["k"] for r in rows], lines) == (["1", "4"], [1, 3])
    assert bad[0][0] == 2


values = st.fixed_dictionaries(
    {},
    optional={
        "k": st.one_of(st.none(), st.integers(-(2**70), 2**70), st.integers(0, 9).map(str)),
        "v": st.one_of(st.none(), st.text(max_size=5)),
        "d": st.one_of(st.none(), st.integers(-99, 99), st.integers(-99, 99).map(lambda n: n / 4)),
    },
)


@given(st.lists(st.one_of(values.map(json.dumps), st.sampled_from(["", "  ", "{", "[]"])), max_size=12), st.integers(1, 60),
       st.sampled_from(["\n", "\r\n"]))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_jsonl_as_pythons_json_module(texts: list[str], block: int, end: str) -> None:
    data = ('{"k": 0}' + end + "".join(t + end for t in texts)).encode()
    wanted: list[tuple[int, Any, Any, Any]] = [(1, "0", None, None)]
    broken = []
    for line, text in enumerate(texts, 2):
        if not text.strip():
            continue
        if text in ("{", "[]"):
            broken.append(line)
            continue
        parsed = json.loads(text, parse_float=str, parse_int=str)
        wanted.append((line, parsed.get("k"), parsed.get("v"), parsed.get("d")))
    try:
        rows, lines, bad = from_jsonl(data, block=block)
    except LakeIdxError as error:
        pytest.fail(str(error))
    assert [b for b, _ in bad] == broken
    assert lines == [w[0] for w in wanted]
    for row, (_, k, v, d) in zip(rows, wanted, strict=True):
        assert (None if row["k"] is None else str(row["k"])) == k
        assert row["v"] == v
        assert (row["d"] is None) == (d is None)
        assert d is None or float(row["d"]) == float(d)


# --- files -------------------------------------------------------------------------------------------------------------


def read(path: Path, **options: Any) -> list[Piece]:
    return list(read_landing(LocalStore(), str(path), FIELDS, LandingOptions(**options)))


@pytest.mark.parametrize("name", ["f.parquet", "f.csv", "f.jsonl"])
def test_missing_and_empty_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFoundError, match=name):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(InvalidInputError, match=rf"{name}.*empty"):
        read(tmp_path / name)


def test_the_ending_or_the_option_names_the_format() -> None:
    assert [landing_format(f"a{s}", DEFAULT) for s in (".PARQUET", ".pq", ".csv", ".ndjson", ".json")] == [
        "parquet", "parquet", "csv", "jsonl", "jsonl",
    ]  # fmt: skip
    assert landing_format("a.txt", LandingOptions("csv")) == "csv"
    with pytest.raises(InvalidInputError, match="cannot derive the format"):
        landing_format("a.txt", DEFAULT)
    with pytest.raises(InvalidInputError, match="unknown landing format 'xml'"):
        landing_format("a.csv", LandingOptions("xml"))


def test_check_columns_lists_what_is_wrong() -> None:
    with pytest.raises(InvalidInputError, match="x more than once"):
        check_columns(["k", "x", "x"], FIELDS, LandingOptions(ignore_extra=True), "f")
    check_columns(["k", "_kind"], FIELDS, DEFAULT, "f")


def test_a_damaged_name_of_an_arrow_file_is_damage() -> None:
    """Arrow decodes names when they are asked for, of columns and of what is inside them."""
    schema = pa.schema([("outer", pa.list_(pa.struct([("inner", pa.int8())])))])
    for name in (b"outer", b"inner"):
        sink = pa.BufferOutputStream()
        pa.ipc.new_file(sink, schema).close()
        damaged = sink.getvalue().to_pybytes().replace(name, b"\x8c" + name[1:])
        with pytest.raises(CorruptFileError, match="not a readable Arrow file"):
            open_typed("arrow", io.BytesIO(damaged), "a.arrow")
