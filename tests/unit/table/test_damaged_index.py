"""Every flipped and every missing byte of a file index, met by the scan of a table: a warning, and all rows all the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.api import Table
from lakeidx.file_index.container import decode_index_container, encode_index_container
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import BoundPredicate
from lakeidx.predicate.parse import parse_where
from lakeidx.table.scan.metrics import ScanMetrics
from lakeidx.table.scan.section_read import FileIndexTest
from lakeidx.tasks.runner import LocalRunner

INDEXES = {
    "file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.items": "8", "file-index.bitmap.columns": "b",
    "file-index.bsi.columns": "n", "file-index.range-bitmap.columns": "r",
}  # fmt: skip
#: Asks every index, and each of them decides: no statistics rule the file out.
ALL = "s = 's1#' OR b = 3 OR n = 5 OR r = 7"
SINGLE = "s = 's3'"


def make(folder: Path, threshold: str) -> Table:
    """24 rows in one compacted file with four indexes; b, n and r hold even numbers."""
    spec = {
        "fields": [{"name": "k", "type": "INT"}, {"name": "s", "type": "STRING"},
                   *({"name": c, "type": "INT"} for c in "bnr")],
        "primaryKeys": ["k"],
        "options": {"bucket": "1", "file-index.in-manifest-threshold": threshold, **INDEXES},
    }  # fmt: skip
    table = Table.create(f"{folder}/d.db/t", spec)
    even = [2 * k for k in range(24)]
    numbers = {c: pa.array([x % m for x in even], pa.int32()) for c, m in (("b", 6), ("n", 20), ("r", 48))}
    table.upsert(pa.table({"k": pa.array(range(24), pa.int32()), "s": [f"s{k % 5}" for k in range(24)], **numbers}))
    run_compaction(table.metadata, LocalRunner(1), full=True)
    return table


def damages(data: bytes, step: int = 1) -> list[bytes]:
    """Each `step`-th shorter piece, from none, and one bit of each byte flipped."""
    flipped = [data[:i] + bytes([data[i] ^ 1 << i % 8]) + data[i + 1 :] for i in range(len(data))]
    return [data[:n] for n in range(0, len(data), step)] + flipped


@pytest.mark.slow
def test_a_side_file_with_any_damage_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path, "1 b")
    (path,) = Path(table.uri).glob("bucket-0/*.index")
    whole = path.read_bytes()
    assert table.scan(where=ALL).explain().metrics.read.files == 0
    expected = table.scan(where=SINGLE).to_arrow(threads=1)
    assert expected.num_rows == 5
    caplog.set_level(logging.WARNING)
    test = FileIndexTest(table.store, BoundPredicate(parse_where(ALL, table.schema.fields), table.schema.fields))
    (bucket,) = table.scan().plan.buckets
    (file,) = bucket.files()
    for n, damaged in enumerate(damages(whole, 7)):
        path.write_bytes(damaged)
        caplog.clear()
        metrics = ScanMetrics()
        answer = test.ask(file, str(path).removesuffix(".index"), table.schema, metrics)
        assert (answer.skip, answer.selection, metrics.index_failures) == (False, None, 1), n
        assert "without its index: " in caplog.text
    path.unlink()
    scan = table.scan(where=SINGLE)
    assert scan.to_arrow(threads=1).equals(expected)
    assert scan.metrics.index_failures == 1


@pytest.mark.slow
def test_an_embedded_index_with_any_damage_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make(tmp_path, "1 mb")
    assert table.scan(where=ALL).plan.buckets == ()
    (bucket,) = table.scan().plan.buckets
    (file,) = bucket.files()
    assert file.embedded_index is not None
    test = FileIndexTest(table.store, BoundPredicate(parse_where(ALL, table.schema.fields), table.schema.fields))
    assert not test.embedded_may_match(file, table.schema)
    caplog.set_level(logging.WARNING)
    # No bytes at all mean no index, in the format.
    for damaged in damages(file.embedded_index)[1:]:
        broken = replace(file, embedded_index=damaged)
        caplog.clear()
        assert test.embedded_may_match(broken, table.schema)
        assert "embedded index" in caplog.text
        metrics = ScanMetrics()
        answer = test.ask(broken, f"{table.uri}/bucket-0/{file.file_name}", table.schema, metrics)
        assert (answer.skip, answer.selection, metrics.index_failures) == (False, None, 1)


@pytest.mark.slow
def test_containers_without_checksums_never_stop_a_scan(tmp_path: Path) -> None:
    """As Java writes them: some damage goes unnoticed (see `lakeidx.file_index.container`), none is an error."""
    table = make(tmp_path, "1 b")
    (path,) = Path(table.uri).glob("bucket-0/*.index")
    plain = encode_index_container(decode_index_container(path.read_bytes()), checksums=False)
    path.write_bytes(plain)
    assert table.scan(where=ALL).explain().metrics.read.files == 0
    noticed = 0
    found = damages(plain)[::11]
    for damaged in found:
        path.write_bytes(damaged)
        scan = table.scan(where=ALL)
        assert scan.to_arrow(threads=1).num_rows == 0
        noticed += scan.metrics.index_failures
    assert noticed > 0.6 * len(found)
