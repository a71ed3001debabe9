"""A batch that was refused because an option had changed since it was staged stayed refused for ever under its id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.stages.bucket_assignment import run_bucket_assignment
from lakeidx.batch.stages.index_write import run_index_write
from lakeidx.batch.upsert import commit_batch, ingest_files, make_context, upsert_files
from lakeidx.errors import CommitConflictError
from lakeidx.format.schema.schema_file import encode_schema
from tests.kit.small_tables import content, make_table


def test_the_batch_runs_anew_under_its_id(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"bucket": "2"})
    landing = tmp_path / "rows.csv"
    landing.write_text("p,k,v\n1,1,one\n1,2,two\n")
    context = make_context(table.metadata, "b1")
    ingest_files(context, [str(landing)])
    run_bucket_assignment(context)
    run_index_write(context, 1)
    newer = replace(table.schema, id=1, options={**table.schema.options, "bucket": "4"})
    table.store.put(table.paths.schema_path(1), encode_schema(newer))
    with pytest.raises(CommitConflictError, match=r"option 'bucket' changed from '2' to '4' .* run it again"):
        commit_batch(context)
    assert content(Table.open(table.uri)) == {}
    again = upsert_files(make_context(Table.open(table.uri).metadata, "b1"), [str(landing)])
    assert not again.already
    assert content(Table.open(table.uri)) == {(1, 1): "one", (1, 2): "two"}
    assert upsert_files(make_context(Table.open(table.uri).metadata, "b1"), [str(landing)]).already
