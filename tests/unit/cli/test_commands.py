"""The command line as scripts use it: data on stdout, one clear line on stderr, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from tests.kit.command_line import answer, call, lines
from tests.kit.small_tables import table_spec

SPEC = table_spec(
    "id INT, day DATE, amount DECIMAL(10, 2), note STRING", ["day", "id"], partitions=["day"], options={"bucket": "-1"}
)
ROWS = [
    {"id": 1, "day": "2026-01-01", "amount": "1.50", "note": "a"},
    {"id": 2, "day": "2026-01-01", "amount": "2.00", "note": None},
    {"id": 3, "day": "2026-01-02", "amount": "-3.25", "note": 'c, "quoted"'},
]


def write_lines(file: Path, rows: list[dict[str, object]]) -> Path:
    file.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    return file


@pytest.fixture
def table(tmp_path: Path) -> str:
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(SPEC))
    uri = f"{tmp_path}/wh/db.db/sales"
    call("table", "create", uri, "--schema", spec)
    call("upsert", uri, write_lines(tmp_path / "rows.jsonl", ROWS), "--batch-id", "one")
    return uri


def test_scan_gives_rows_as_json_lines(table: str) -> None:
    assert sorted(lines("scan", table), key=lambda r: str(r["id"])) == ROWS


def test_a_table_gets_another_name(table: str) -> None:
    call("table", "rename", table, "sales_of_2026")
    assert len(lines("scan", f"{table}_of_2026")) == len(ROWS)
    assert "not a Paimon table" in call("scan", table, code=2).output
    call("table", "rename", f"{table}_of_2026", "db.sales")
    assert len(lines("scan", table)) == len(ROWS)


def test_scan_selects_projects_and_limits(table: str) -> None:
    found = lines("scan", table, "--where", "day = DATE '2026-01-01' AND amount > 1.75", "--columns", "note,id")
    assert found == [{"note": None, "id": 2}]
    assert len(lines("scan", table, "--limit", 2)) == 2
    assert lines("scan", table, "--limit", 0) == []


def test_scan_as_csv_and_parquet(table: str, tmp_path: Path) -> None:
    text = call("scan", table, "--where", "id = 3", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text))) == [
        ["id", "day", "amount", "note"],
        ["3", "2026-01-02", "-3.25", 'c, "quoted"'],
    ]
    call("scan", table, "--format", "parquet", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 3
    result = call("scan", table, "--format", "parquet", code=2)
    assert "-o FILE" in result.stderr
    for kind in ("parquet", "csv"):
        result = call("scan", table, "-o", tmp_path / "no" / f"out.{kind}", code=2)
        assert result.stderr == f"lakeidx: {tmp_path}/no: the folder to write to does not exist\n"


def test_scan_as_arrow_is_what_upsert_takes(table: str, tmp_path: Path) -> None:
    call("scan", table, "--format", "arrow", "-o", tmp_path / "out.arrows")
    written = pa.ipc.open_stream(tmp_path / "out.arrows").read_all()
    assert pa.ipc.open_stream(call("scan", table, "--format", "arrow").stdout_bytes).read_all().equals(written)
    assert written.num_rows == 3
    assert written.schema.field("amount").type == pa.decimal128(10, 2)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []
    copy = f"{tmp_path}/wh/db.db/copy"
    call("table", "create", copy, "--schema", tmp_path / "spec.json")
    call("upsert", copy, tmp_path / "out.arrows")
    assert sorted(lines("scan", copy), key=lambda r: str(r["id"])) == ROWS


def test_scan_reads_older_states(table: str, tmp_path: Path) -> None:
    call("upsert", table, write_lines(tmp_path / "more.jsonl", [{**ROWS[0], "note": "new", "_kind": "+U"}]))
    assert {r["note"] for r in lines("scan", table, "--where", "id = 1")} == {"new"}
    assert {r["note"] for r in lines("scan", table, "--where", "id = 1", "--snapshot", 1)} == {"a"}
    result = call("scan", table, "--snapshot", 99, code=2)
    assert "snapshots 1 to 2 exist" in result.stderr


def test_deletes_and_csv(table: str, tmp_path: Path) -> None:
    file = tmp_path / "d.csv"
    file.write_text("id,day,amount,note,_kind\n1,2026-01-01,,,-D\n2,2026-01-01,7.00,x,+U\n")
    done = answer("upsert", table, file)
    assert (done["deletes"], done["updates"], done["inserts"]) == (1, 1, 0)
    assert {(r["id"], r["amount"]) for r in lines("scan", table)} == {(2, "7.00"), (3, "-3.25")}


def test_rejected_rows_are_named_and_strict_refuses(table: str, tmp_path: Path) -> None:
    rows = [{"id": "x", "day": "2026-01-01"}, {"id": 5, "day": None}, {"id": 6, "day": "2026-01-01", "amount": "123456789.00"},
            {"id": 7, "day": "2026-01-01", "_kind": "?"}, {"id": 8, "day": "2026-01-01"}]  # fmt: skip
    file = write_lines(tmp_path / "bad.jsonl", rows)  # type: ignore[arg-type]
    refused = call("upsert", table, file, "--missing", "null", "--strict", code=1)
    assert "4 rows rejected" in refused.stderr
    assert len(lines("snapshots", table, "--format", "jsonl")) == 1
    done = call("upsert", table, file, "--missing", "null")
    assert json.loads(done.stdout)["rejected"] == 4
    assert "line 1: cast: column id" in done.stderr
    assert "line 2: null: column day" in done.stderr
    assert {r["id"] for r in lines("scan", table)} == {1, 2, 3, 8}


def test_lists_show_buckets_files_and_snapshots(table: str) -> None:
    buckets = lines("buckets", table, "--format", "jsonl")
    assert sorted((b["rows"], b["index_hashes"], b["files"]) for b in buckets) == [(1, 1, 1), (2, 2, 1)]
    assert sum(f["rows"] for f in lines("files", table, "--format", "jsonl")) == 3
    assert {i["type"] for i in lines("index", table, "--format", "jsonl")} == {"HASH"}


def test_keys_prints_hash_and_bucket_of_each_row(table: str, tmp_path: Path) -> None:
    rows = write_lines(tmp_path / "k.jsonl", [{"id": 1, "day": "2026-01-01"}, {"id": 77, "day": "2026-01-01"}])
    found = lines("keys", table, "--rows", rows)
    # The hash of INT 1 is a fact of the format.
    assert found[0] == {
        "partitionHash": found[1]["partitionHash"],
        "keyHash": 1465514398,
        "keyBytes": "00000000000000000100000000000000",
        "bucket": 0,
    }
    assert found[1]["bucket"] is None


def test_show_and_inspect(table: str) -> None:
    shown = answer("table", "show", table)
    assert shown["bucketMode"] == "HASH_DYNAMIC"
    assert shown["snapshot"]["id"] == 1
    for file in (
        "schema/schema-0",
        "snapshot/snapshot-1",
        "snapshot/LATEST",
        f"manifest/{shown['snapshot']['baseManifestList']}",
    ):
        assert answer("inspect", f"{table}/{file}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scan", "/nowhere/db.db/t"), "not a Paimon table"),
        (("scan", "TABLE", "--where", "idd = 1"), "did you mean 'id'"),
        (("scan", "TABLE", "--columns", "nope"), "nope"),
        (("upsert", "TABLE", "/nowhere.parquet"), "does not exist"),
        (("upsert", "TABLE", "/etc/hostname"), "file extension"),
        (("inspect", "/nowhere"), "/nowhere"),
        (("scan", "TABLE", "--tag", "none"), "tags: none"),
    ],
)
def test_errors_are_one_clear_line(table: str, arguments: tuple[str, ...], words: str) -> None:
    result = call(*(table if a == "TABLE" else a for a in arguments), code=2)
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_a_bad_schema_file_is_named(tmp_path: Path) -> None:
    bad = {**SPEC, "primaryKeys": ["nope"]}
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps(bad))
    result = call("table", "create", f"{tmp_path}/wh/db.db/x", "--schema", spec, code=2)
    assert "nope" in result.stderr
    assert not (tmp_path / "wh").exists()


@pytest.mark.slow
def test_compact_expire_tag_rollback_orphans(table: str, tmp_path: Path) -> None:
    for i in range(3):
        call("upsert", table, write_lines(tmp_path / f"u{i}.jsonl", [{**ROWS[0], "note": f"n{i}"}]))
    call("tag", "create", table, "before")
    plan = answer("compact", table, "--full", "--dry-run")
    assert (plan["dry_run"], plan["snapshot_ids"], len(plan["picked"])) == (True, [], 2)
    done = answer("compact", table, "--full", "--partition", "day=2026-01-01")
    assert (done["rows_in"], done["rows_out"]) == (5, 2)
    assert {r["note"] for r in lines("scan", table, "--where", "id = 1")} == {"n2"}
    assert lines("tag", "list", table, "--format", "jsonl")[0]["tag"] == "before"
    stray = Path(table) / "day=20454" / "bucket-0" / "data-00000000-0000-0000-0000-000000000000-0.parquet"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"left behind")
    found = lines("orphans", table, "--older-than", "0 s", "--format", "jsonl")
    assert [Path(str(f["path"])).name for f in found] == [stray.name]
    assert stray.exists()
    call("orphans", table, "--older-than", "0 s", "--yes")
    assert not stray.exists()
    answer("expire", table, "--dry-run")
    assert answer("rollback", table, "--tag", "before")["snapshot"] == 4
    assert {r["note"] for r in lines("scan", table, "--where", "id = 1")} == {"n2"}


def test_what_has_nothing_to_do_says_why(table: str, tmp_path: Path) -> None:
    again = lakeidx.Table.open(table).upsert_files([str(tmp_path / "rows.jsonl")], batch_id="one")
    assert str(again).startswith("nothing to do: batch one had been committed before\n")
    assert call("tag", "list", table).stdout == "(none)\n"
    orphans = call("orphans", table)
    assert (orphans.stdout, len(orphans.stderr.splitlines())) == ("(none)\n", 1)
    empty = call("table", "list", tmp_path / "none")
    assert empty.stdout == "(none)\n"
    assert "WAREHOUSE/DATABASE.db/TABLE" in empty.stderr
    call("compact", table, "--full")
    assert "takes all that are not one run yet" in str(lakeidx.Table.open(table).compact(full=True))


def test_slips_are_answered_with_what_there_is(table: str, tmp_path: Path) -> None:
    keys = write_lines(tmp_path / "keys.jsonl", [{"idd": 1, "day": "2026-01-01"}])
    assert "there is no column id; did you mean 'idd'" in call("lookup", table, "--keys", keys, code=2).stderr
    spec = tmp_path / "spec.json"
    assert "--if-not-exists" in call("table", "create", table, "--schema", spec, code=2).stderr
    assert "the oldest is of 20" in call("scan", table, "--timestamp", "2020-01-01", code=2).stderr
    more = write_lines(tmp_path / "more.jsonl", [{**ROWS[0], "extra": 1}])
    said = call("upsert", table, more, code=2).stderr
    assert "--merge-schema add" in said
    assert "--ignore-extra-columns" in said


def test_people_see_tables_where_programs_see_json(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = write_lines(tmp_path / "keys.jsonl", [{"id": 1, "day": "2026-01-01"}, {"id": 9, "day": "2026-01-01"}])
    commands = [("table", "show", table), ("lookup", table, "--keys", keys), ("keys", table, "--rows", keys)]
    for_programs = [call(*command).stdout for command in commands]
    for module in ("table_commands", "lookup_command", "read_commands"):
        monkeypatch.setattr(f"lakeidx.cli.{module}.for_programs", lambda as_json: as_json)
    shown, found, hashes = (call(*command) for command in commands)
    assert "DECIMAL(10, 2)" in shown.stdout
    assert "snapshot 1 of 20" in shown.stdout
    assert "3 stored rows" in shown.stdout
    assert "2026-01-01" in found.stdout
    assert found.stderr == "1 of 2 keys are not in the table: day=2026-01-01, id=9\n"
    assert "keyHash" in hashes.stdout
    assert [call(*command, "--json").stdout for command in commands] == for_programs


def test_of_many_missing_keys_the_first_are_named(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeidx.cli.lookup_command.for_programs", lambda as_json: as_json)
    keys = write_lines(tmp_path / "keys.jsonl", [{"id": k, "day": "2026-01-01"} for k in (1, *range(10, 23))])
    told = call("lookup", table, "--keys", keys).stderr
    assert told.startswith("13 of 14 keys are not in the table: day=2026-01-01, id=10; day=2026-01-01, id=11; ")
    assert told.endswith("; day=2026-01-01, id=19; and 3 more\n")


def test_json_and_another_format_are_refused(table: str) -> None:
    assert "not both" in call("scan", table, "--json", "--format", "csv", code=2).stderr
    lists = ("snapshots", "files", "buckets", "orphans", "index list", "tag list", "consumer list", "advise")
    commands = [[*name.split(), table] for name in lists] + [["table", "list", Path(table).parent.parent]]
    for command in commands:
        refused = call(*command, "--json", "--format", "table", code=2).stderr
        assert refused == "lakeidx: give --json or --format table, not both\n", command
    assert lines("scan", table, "--json", "--limit", 1) == lines("scan", table, "--limit", 1)
