"""Java Paimon reads a table before and after its rings were resized, and compacts it; lakeidx goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.java_paimon import JavaPaimon
from tests.kit.ring_table import RingTable

pytestmark = pytest.mark.interop


def _java_rows(java: JavaPaimon) -> dict[tuple[int, str], str]:
    found = java.json("read")
    out = {(int(r["p"]), r["k"]): r["v"] for r in found}
    assert len(out) == len(found), "Java read a key twice"
    return out


def test_java_reads_a_resized_table(tmp_path: Path) -> None:
    table = RingTable(tmp_path)
    table.upsert([(p, f"key-{i}", "a") for p in (1, 2) for i in range(50)])
    table.upsert([(1, f"key-{i}", None if i % 3 else "b") for i in range(12)])
    java = JavaPaimon(str(tmp_path / "wh"), "d.t")
    assert _java_rows(java) == table.rows
    assert table.resize(1).splits == 6
    assert _java_rows(java) == table.rows
    table.upsert([(2, f"key-{i}", "c") for i in range(40, 60)])
    assert _java_rows(java) == table.rows
    java.run("compact")
    assert table.resize(1 << 40).merges == 2
    assert _java_rows(java) == table.rows
    table.check()
