"""What people type: spellings, paths, names."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import lakeidx
from lakeidx import Table
from lakeidx.api.sql.query import QueryResult
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.cli.main import app
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.landing.read import LandingOptions
from lakeidx.storage import open_store
from lakeidx.storage.local import absolute
from lakeidx.types import parse_type
from tests.kit.object_server import ObjectServer, object_server
from tests.kit.small_tables import table_spec

# What people and programs usually write: it is read, or the line that refuses it shows the form that works.

SPEC: dict[str, Any] = table_spec("id INT, c STRING, b BIGINT", ["id"], options={"bucket": "1"})
ROWS = [{"id": 1, "c": "x", "b": 3}, {"id": 2, "c": "y", "b": 4}]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(f"{tmp_path}/d.db/t", SPEC)


def rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan().to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.parametrize("options", [{}, {"merge_schema": "add"}, {"ignore_extra": True}])
@pytest.mark.parametrize(
    ("text", "way_out", "arguments"),
    [
        ("1,x,3\n2,y,4\n", "(--columns id,c,b)", ["--columns", "id,c,b"]),
        ("1,,3\n2,y,4\n1,x,3", "(--columns id,c,b)", ["--columns", "id,c,b"]),
        ("ID,C,B\n1,x,3\n", "the table's names differ by upper and lower case (id,c,b)", []),
    ],
)
def test_csv_of_another_form_names_the_option(
    table: Table, text: str, way_out: str, arguments: list[str], options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "f.csv"
    file.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        table.upsert_files([file], LandingOptions(**options))
    assert str(caught.value).endswith(way_out)
    if arguments and not options:
        done = CliRunner().invoke(app, ["upsert", table.uri, str(file), *arguments])
        assert done.exit_code == 0, done.output
        assert rows(table) == ROWS


@pytest.mark.parametrize("options", [{}, {"merge_schema": "add"}, {"ignore_extra": True}])
@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("id;c;b\n1;x;3\n2;y;4\n", ["--delimiter", ";"]),
        ('"id"\t"c"\t"b"\n1\tx\t3\n2\ty\t4\n', ["--delimiter", r"\t"]),
    ],
)
def test_a_delimiter_that_is_not_named_is_that_of_the_header(
    table: Table, text: str, arguments: list[str], options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "f.csv"
    file.write_text(text)
    table.upsert_files([file], LandingOptions(**options))
    assert rows(table) == ROWS
    done = CliRunner().invoke(app, ["upsert", table.uri, str(file), *arguments])
    assert done.exit_code == 0, done.output
    assert rows(table) == ROWS


@pytest.mark.parametrize("first", ["1", "1.0", "1e0", '"1.0"', "null"])
def test_whole_numbers_are_integers_however_they_are_written(table: Table, first: str, tmp_path: Path) -> None:
    values = [first, "2.00", "3E+2", "9223372036854775807.0", "9223372036854775808.0", "1.5", "1e-3", "1e400", "-0.0"]
    lines = [f'{{"id": {k}, "c": "x", "b": {v}}}\n' for k, v in enumerate(values)]
    (tmp_path / "f.jsonl").write_text("".join(lines))
    plain = [v.strip('"').replace("null", "") for v in values]
    (tmp_path / "f.csv").write_text("id,c,b\n" + "".join(f"{k}.0,x,{v}\n" for k, v in enumerate(plain)))
    wanted = {0: None if first == "null" else 1, 1: 2, 2: 300, 3: 2**63 - 1, 8: 0}
    for name in ("f.jsonl", "f.csv"):
        fresh = Table.create(f"{table.uri}-{name[2:]}", SPEC)
        result = fresh.upsert_files([tmp_path / name])
        assert {r["id"]: r["b"] for r in rows(fresh)} == wanted
        bad = read_rejected(fresh.store, result.ingest.rejected_path or "").to_pylist()
        assert [r["reason"] for r in bad] == [f"cast: column b is not BIGINT: '{v}'" for v in plain[4:8]]


@pytest.mark.parametrize("make", [pa.ipc.new_file, pa.ipc.new_stream], ids=["file", "stream"])
def test_arrow_files_with_inner_dictionaries_and_date64(make: Any, tmp_path: Path) -> None:
    row = {"type": "ROW", "fields": [{"id": 9, "name": "a", "type": "STRING"}]}
    types = {"s": {"type": "ARRAY", "element": "STRING"}, "r": row, "c": "STRING", "d": "DATE",
             "m": {"type": "MAP", "key": "STRING", "value": "STRING"}, "z": {"type": "ARRAY", "element": "DATE"}}  # fmt: skip
    fields = [{"name": "id", "type": "INT"}, *({"name": n, "type": t} for n, t in types.items())]
    table = Table.create(f"{tmp_path}/d.db/t", {**SPEC, "fields": fields})
    words, days = pa.array(["x", "y", "x"]).dictionary_encode(), pa.array([0, 86_400_000, 1]).cast(pa.date64())
    offsets = pa.array([0, 1, 2, 3], pa.int32())
    given = pa.table({
        "id": pa.array([1, 2, 3], pa.int32()), "c": words, "d": days, "r": pa.StructArray.from_arrays([words], ["a"]),
        "s": pa.ListArray.from_arrays(offsets, words), "z": pa.ListArray.from_arrays(offsets, days),
        "m": pa.MapArray.from_arrays(offsets, pa.array(["k"] * 3), words),
    })  # fmt: skip
    with pa.OSFile(f"{tmp_path}/f.arrow", "wb") as sink, make(sink, given.schema) as writer:
        writer.write_table(given, max_chunksize=2)
    result = table.upsert_files([tmp_path / "f.arrow"])
    found = [json.loads(json.dumps(r, default=str)) for r in rows(table)]
    assert found == [
        {"id": k, "s": [w], "r": {"a": w}, "c": w, "d": d, "m": [["k", w]], "z": [d]}
        for k, w, d in ((1, "x", "1970-01-01"), (2, "y", "1970-01-02"))
    ]
    # A time of day is no DATE.
    assert result.ingest.reject_reasons == {"cast": 1}


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("MAP<STRING, INT>", '{"type": "MAP", "key": "STRING", "value": "INT"}'),
        ("array<int> not null", '{"type": "ARRAY", "element": "INT"}'),
        ("INT[]", '{"type": "ARRAY", "element": "INT"}'),
        ("struct<a:int>", '{"type": "ROW", "fields": [{"name": "a", "type": "INT"}]}'),
        ("MULTISET", '{"type": "MULTISET", "element": "STRING"}'),
        ("TEXT", "'STRING'"), ("int64", "'BIGINT'"), ("datetime", "'TIMESTAMP(6)'"), ("BOOL", "'BOOLEAN'"),
        ("TIMESTAMP(3) WITH TIME ZONE", "'TIMESTAMP(6) WITH LOCAL TIME ZONE'"), ("INT UNSIGNED", "'BIGINT'"),
        ("timestamp[us, tz=UTC]", "'TIMESTAMP(6) WITH LOCAL TIME ZONE'"), ("BIGINT UNSIGNED", "'DECIMAL(20, 0)'"),
        ("INT(11)", "'INT'"), ("NUMBER(10,2)", "'DECIMAL(10, 2)'"), ("BLOB", "'BYTES'"),
        ("DECIMAL(10.2)", "'DECIMAL(10, 2) NOT NULL'"), ("VARCHAR(MAX)", "'DECIMAL(10, 2) NOT NULL'"),
    ],
)  # fmt: skip
def test_types_of_other_systems_are_refused_with_ours(text: str, way_out: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_type(text, where="column 'x'")
    assert str(caught.value).endswith(way_out)
    # What is shown works.
    parse_type(json.loads(way_out) if way_out.startswith("{") else way_out.strip("'"))


# A table opened by a relative path was looked for, and staged into, below the folder of whoever used it: a worker's, too.

SPEC_RELATIVE = table_spec("id BIGINT", ["id"], options={"bucket": "-1"})


def test_the_table_stays_the_same_when_the_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    made = lakeidx.Table.create("wh/d.db/t", SPEC_RELATIVE)
    opened = lakeidx.Table.open("wh/d.db/t")
    monkeypatch.chdir(tmp_path / "elsewhere")
    made.upsert([{"id": 1}])
    pickle.loads(pickle.dumps(opened)).upsert([{"id": 2}])
    assert sorted(lakeidx.Table.open("../wh/d.db/t").scan().to_arrow().column("id").to_pylist()) == [1, 2]
    assert made.uri == opened.uri == f"{tmp_path}/wh/d.db/t"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_uris_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("a/b.csv") == f"{tmp_path}/a/b.csv"
    assert absolute("s3://b/a.csv") == "s3://b/a.csv"
    assert absolute("file:/a.csv") == "file:/a.csv"


# A place on an object store that cannot hold a table is one line that says what to do, at once, and nothing is written.

SPEC_PLACES = table_spec("k INT", ["k"], options={"bucket": "1"})


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


def refused(error: type[LakeIdxError], says: str, uri: str, options: dict[str, Any] | None = None) -> None:
    with pytest.raises(error, match=says) as caught:
        Table.create(uri, SPEC_PLACES, options)
    assert "\n" not in str(caught.value)
    with pytest.raises(error, match=says):
        Table.open(uri, options)


def test_a_table_where_a_file_is(server: ObjectServer, tmp_path: Path) -> None:
    server.objects["d.db/t"] = (b"a file", 0, 1)
    (tmp_path / "d.db").mkdir()
    (tmp_path / "d.db" / "t").write_text("a file")
    for place, options in (("s3://b/d.db/t", server.options), (f"{tmp_path}/d.db/t", None)):
        with pytest.raises(InvalidInputError, match="a file has this name: a table needs a directory"):
            Table.create(place, SPEC_PLACES, options)
        with pytest.raises(NotFoundError):
            Table.open(place, options)
    assert list(server.objects) == ["d.db/t"]


@pytest.mark.parametrize(
    ("status", "code", "error", "says"),
    [
        (403, "ExpiredToken", InvalidInputError, "the credentials have expired: give new ones"),
        (403, "AccessDenied", InvalidInputError, "access denied"),
        (403, "RequestTimeTooSkewed", InvalidInputError, "the clock of this machine is wrong.*set the clock"),
        (404, "NoSuchBucket", NotFoundError, "there is no such bucket: make it, or mend the URI"),
        (400, "AuthorizationHeaderMalformed", InvalidInputError, "set storage option region"),
        (301, "PermanentRedirect", InvalidInputError, "set storage option region"),
    ],
)
def test_what_the_store_says(
    server: ObjectServer, status: int, code: str, error: type[LakeIdxError], says: str
) -> None:
    server.act, server.code = (lambda number, kind, key: status), code
    refused(error, says, "s3://b/d.db/t", server.options)
    assert not server.objects


def test_no_credentials_no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AZURE_STORAGE_ACCOUNT_NAME",
    ):
        monkeypatch.delenv(name, raising=False)
    refused(UnsupportedError, "no store for ftp:// URIs", "ftp://b/d.db/t")
    refused(
        InvalidInputError, "no credentials: set those", "s3://b/d.db/t", {"metadata_endpoint": "http://127.0.0.1:9"}
    )
    refused(InvalidInputError, "Account must be specified", "az://c/d.db/t")
    refused(InvalidInputError, "belong together", "s3://b/d.db/t", {"key": "k"})
    refused(InvalidInputError, "gives no credentials", "s3://b/d.db/t", {"profile": "none"})


def test_a_bucket_of_one_name_in_two_clouds(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of one cloud asked the bucket of the other."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_BEARER_TOKEN"):
        monkeypatch.setenv(name, "x")
    options = {"endpoint_url": server.url, "max_attempts": 1}
    for scheme in ("s3", "gs"):
        assert open_store(f"{scheme}://b/x", options).put_if_absent(f"{scheme}://b/x/{scheme}", b"1")
    server.act = lambda number, kind, key: 503
    for scheme, name in (("s3", "S3"), ("gs", "GCS")):
        with pytest.raises(UnavailableError, match=f"Generic {name} error"):
            open_store(f"{scheme}://b/x", options).list(f"{scheme}://b/x")


# Columns of a query that have one name are all printed: the later ones have numbers.


def test_a_join_prints_both_keys(tmp_path: Path) -> None:
    spec = table_spec("id INT", ["id"], options={"bucket": "1"})
    warehouse = lakeidx.Warehouse(tmp_path)
    warehouse.create("d.t", spec).upsert([{"id": 1}])
    query = "SELECT a.id, b.id + 1 AS id FROM d.t a JOIN d.t b ON a.id = b.id"
    said = CliRunner().invoke(app, ["sql", query, "--warehouse", str(tmp_path)])
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout) == {"id": 1, "id_1": 2}
    rows = warehouse.sql(query)
    assert isinstance(rows, QueryResult)
    assert rows.to_arrow().to_pylist() == [{"id": 1, "id_1": 2}]
