"""What is read of a table while others write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.storage import LocalStore
from lakeidx.table.metadata import TableMetadata
from tests.kit.metered_store import MeteredStore
from tests.kit.small_tables import filled_table, upsert


def test_a_snapshot_that_is_committed_meanwhile_is_not_behind_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    listed = TableMetadata.listed_snapshot_ids

    def beside(metadata: TableMetadata) -> list[int]:
        found = listed(metadata)
        if metadata is table.metadata:
            upsert(Table.open(table.uri), [(1, 2, "b")])
        return found

    monkeypatch.setattr(TableMetadata, "listed_snapshot_ids", beside)
    evidence = load_evidence(table.metadata)
    assert table.metadata.latest_snapshot_id() == 2
    assert (sorted(evidence.snapshots), evidence.latest_hint) == ([1], 1)
    assert [r.name for r in verify(evidence) if not r.passed] == []


@pytest.mark.slow
def test_keys_of_so_many_rows_are_read_of_buckets_that_are_drawn(tmp_path: Path) -> None:
    table = filled_table(tmp_path, [(1, k, "a") for k in range(40)])
    opened = Table.open(table.uri)
    places = list(load_evidence(opened.metadata).scope)
    assert len(places) == 4

    def read(rows: int, seed: str) -> list[int]:
        evidence = load_evidence(opened.metadata, buckets=places, key_rows=rows, seed=seed)
        assert all(r.passed for r in verify(evidence))
        assert (len(evidence.scope), len(evidence.index), evidence.decoded[0]) == (4, 4, 4)
        return sorted(bucket for _, bucket in evidence.live)

    assert read(40, "b1") == [0, 1, 2, 3]
    assert len(read(29, "b1")) == 2
    assert len(read(1, "b1")) == 1
    assert read(20, "b1") == read(20, "b1")
    # Over some batches every bucket has its turn.
    assert {b for n in range(20) for b in read(1, f"b{n}")} == {0, 1, 2, 3}


def test_buckets_of_a_partition_are_listed_together(tmp_path: Path) -> None:
    table = filled_table(
        tmp_path, [(1, k, "a") for k in range(40)], [(1, k, "b") for k in range(40)], options={"bucket": "4"}
    )
    store = MeteredStore(LocalStore(table.uri))
    found = load_evidence(TableMetadata.open(store, table.uri))
    assert all(r.passed for r in verify(found))
    assert (len(found.live), found.decoded[0], store.counts["walk"].requests) == (4, 8, 1)
