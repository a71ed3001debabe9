"""Iceberg metadata of a table on a real S3 server: readers find there what the last compaction, or a commit before it, left."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table import StaticTable

import lakeidx
from tests.kit.iceberg_readers import by_duckdb
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.small_tables import table_spec

__all__ = ["s3_server"]
pytestmark = pytest.mark.s3
SPEC = table_spec("id BIGINT NOT NULL, p STRING NOT NULL, v STRING", ["p", "id"], partitions=["p"])


@pytest.mark.parametrize(("storage", "folder"), [("table-location", "wh/d.db/t"), ("hadoop-catalog", "wh/iceberg/d/t")])
def test_readers_on_s3(s3_server: S3Server, storage: str, folder: str) -> None:
    lake, options = s3_server.fresh_uri("lake"), s3_server.storage_options
    spec = {**SPEC, "options": {"bucket": "-1", "metadata.iceberg.storage": storage}}
    table = lakeidx.Table.create(f"{lake}/wh/d.db/t", spec, storage_options=options)
    table.upsert([{"id": k, "p": "ab"[k % 2], "v": "x"} for k in range(6)])
    table.compact(full=True)
    table.create_tag("first")
    table.upsert([{"id": 0, "p": "a", "v": "late"}])
    reader = {"s3.endpoint": s3_server.endpoint_url, "s3.access-key-id": s3_server.key,
              "s3.secret-access-key": s3_server.secret, "s3.region": "us-east-1"}  # fmt: skip

    def seen(**how: Any) -> list[Any]:
        found = StaticTable.from_metadata(f"{lake}/{folder}", properties=reader)
        tag = found.snapshot_by_name("first")
        assert tag is not None
        scan = found.scan(snapshot_id=tag.snapshot_id) if how else found.scan()
        return sorted((r["id"], r["v"]) for r in scan.to_arrow().to_pylist())

    before = [(k, "x") for k in range(6)]
    assert seen() == before
    table.compact(full=True)
    assert (
        seen() == [(0, "late"), *before[1:]] == sorted((r["id"], r["v"]) for r in table.scan().to_arrow().to_pylist())
    )
    assert seen(tag="first") == before
    secret = (
        f"KEY_ID '{s3_server.key}', SECRET '{s3_server.secret}', ENDPOINT '{s3_server.endpoint_url.split('//')[1]}'"
    )
    (rows,) = by_duckdb(
        f"{lake}/{folder}", secret=f"CREATE SECRET (TYPE s3, {secret}, URL_STYLE 'path', USE_SSL false)"
    )
    assert sorted((int(r[0]), r[2]) for r in rows) == seen()
