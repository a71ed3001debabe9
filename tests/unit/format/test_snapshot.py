from __future__ import annotations

import json
from typing import Any

import pytest

from lakeidx.errors import CorruptFileError, UnsupportedError
from lakeidx.format.snapshot import CommitKind, Snapshot, decode_snapshot, encode_snapshot

# A snapshot as Paimon 1.4.2 writes it.
TEXT = """{
  "version" : 3,
  "id" : 2,
  "schemaId" : 0,
  "baseManifestList" : "manifest-list-36f07cff-eb06-4eeb-bca1-87f59770c2e8-2",
  "baseManifestListSize" : 1110,
  "deltaManifestList" : "manifest-list-36f07cff-eb06-4eeb-bca1-87f59770c2e8-3",
  "deltaManifestListSize" : 1109,
  "commitUser" : "golden",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "COMPACT",
  "timeMillis" : 1795256162118,
  "totalRecordCount" : 21,
  "deltaRecordCount" : 0,
  "nextRowId" : 0
}"""
MINIMAL: dict[str, Any] = {
    "id": 2,
    "schema_id": 0,
    "base_manifest_list": "b",
    "delta_manifest_list": "d",
    "commit_user": "u",
    "commit_identifier": 1,
    "commit_kind": CommitKind.APPEND,
    "time_millis": 3,
    "total_record_count": 4,
    "delta_record_count": 5,
}


def test_order_of_all_keys() -> None:
    s = Snapshot(
        **MINIMAL, uuid="x", base_manifest_list_size=1, delta_manifest_list_size=1, changelog_manifest_list="c",
        changelog_manifest_list_size=1, index_manifest="i", writer_version="w", changelog_record_count=1, watermark=-5,
        statistics="stat", properties={"a": "b"}, next_row_id=9, operation="WRITE",
    )  # fmt: skip
    assert list(json.loads(encode_snapshot(s))) == [
        "version", "uuid", "id", "schemaId", "baseManifestList", "baseManifestListSize", "deltaManifestList",
        "deltaManifestListSize", "changelogManifestList", "changelogManifestListSize", "indexManifest", "commitUser",
        "writerVersion", "commitIdentifier", "commitKind", "timeMillis", "totalRecordCount", "deltaRecordCount",
        "changelogRecordCount", "watermark", "statistics", "properties", "nextRowId", "operation",
    ]  # fmt: skip
    assert decode_snapshot(encode_snapshot(s)) == s


def test_old_and_foreign_files() -> None:
    value = json.loads(TEXT)
    del (
        value["version"],
        value["nextRowId"],
        value["baseManifestListSize"],
        value["totalRecordCount"],
        value["deltaRecordCount"],
    )
    value |= {"logOffsets": {"0": 1}, "future": [1], "properties": None}
    s = decode_snapshot(json.dumps(value).encode())
    assert (s.version, s.next_row_id, s.base_manifest_list_size, s.total_record_count, dict(s.properties)) == (
        1,
        None,
        None,
        0,
        {},
    )
    value["version"] = 4
    with pytest.raises(UnsupportedError, match="version 4"):
        decode_snapshot(json.dumps(value).encode(), "f")


@pytest.mark.parametrize(
    "key",
    [
        "id",
        "schemaId",
        "baseManifestList",
        "deltaManifestList",
        "commitUser",
        "commitIdentifier",
        "commitKind",
        "timeMillis",
    ],
)
def test_missing_keys_are_named(key: str) -> None:
    value = json.loads(TEXT)
    del value[key]
    with pytest.raises(CorruptFileError, match=f"{key}: expected") as caught:
        decode_snapshot(json.dumps(value).encode(), "snapshot-2")
    assert caught.value.path == "snapshot-2"
    value[key] = {"not": "this"}
    with pytest.raises(CorruptFileError, match=f"{key}: expected"):
        decode_snapshot(json.dumps(value).encode(), "snapshot-2")


def test_unknown_commit_kind() -> None:
    with pytest.raises(CorruptFileError, match="APPEND, COMPACT, OVERWRITE, ANALYZE"):
        decode_snapshot(TEXT.replace("COMPACT", "REWRITE").encode())
