"""Parts are bounded in rows and in bytes, however wide the rows are and whatever types they come in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeidx
from lakeidx.batch import parts as parts_module
from lakeidx.batch.artifacts import IngestReport, StagedPart
from lakeidx.batch.context import make_context
from lakeidx.batch.landed_files import describe_source
from lakeidx.batch.parts import cut, is_full, read_part
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.landing import types as landing_types
from lakeidx.storage.local import LocalStore
from tests.kit.small_tables import make_table, rows, table_spec

KIB = 1024


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits a thousandth of the real ones: 256 KiB a part, 1,000 rows."""
    monkeypatch.setattr(parts_module, "PART_ROWS", 1000)
    monkeypatch.setattr(parts_module, "PART_BYTES", 256 * KIB)


def texts(widths: list[int], t: pa.DataType | None = None) -> pa.Table:
    return pa.table({
        "id": pa.array(range(len(widths)), pa.int64()),
        "s": pa.array(["x" * w for w in widths], t or pa.string()),
    })  # fmt: skip


def lengths(rows: pa.Table) -> list[int]:
    return [part.num_rows for part in cut(rows)]


def test_rows_are_cut_by_their_number_and_bytes() -> None:
    assert lengths(texts([1] * 2500)) == [1000, 1000, 500]
    assert lengths(texts([])) == []
    # A row has 8 bytes besides its text: 128 rows of 2 KiB are a part.
    assert lengths(texts([2 * KIB - 8] * 300)) == [128, 128, 44]
    assert lengths(texts([2 * KIB - 8] * 128)) == [128]
    # One row wider than a part is a part.
    assert [part.column("id").to_pylist() for part in cut(texts([10, 700 * KIB, 10, 10]))] == [[0, 1], [2, 3]]
    assert not is_full(999, 256 * KIB - 1)
    assert is_full(1000, 0)
    assert is_full(1, 256 * KIB)


@pytest.mark.parametrize(
    "t",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.binary(), pa.binary_view()],
    ids=str,
)
def test_the_same_rows_are_cut_at_the_same_places_in_whatever_type_they_come(t: pa.DataType) -> None:
    widths = [(i * 7919) % (3 * KIB) for i in range(900)]
    plain = texts(widths)
    if pa.types.is_dictionary(t):
        other = plain.set_column(1, "s", plain.column("s").dictionary_encode())
    elif "binary" in str(t):
        other = texts(widths).set_column(1, "s", plain.column("s").cast(pa.binary()).cast(t))
    else:
        other = plain.set_column(1, "s", plain.column("s").cast(t))
    in_chunks = pa.concat_tables([other.slice(0, 100), other.slice(100, 333), other.slice(433)])
    assert lengths(other) == lengths(in_chunks) == lengths(plain)
    assert len(lengths(plain)) > 3


def test_nulls_and_nested_values_have_a_size_too() -> None:
    rows = pa.table(
        {"s": pa.array([None] * 10, pa.string()), "l": [[1, 2, 3]] * 10, "n": pa.nulls(10), "b": [True] * 10}
    )
    assert lengths(rows) == [10]


def staged(folder: Path, rows: pa.Table, **written: int) -> IngestReport:
    """Stage a Parquet file with those rows; checks that all of them come in order."""
    file = folder / "rows.parquet"
    pq.write_table(rows, file, use_dictionary=False, **written)
    spec = table_spec("id BIGINT, s STRING", ["id"], options={"bucket": "-1"})
    table = lakeidx.Table.create(f"{folder}/wh/d.db/t", spec)
    table.upsert_files([str(file)], batch_id="b")
    found = table.scan().to_arrow().sort_by("id")
    assert found.equals(rows.cast(found.schema))
    return make_context(table.metadata, "b").files.require(IngestReport)


def test_row_groups_of_a_landing_file_make_parts_of_bounded_bytes(tmp_path: Path) -> None:
    report = staged(tmp_path, texts([2 * KIB] * 400), row_group_size=50)
    assert [p.rows for p in report.parts] == [150, 150, 100]
    assert all(p.by_reference for p in report.parts)


def test_a_row_group_that_is_too_large_to_be_read_as_a_whole_is_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeidx.batch.stages.ingest.GROUP_BYTES", 512 * KIB)
    monkeypatch.setattr(landing_types, "_MOST_BYTES", 64 * KIB)
    report = staged(tmp_path, texts([2 * KIB] * 400), row_group_size=400)
    assert not any(p.by_reference for p in report.parts)
    assert sum(p.rows for p in report.parts) == 400
    assert max(p.rows for p in report.parts) <= 160


def test_given_rows_are_compared_part_by_part_when_they_come_again(tmp_path: Path) -> None:
    spec = table_spec("id BIGINT, s STRING", ["id"], options={"bucket": "-1"})
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    widths = [(i * 7919) % (3 * KIB) for i in range(900)]
    table.upsert(texts(widths), batch_id="b")
    report = make_context(table.metadata, "b").files.require(IngestReport)
    assert len(report.parts) > 3
    assert table.upsert(texts(widths, pa.large_string()), batch_id="b").commit.already
    widths[500] += 1
    with pytest.raises(InvalidInputError, match="other content"):
        table.upsert(texts(widths), batch_id="b")


def test_an_arrow_file_of_one_large_record_batch_makes_parts_of_bounded_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing_types, "_MOST_BYTES", 64 * KIB)
    rows = texts([2 * KIB] * 300)
    file = tmp_path / "rows.arrow"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    spec = table_spec("id BIGINT, s STRING", ["id"], options={"bucket": "-1"})
    table = lakeidx.Table.create(f"{tmp_path}/wh/d.db/t", spec)
    table.upsert_files([str(file)], batch_id="b")
    report = make_context(table.metadata, "b").files.require(IngestReport)
    assert sum(p.rows for p in report.parts) == 300
    assert max(p.rows for p in report.parts) <= 128 + 31


def test_a_part_is_read_from_its_row_groups(tmp_path: Path) -> None:
    schema = make_table(tmp_path).schema
    path, store = str(tmp_path / "f.parquet"), LocalStore(str(tmp_path))
    pq.write_table(rows([(1, k, str(k)) for k in range(500)]), path, row_group_size=100)
    part = StagedPart(path=path, rows=300, bytes=1, source=0, row_groups=(1, 2, 4))
    source = describe_source(store, path, {})
    keys = [*range(100, 300), *range(400, 500)]
    found = read_part(store, source, part, schema, ["k", "v"], dictionaries=["v"])
    assert found.column("k").to_pylist() == keys
    assert found.column("v").cast(pa.string()).to_pylist() == [str(k) for k in keys]
    whole = part.model_copy(update={"row_groups": None, "rows": 499})
    with pytest.raises(CorruptFileError, match="has 500 rows, not 499"):
        read_part(store, source, whole, schema, ["k"])
