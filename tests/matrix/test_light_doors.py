"""Every value through every door that needs no JVM and no server; see `tests.kit.matrix_values`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.matrix_changes import CHANGES_IN
from tests.kit.matrix_in import WAYS_IN
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import fill
from tests.kit.share import share_of

pytestmark = pytest.mark.matrix
WAYS = WAYS_IN | CHANGES_IN
IN = [(name, layout) for name, way in WAYS.items() for layout in range(way.layouts)]


@pytest.mark.parametrize(("name", "layout"), IN, ids=[f"{n}-{i}" for n, i in IN])
def test_what_goes_in_comes_out_or_is_refused(name: str, layout: int, tmp_path: Path) -> None:
    filled = fill(WAYS[name], layout, tmp_path)
    # The first way in is followed by all ways out.
    outs = (
        list(WAYS_OUT) if (name, layout) == IN[0] else share_of(WAYS_OUT, 0.2, key=lambda out: f"{name} {layout} {out}")
    )
    for out in outs:
        try:
            filled.check(WAYS_OUT[out], tmp_path)
        except AssertionError as error:
            raise AssertionError(f"{name} {layout} -> {out}: {error}") from error
