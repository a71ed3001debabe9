"""Feeds of many tables on a real S3 server: messages of many tables in a file, files of AWS DMS in folders."""

from __future__ import annotations

import pytest

import lakeidx
from lakeidx.landing.feed_options import FeedOptions
from lakeidx.landing.types import LandingOptions
from lakeidx.storage import open_store
from tests.kit.many_tables import FEEDS, ManyTables
from tests.kit.s3_server import S3Server, s3_server

__all__ = ["s3_server"]
pytestmark = pytest.mark.s3


def test_tables_of_feeds_on_s3(s3_server: S3Server) -> None:
    lake, options = s3_server.fresh_uri("lake"), s3_server.storage_options
    store = open_store(lake, options)
    warehouse = lakeidx.Warehouse(f"{lake}/wh", options)
    source = ManyTables(5, tables=4).run(60)
    form, messages, _, _ = FEEDS["canal"]
    for number, events in enumerate((source.events[:30], source.events[30:])):
        store.put(f"{lake}/in/{number}.json", "".join(f"{m}\n" for m in messages(events)).encode())
        for _ in range(2):
            (result,) = warehouse.sync_database("ods", [f"{lake}/in/{number}.json"], LandingOptions(form))
    assert set(result.tables.values()) == {None}
    source.check(warehouse)

    store.put(f"{lake}/dms/shop/orders/LOAD00000001.csv", b"id,price\n1,9.50\n2,1.00\n")
    store.put(f"{lake}/dms/shop/orders/20240101-101112123.csv", b"Op,id,price\nD,2,1.00\n")
    keys = FeedOptions(primary_keys={"*": ("id",)})
    results = warehouse.sync_database("dms", [f"{lake}/dms"], LandingOptions("dms"), keys)
    assert [r.created for r in results] == [("orders",), ()]
    assert warehouse.table("dms.orders").scan().to_arrow().column("id").to_pylist() == [1]
