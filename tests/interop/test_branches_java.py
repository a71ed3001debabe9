"""Java and lakeidx write a branch in turns, and read main after a fast-forward; an expiry of one leaves the files of the other."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeidx
from tests.kit.java_paimon import JavaPaimon

pytestmark = pytest.mark.interop


def seen(java: JavaPaimon) -> dict[int, str]:
    return {int(r["k"]): r["v"] for r in java.json("read")}


@pytest.mark.parametrize("bucket", ["-1", "2"])
def test_a_branch_in_turns(tmp_path: Path, bucket: str) -> None:
    fields = [{"name": "k", "type": "INT"}, {"name": "v", "type": "STRING"}]
    table = lakeidx.Table.create(
        tmp_path / "d.db" / "t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": bucket}}
    )
    table.upsert([{"k": k, "v": "old"} for k in range(10)])
    table.create_branch("b", snapshot=1)
    main, branch = JavaPaimon(str(tmp_path), "d.t"), JavaPaimon(str(tmp_path), "d.t$branch_b")
    model = dict.fromkeys(range(10), "old")
    assert seen(branch) == model
    for turn in range(3):
        ours = [{"k": k, "v": f"ours {turn}"} for k in range(turn, turn + 4)]
        table.branch("b").upsert(ours)
        model |= {int(str(r["k"])): str(r["v"]) for r in ours}
        assert seen(branch) == model
        theirs = [{"k": str(k), "v": f"theirs {turn}"} for k in range(turn + 3, turn + 6)]
        branch.write(theirs, tmp_path / "rows.jsonl", compact=turn == 1)
        model |= {int(r["k"]): r["v"] for r in theirs}
        read = table.branch("b").scan().to_arrow()
        assert dict(zip(read["k"].to_pylist(), read["v"].to_pylist(), strict=True)) == model
    assert seen(main) == dict.fromkeys(range(10), "old")
    table.branch("b").expire(retain_min=1, retain_max=1, retain_time="1 ms", staging_age="0 s")
    table.orphans(older_than="0 s", remove=True)
    assert (seen(main), seen(branch)) == (dict.fromkeys(range(10), "old"), model)
    table.fast_forward("b")
    assert seen(main) == seen(branch) == model
    main.write([{"k": "99", "v": "after"}], tmp_path / "rows.jsonl")
    assert lakeidx.Table.open(table.uri).scan(where="k = 99").to_arrow()["v"].to_pylist() == ["after"]
    assert seen(branch) == model
