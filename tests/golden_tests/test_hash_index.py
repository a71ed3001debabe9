"""Every HASH index file of the golden set."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lakeidx.format.hash_index import decode_hash_index, encode_hash_index
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden
LINES = [json.loads(x) for x in (GOLDEN / "hash-index" / "files.jsonl").read_text(encoding="utf-8").splitlines()]


def test_there_are_lines() -> None:
    assert LINES


@pytest.mark.parametrize("line", LINES, ids=lambda line: line["file"])
def test_file(line: dict[str, Any]) -> None:
    data = (GOLDEN / "hash-index" / line["file"]).read_bytes()
    assert len(data) == line["file_size"]
    hashes = decode_hash_index(data, line["file"])
    assert hashes.dtype == np.int32
    assert len(hashes) == line["row_count"]
    compared = 0
    if line.get("values") is not None:
        assert hashes.tolist() == line["values"]
        compared += 1
    if line.get("sorted_values") is not None:
        assert sorted(hashes.tolist()) == line["sorted_values"]
        compared += 1
    if "xor" in line:
        as_longs = hashes.astype(np.int64)
        assert int(np.bitwise_xor.reduce(hashes)) == line["xor"]
        assert int(as_longs.sum()) == line["sum"]
        if len(hashes):
            assert (int(hashes[0]), int(hashes[-1])) == (line["first"], line["last"])
        compared += 1
    assert compared
    assert encode_hash_index(hashes) == data
