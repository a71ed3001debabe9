"""Expiry, tags and rollback in both directions: Java reads what lakeidx left, and expires what lakeidx wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.table.expiration.expire import expire_table
from lakeidx.table.expiration.plan import Retention
from lakeidx.table.expiration.rollback import roll_back
from lakeidx.table.expiration.tags import create_tag
from tests.kit.java_paimon import JavaPaimon
from tests.kit.reachable import files_on_disk, reachable, reopened
from tests.kit.small_tables import content, make_table, upsert

pytestmark = pytest.mark.interop

NEWEST_ONLY = Retention(num_min=1, num_max=1, limit=1000)


def a_history(folder: Path) -> tuple[Table, JavaPaimon, dict[int, Any]]:
    table = make_table(folder)
    states = {}
    for i in range(6):
        upsert(table, [(k % 2, k, f"{i}-{k}") for k in range(i, i + 6)], overwrite="partitions" if i == 3 else None)
        states[i + 1] = content(table)
    return table, JavaPaimon(f"{folder}/wh", "d.t"), states


def java_content(java: JavaPaimon, *options: str) -> dict[tuple[int, int], str]:
    return {(int(r["p"]), int(r["k"])): r["v"] for r in java.json("read", *options)}


def test_java_reads_writes_and_continues_after_our_expiry(tmp_path: Path) -> None:
    table, java, states = a_history(tmp_path)
    create_tag(table.metadata, "two", snapshot_id=2)
    create_tag(table.metadata, "timed", snapshot_id=4, retained_ms=86_400_000)
    expire_table(table.metadata, table.schema, now_ms=1 << 60, retention=NEWEST_ONLY)
    assert java_content(java) == states[6]
    assert java_content(java, "scan.tag-name=two") == states[2]
    assert java_content(java, "scan.tag-name=timed") == states[4]
    java.write([{"p": "1", "k": "77", "v": "from Java"}], tmp_path / "rows.jsonl")
    assert content(reopened(table)) == states[6] | {(1, 77): "from Java"}
    assert content(reopened(table), tag="two") == states[2]


def test_java_expires_what_we_wrote_and_tagged(tmp_path: Path) -> None:
    table, java, states = a_history(tmp_path)
    create_tag(table.metadata, "two", snapshot_id=2)
    java.run("expire")
    assert reopened(table).metadata.snapshot_ids() == [6]
    assert content(reopened(table)) == states[6]
    assert content(reopened(table), tag="two") == states[2]
    assert files_on_disk(table) == reachable(table)


def test_java_continues_after_our_rollback(tmp_path: Path) -> None:
    table, java, states = a_history(tmp_path)
    create_tag(table.metadata, "two", snapshot_id=2)
    expire_table(table.metadata, table.schema, now_ms=1 << 60, retention=NEWEST_ONLY)
    roll_back(table.metadata, table.schema, tag="two")
    assert java_content(java) == states[2]
    java.write([{"p": "0", "k": "5", "v": "after"}], tmp_path / "rows.jsonl", compact=True)
    wanted = states[2] | {(0, 5): "after"}
    assert content(reopened(table)) == wanted
    assert java_content(java) == wanted
