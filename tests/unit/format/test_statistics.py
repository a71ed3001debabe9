from __future__ import annotations

import json

import pytest

from lakeidx.errors import CorruptFileError
from lakeidx.format.statistics import TableStatistics, decode_statistics
from tests.kit.scalar_twins import encode_statistics

STATS = TableStatistics(
    snapshot_id=3,
    schema_id=0,
    merged_record_count=10,
    columns={
        "a ä": {"colId": 0, "distinctCount": 4, "min": "1", "max": "9", "nullCount": 0},
        "b": {"colId": 1},
    },
)


def test_round_trip() -> None:
    data = encode_statistics(STATS)
    assert decode_statistics(data) == STATS
    assert json.loads(data) == {
        "snapshotId": 3,
        "schemaId": 0,
        "mergedRecordCount": 10,
        "colStats": {
            "a ä": {"colId": 0, "distinctCount": 4, "min": "1", "max": "9", "nullCount": 0},
            "b": {"colId": 1},
        },
    }


def test_column_statistics_may_be_missing() -> None:
    assert decode_statistics(b'{"snapshotId":1,"schemaId":0}').columns == {}


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b'{"snapshotId":1,"schemaId":0,"colStats":[]}',
        b'{"snapshotId":1,"schemaId":0,"colStats":{"a":1}}',
        b'{"snapshotId":1,"schemaId":0,"colStats":{"a":{}}}',
    ],
)
def test_damaged_statistics_are_an_error(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_statistics(data, "stat-x")
    assert caught.value.path == "stat-x"
