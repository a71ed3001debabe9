"""How jobs end: exit codes by the kind of error, one line on stderr, the report on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeidx.errors import InvalidInputError, LakeIdxError, RejectedRowsError, UnavailableError
from lakeidx.jobs import compaction, file_index_rebuild, ingest, lookup_store
from lakeidx.jobs.arguments import add_engine_arguments, make_runner, run_job, table_parser
from tests.kit.small_tables import content, make_table, upsert


@pytest.mark.parametrize(
    ("error", "code"),
    [(RejectedRowsError("3 rows"), 1), (InvalidInputError("the batch is strict"), 2), (UnavailableError("s3"), 2)],
)
def test_the_exit_code_hangs_on_the_kind_of_error_not_on_its_words(
    error: LakeIdxError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> dict[str, int]:
        raise error

    assert run_job(fail) == code
    assert capsys.readouterr() == ("", f"{error.kind}: {error.message}\n")


def test_a_dry_run_needs_no_spark() -> None:
    parser = table_parser("Job: x\n\nmore")
    add_engine_arguments(parser)
    assert parser.description == "Job: x"
    assert make_runner(parser.parse_args(["t", "--parallelism", "3"]), "x", local=True).parallelism == 3
    assert make_runner(parser.parse_args(["t", "--engine", "local"]), "x").parallelism == 2


def test_jobs_of_a_table_run_in_this_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(tmp_path, options={"file-index.bloom-filter.columns": "v"})
    for i in range(2):
        upsert(table, [(p, k, f"{i}-{k}") for p in (1, 2) for k in range(3)])
    before = content(table)
    assert compaction.main([table.uri, "--engine", "local", "--full", "--partition", "p=2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["buckets"], report["files_in"]) == (1, 2)
    assert lookup_store.main([table.uri, "--engine", "local"]) == 0
    assert json.loads(capsys.readouterr().out)["built"] == 3
    assert file_index_rebuild.main([table.uri, "--engine", "local", "--type", "bitmap", "--columns", "v"]) == 0
    assert json.loads(capsys.readouterr().out)["rewritten"] == 3
    assert content(table) == before
    assert compaction.main([table.uri, "--engine", "local", "--partition", "q=2"]) == 2
    assert capsys.readouterr().err == "invalid_input: --partition 'q=2': give p=..., each once\n"
    assert file_index_rebuild.main([table.uri, "--engine", "local", "--columns", "v"]) == 2
    assert capsys.readouterr().err == "invalid_input: --columns and --drop need --type\n"


def test_a_strict_stage_with_a_bad_row_gives_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.yaml").write_text(
        f"""table: d.t
warehouse: {tmp_path}/wh
fields: [{{name: k, type: INT}}, {{name: v, type: INT}}]
primaryKeys: [k]
landing: {{path: {tmp_path}, pattern: "*.csv", format: csv}}
partitions: {{by: files}}
"""
    )
    (tmp_path / "a.csv").write_text("k,v\n1,2\n2,x\n")
    arguments = ["--pipeline", f"{tmp_path}/t.yaml", "--batch-id", "b", "--engine", "local", f"{tmp_path}/a.csv"]
    assert ingest.main([*arguments, "--strict"]) == 1
    assert capsys.readouterr().err.startswith("invalid_input: ")
    assert ingest.main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["rows_in"] == 2
