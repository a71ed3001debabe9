"""Every index type gives the same table as every other, and as a dictionary: updates, inserts, deletes, keys that change
partition, batches that are run again, compactions in between."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kit.index_history import (
    GLOBAL_TYPES,
    LOCAL_TYPES,
    SAME_BUCKETS,
    IndexedTable,
    Model,
    Row,
    apply,
    hbase_stand_in,
)
from tests.kit.share import WHOLE
from tests.unit.key_index.hbase.test_hbase_index import StandIn

_ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 11), st.text("abé", max_size=2), st.sampled_from(["+I", "+U", "-U", "-D"])),
    min_size=1,
    max_size=12,
)  # fmt: skip
#: Rows; which of the batches so far is then run again (modulo their number), and whether to compact.
_STEPS = st.lists(st.tuples(_ROWS, st.one_of(st.none(), st.integers(0, 9)), st.booleans()), min_size=1, max_size=4)
Step = tuple[list[Row], int | None, bool]


def _run(steps: Sequence[Step], types: Mapping[str, Mapping[str, str]], *, over_partitions: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="lakeidx-family-") as folder, hbase_stand_in(StandIn()):
        model: Model = {}
        tables = [IndexedTable.make(Path(folder), name, options) for name, options in types.items()]
        for number, (batch, again, compacts) in enumerate(steps):
            apply(model, batch, over_partitions=over_partitions)
            for table in tables:
                table.upsert(batch, f"b{number}")
                if again is not None:
                    table.upsert(steps[again % (number + 1)][0], f"b{again % (number + 1)}")
                if compacts:
                    table.compact()
        for table in tables:
            table.check(model)
        alike = [t for t in tables if not over_partitions and t.name in SAME_BUCKETS]
        for table in alike[1:]:
            assert table.buckets() == alike[0].buckets(), table.name


@pytest.mark.slow
@pytest.mark.parametrize("over_partitions", [False, True], ids=["by partition", "over partitions"])
@settings(max_examples=20 if WHOLE else 7, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS)
def test_every_type_gives_the_same_table(over_partitions: bool, steps: list[Step]) -> None:
    _run(steps, GLOBAL_TYPES if over_partitions else LOCAL_TYPES, over_partitions=over_partitions)
