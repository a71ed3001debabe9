"""What is read of a table while others write to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import verify
from lakeidx.table.handle import TableHandle
from lakeidx.table.metadata import TableMetadata
from lakeidx.testing.small_tables import make_table, upsert


def test_a_snapshot_that_is_committed_meanwhile_is_not_behind_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path)
    upsert(table, [(1, 1, "a")])
    listed = TableMetadata.snapshot_ids

    def beside(metadata: TableMetadata) -> list[int]:
        found = listed(metadata)
        if metadata is table.metadata:
            upsert(TableHandle.open(table.uri), [(1, 2, "b")])
        return found

    monkeypatch.setattr(TableMetadata, "snapshot_ids", beside)
    evidence = load_evidence(table.metadata)
    assert table.metadata.latest_snapshot_id() == 2
    assert (sorted(evidence.snapshots), evidence.latest_hint) == ([1], 1)
    assert [r.name for r in verify(evidence) if not r.passed] == []
