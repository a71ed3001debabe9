"""Blocks as bytes: what comes back is what was sent, in pieces or whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.tasks import blocks as blocks_module
from lakeidx.tasks.blocks import decode_block, encode_block
from lakeidx.tasks.routed_rows import RoutedRows, cut_rows, group_targets


@pytest.mark.parametrize(("weights", "pieces"), [([600_000, 600_000], [4, 4]), ([5, 5], [1])])
def test_pieces_are_of_targets_that_are_alone(
    monkeypatch: pytest.MonkeyPatch, weights: list[int], pieces: list[int]
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 1000)
    groups = group_targets(weights, 1)
    rows = pa.table({"v": np.arange(1000)}).replace_schema_metadata({"of": "x"})
    targets = (np.arange(1000) % 2).astype(np.int32)
    cuts = list(cut_rows(RoutedRows(7, rows, targets), groups))
    encoded = [list(encode_block(cut, groups)) for cut in cuts]
    assert [len(e) for e in encoded] == pieces
    decoded = [decode_block(cut.group, 7, piece) for cut, e in zip(cuts, encoded, strict=True) for piece in e]
    blocks = [b for block in decoded for b in block.blocks()]
    for target in (0, 1):
        found = pa.concat_tables(b.rows for b in blocks if b.target == target)
        assert found.column("v").to_pylist() == list(range(target, 1000, 2))
        assert found.schema.metadata == {b"of": b"x"}
    assert {b.order for b in blocks} == {7}
