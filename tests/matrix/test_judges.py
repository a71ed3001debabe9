"""What released programs see of every value: Java Paimon of two releases, pypaimon and pypaimon-rust."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.java_paimon import require_java_paimon
from tests.kit.java_tools import PAIMON_VERSIONS, use_paimon
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_judges import JUDGES
from tests.kit.matrix_run import fill

pytestmark = pytest.mark.matrix


def test_java_sees_what_went_in(tmp_path: Path) -> None:
    require_java_paimon()
    judge, _ = JUDGES["Java"]
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
    judge, but = JUDGES[name]
    fill(WAYS_IN["Arrow"], 0, tmp_path, but).check(judge, tmp_path)
