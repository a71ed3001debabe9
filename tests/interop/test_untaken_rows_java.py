"""Rows of kind -U and -D that lakeidx rejects are those with which Java cannot merge a key, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.java_paimon import JavaPaimon
from tests.kit.untaken_cases import CASES, ROW, table_of

pytestmark = [pytest.mark.interop, pytest.mark.one_witness]


def fails(folder: Path, name: str, kinds: list[str]) -> bool:
    """Whether Java fails with a key that has a row, and then those kinds, in one write."""
    case = CASES[name]
    folder.mkdir()
    (folder / "schema.json").write_text(json.dumps({"partitionKeys": [], **table_of(case)}))
    java = JavaPaimon(str(folder / "wh"), "d.t")
    row = {n: None if v is None else str(v) for n, v in {**ROW, **case.row}.items()}
    try:
        java.run("create", str(folder / "schema.json"))
        java.write([{**row, "id": i, "_kind": k} for i, kind in enumerate(kinds) for k in ("+I", "+I", kind)],
                   folder / "rows.jsonl", compact=True)  # fmt: skip
        java.json("read")
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_java_takes_what_is_not_rejected(name: str, tmp_path: Path) -> None:
    refused = CASES[name].refused.split()
    taken = [k for k in ("-U", "-D") if k not in refused]
    assert not (taken and fails(tmp_path / "taken", name, taken))
    for kind in refused:
        assert fails(tmp_path / kind, name, [kind]), kind
