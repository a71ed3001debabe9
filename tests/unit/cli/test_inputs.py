"""Files that commands are given: relative paths, compressed texts on standard input, keys from a pipe."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

import lakeidx
from lakeidx.cli.inputs import key_file, stdin_as_file
from tests.kit.command_line import answer, call
from tests.kit.small_tables import table_spec

SPEC = table_spec("id BIGINT, name STRING", ["id"], options={"bucket": "-1"})
CSV = b"id,name\n1,Ada\n2,Bob\n"


@pytest.fixture
def table(tmp_path: Path) -> lakeidx.Table:
    made = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", SPEC)
    made.upsert([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}])
    return made


@pytest.mark.parametrize("packed", [CSV, gzip.compress(CSV), zstandard.compress(CSV)], ids=["plain", "gzip", "zstd"])
def test_texts_on_stdin_may_be_compressed(table: lakeidx.Table, packed: bytes) -> None:
    done = answer("upsert", table.uri, "-", "--format", "csv", stdin=packed)
    assert (done["rows"], done["updates"], done["rejected"]) == (2, 2, 0)


def test_stdin_needs_a_format_and_names_them_all(table: lakeidx.Table) -> None:
    words = call("upsert", table.uri, "-", code=2).stderr
    assert "- needs --format: parquet, arrow, orc, avro, csv, jsonl" in words
    twice = call("upsert", table.uri, "-", "-", "--format", "csv", code=2).stderr
    assert "- can be given once" in twice


def test_the_file_of_stdin_goes_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b'{"id": 1}\n')
    with (tmp_path / "in").open() as source:
        monkeypatch.setattr("sys.stdin", source)
        with key_file("-") as path:
            assert Path(path).read_bytes() == b'{"id": 1}\n'
    assert not Path(path).exists()
    with stdin_as_file(["a", "b"], None) as files:
        assert files == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("lookup", "--keys"), ['{"id": 2, "name": "Bob"}', "null"]),
        (("keys", "--rows"), None),
    ],
)
def test_keys_come_from_a_pipe_and_from_files_of_every_format(
    table: lakeidx.Table, tmp_path: Path, arguments: tuple[str, str], lines: list[str] | None
) -> None:
    command, option = arguments
    text = b'{"id": 2}\n{"id": 9}\n'
    (tmp_path / "k.csv.gz").write_bytes(gzip.compress(b"id\n2\n9\n"))
    (tmp_path / "keys.txt").write_bytes(text)
    with pa.ipc.new_stream(str(tmp_path / "k.arrow"), pa.schema({"id": pa.int64()})) as writer:
        writer.write_table(pa.table({"id": [2, 9]}))
    given = [call(command, table.uri, option, f"{tmp_path}/{n}").stdout for n in ("k.csv.gz", "keys.txt", "k.arrow")]
    given.append(call(command, table.uri, option, "-", stdin=text).stdout)
    assert len(set(given)) == 1
    if lines is not None:
        assert given[0].splitlines() == lines
    else:
        assert [json.loads(line)["bucket"] for line in given[0].splitlines()] == [0, None]


def test_a_delete_is_counted_without_being_done(table: lakeidx.Table) -> None:
    counted = call("delete", table.uri, "--keys", "-", "--dry-run", stdin=b'{"id": 2}\n{"id": 2}\n{"id": 9}\n')
    assert json.loads(counted.stdout)["deletes"] == 1
    assert table.scan().to_arrow().num_rows == 2


def test_tables_are_found_by_relative_paths(
    table: lakeidx.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "more.csv").write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    assert answer("upsert", "wh/d.db/t", "more.csv")["updates"] == 2


def test_rows_of_stdin_are_rejected_under_its_name(table: lakeidx.Table) -> None:
    done = call("upsert", table.uri, "-", "--format", "jsonl", stdin=b'{"id": 3, "name": "Cy"}\n{"id": "x"}\n')
    assert "  stdin line 2: cast: column id is not BIGINT: 'x'" in done.stderr
    assert "lakeidx-stdin" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "given", "code"),
    [
        (("upsert", "-", "--format", "jsonl", "--strict"), b'{"id":', 1),
        (("upsert", "-", "--format", "jsonl"), b'{"idx": 1}\n', 2),
        (("upsert", "-", "--format", "parquet"), b"no Parquet", 2),
        (("lookup", "--keys", "-"), b'{"id": "x"}\n', 2),
        (("delete", "--keys", "-"), b'{"id": "x"}\n', 2),
    ],
    ids=str,
)
def test_errors_name_stdin(table: lakeidx.Table, arguments: tuple[str, ...], given: bytes, code: int) -> None:
    command, *rest = arguments
    words = call(command, table.uri, *rest, code=code, stdin=given).stderr
    assert words.startswith("lakeidx: stdin: ")
    assert "lakeidx-stdin" not in words


def test_a_time_with_a_zone_is_rejected_with_the_type_that_takes_it(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "BIGINT"}, {"name": "t", "type": "TIMESTAMP(3)"}]
    made = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", {**SPEC, "fields": fields})
    rows = (
        b'{"id": 1, "t": "2024-01-01T00:00:00Z"}\n{"id": 2, "t": "2024-01-01T00:00:00+02:00"}\n{"id": 3, "t": "soon"}\n'
    )
    said = call("upsert", made.uri, "-", "--format", "jsonl", stdin=rows).stderr
    assert (
        "line 2: cast: column t is TIMESTAMP(3), which has no zone but Z (TIMESTAMP(3) WITH LOCAL TIME ZONE takes any):"
        " '2024-01-01T00:00:00+02:00'"
    ) in said
    assert "line 3: cast: column t is not TIMESTAMP(3): 'soon'" in said
    assert [row["id"] for row in made.scan().to_arrow().to_pylist()] == [1]
