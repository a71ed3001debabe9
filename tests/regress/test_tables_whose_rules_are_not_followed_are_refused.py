"""Tables whose options ask for rules that lakeidx does not follow were read wrongly, upserted and compacted (H3, G6).

A data-evolution table of two rows scanned as four rows with nulls, a compaction wrote that down, and an upsert alone made the
table unreadable for Java.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.errors import UnsupportedError
from lakeidx.format.paths import TablePaths
from lakeidx.format.schema.schema_file import encode_schema, new_schema
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.storage import open_store
from lakeidx.tasks.runner import LocalRunner

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


def make(path: Path, **options: str) -> Table:
    fields = [{"name": "id", "type": "BIGINT"}, {"name": "v", "type": "STRING"}]
    keys = [] if "row-tracking.enabled" in options else ["id"]
    options = options if not keys else {"bucket": "1", **options}
    # As another program makes it: lakeidx makes no table that it cannot write.
    schema = new_schema({"fields": fields, "primaryKeys": keys, "options": options})
    store = open_store(str(path))
    store.put_if_absent(TablePaths.of(str(path / "t"), schema).schema_path(0), encode_schema(schema))
    return Table.open(str(path / "t"))


def test_data_evolution_is_refused_for_everything(tmp_path: Path) -> None:
    table = make(tmp_path, **{"row-tracking.enabled": "true", "data-evolution.enabled": "true"})
    for use, call in (
        ("reading", lambda: table.scan()),
        ("writing", lambda: table.upsert(ROWS)),
        ("writing", lambda: table.overwrite(ROWS, whole_table=True)),
        ("compaction", lambda: run_compaction(table.metadata, LocalRunner(1), full=True)),
    ):
        with pytest.raises(
            UnsupportedError, match=f"{use} is refused: data-evolution.enabled=true: the columns of a row"
        ):
            call()
    assert not (tmp_path / "t" / "snapshot").exists()


def test_row_tracking_may_be_read(tmp_path: Path) -> None:
    table = make(tmp_path, **{"row-tracking.enabled": "true"})
    assert table.scan().to_arrow().num_rows == 0
    with pytest.raises(UnsupportedError, match=r"writing is refused: row-tracking.enabled=true"):
        table.upsert(ROWS)


@pytest.mark.parametrize("option", ["sequence.snapshot-ordering", "pk-clustering-override", "chain-table.enabled"])
def test_primary_key_tables_of_other_rules(tmp_path: Path, option: str) -> None:
    table = make(tmp_path, **{option: "true"})
    with pytest.raises(UnsupportedError, match=f"reading is refused: {option}=true"):
        table.scan()
    with pytest.raises(UnsupportedError, match=f"reading is refused: {option}=true"):
        table.lookup(pa.table({"id": pa.array([1], pa.int64())}))
    with pytest.raises(UnsupportedError, match=f"writing is refused: {option}=true"):
        table.upsert(ROWS)
    with pytest.raises(UnsupportedError, match=f"compaction is refused: {option}=true"):
        run_compaction(table.metadata, LocalRunner(1))


def test_an_option_set_later_is_noticed_by_an_open_table(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(ROWS)
    schema = tmp_path / "t" / "schema"
    (schema / "schema-1").write_text(
        (schema / "schema-0")
        .read_text()
        .replace('"id" : 0,', '"id" : 1,', 1)
        .replace('"bucket"', '"chain-table.enabled" : "true",\n"bucket"')
    )
    with pytest.raises(UnsupportedError, match=r"chain-table\.enabled=true"):
        table.upsert(ROWS)
    with pytest.raises(UnsupportedError, match=r"chain-table\.enabled=true"):
        table.scan()
