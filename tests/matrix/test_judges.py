"""What released programs see of every value: Java Paimon of two releases, pypaimon and pypaimon-rust."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow.compute as pc
import pytest

import lakeidx
from tests.kit.java_paimon import require_java_paimon
from tests.kit.java_tools import PAIMON_VERSIONS, RELEASED, SECOND, use_paimon
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_judges import JUDGES
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import fill

pytestmark = pytest.mark.matrix


def test_java_sees_what_went_in(tmp_path: Path) -> None:
    require_java_paimon()
    judge = JUDGES["Java"].reads
    # Rows that are staged, and a file that is taken as it is.
    for name in ("Arrow", "Parquet"):
        filled = fill(WAYS_IN[name], 0, tmp_path / name)
        for version in PAIMON_VERSIONS:
            with use_paimon(version):
                filled.check(judge, tmp_path)
        filled.table.compact(full=True)
        filled.check(judge, tmp_path)


@pytest.mark.parametrize("name", [n for n in JUDGES if n != "Java"])
def test_others_see_what_went_in(name: str, tmp_path: Path) -> None:
    judge = JUDGES[name]
    fill(WAYS_IN["Arrow"], 0, tmp_path, judge.but).check(judge.reads, tmp_path)


#: Writers, the way in of the rows that they write, and types that they do not write.
_WRITERS = [
    ("Java", RELEASED, "Arrow", ("MULTISET<TIMESTAMP",)),
    ("Java", SECOND, "Arrow", ()),
    ("pypaimon", "", "list", ()),
    ("pypaimon-rust", "", "Arrow", ()),
]


@pytest.mark.parametrize(("name", "version", "way", "but"), _WRITERS)
def test_every_value_is_written_in_turns(
    name: str, version: str, way: str, but: tuple[str, ...], tmp_path: Path
) -> None:
    """The judge writes what it reads as other rows, lakeidx writes those anew, and who can compacts."""
    judge = JUDGES[name]
    if version:
        require_java_paimon()
    with use_paimon(version) if version else nullcontext():
        filled = fill(WAYS_IN[way], 0, tmp_path, (*judge.but, *but))
        table, first = filled.table, dict(filled.rows)
        for turn in (1, 2):
            judge.copies(table, 1000, 1000 * turn)
            filled = replace(filled, rows={**filled.rows, **{i + 1000 * turn: row for i, row in first.items()}})
            filled.check(WAYS_OUT["scan"], tmp_path)
            rows = table.scan().to_arrow()
            table.upsert(rows.filter(pc.greater_equal(rows.column("id"), 1000 * turn)))
            filled.check(judge.reads, tmp_path)
            (judge.compacts or partial(lakeidx.Table.compact, full=True))(table)
            filled.check(WAYS_OUT["scan"], tmp_path)
            filled.check(judge.reads, tmp_path)
