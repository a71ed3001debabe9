"""A folder of an object store is loaded like one on a disk: each object once, by its name and its mark."""

from __future__ import annotations

import pytest

import lakeidx
from lakeidx.storage import open_store
from tests.kit.s3_server import S3Server, s3_server

__all__ = ["s3_server"]

SPEC = {
    "fields": [{"name": "id", "type": "BIGINT"}, {"name": "amount", "type": "BIGINT"}],
    "primaryKeys": ["id"],
    "options": {"bucket": "1", "merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"},
}


@pytest.mark.s3
def test_objects_of_a_folder_are_loaded_once(s3_server: S3Server) -> None:
    lake = s3_server.fresh_uri("load")
    store = open_store(lake, s3_server.storage_options)
    table = lakeidx.Table.create(f"{lake}/d.db/t", SPEC, s3_server.storage_options)
    folder = f"{lake}/landing"
    assert table.load(folder, lakeidx.LandingOptions(storage_options=s3_server.storage_options)).files == ()
    for name, amount in (("a.csv", 1), ("b.csv", 20)):
        store.put(f"{folder}/{name}", f"id,amount\n1,{amount}\n".encode())
    options = lakeidx.LandingOptions(storage_options=s3_server.storage_options)
    assert [table.load(folder, options).rows for _ in range(2)] == [2, 0]
    # The same bytes put again are known by their mark, others are new.
    store.put(f"{folder}/a.csv", b"id,amount\n1,1\n")
    assert table.load(folder, options).rows == 0
    store.put(f"{folder}/a.csv", b"id,amount\n1,300\n")
    assert table.load(folder, options).rows == 1
    assert table.scan().to_arrow().column("amount").to_pylist() == [321]
