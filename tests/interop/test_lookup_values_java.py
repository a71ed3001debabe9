"""Values of lookup files that hold only a position, or nothing: the released Java writes and reads the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lakeidx.lookup.value_rows import Processor, encode_positions
from tests.interop.java_judges import paimon_jars, run_program

pytestmark = pytest.mark.interop


def test_positions_and_names(tmp_path: Path) -> None:
    edges = [(1 << bits) + d for bits in range(0, 62, 7) for d in (-1, 0, 1)]
    positions = np.unique(np.array([*edges, *range(300), 6_001_214, 2**63 - 1]))
    ours = [value.hex() for value in encode_positions(positions)]
    jobs = tmp_path / "jobs"
    jobs.write_text("".join(f"{p} {v}\n" for p, v in zip(positions.tolist(), ours, strict=True)), encoding="utf-8")
    names, *answers = run_program("LookupValueJudge", paimon_jars(), jobs)
    assert names == f"{Processor.POSITION} {Processor.EMPTY} 0"
    assert answers == [f"{v} {p}" for p, v in zip(positions.tolist(), ours, strict=True)]
