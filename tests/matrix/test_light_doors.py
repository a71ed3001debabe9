"""Every value through every door that needs no JVM and no server; see `tests.kit.matrix_values`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx import Table
from lakeidx.errors import InvalidInputError
from lakeidx.types import Root
from tests.kit.matrix_out import WAYS_OUT
from tests.kit.matrix_run import LIGHT_IN, LIGHT_LAYOUTS, fill
from tests.kit.matrix_values import Column, columns, from_arrow, plain, to_arrow

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize(("name", "layout"), LIGHT_LAYOUTS, ids=[f"{n}-{i}" for n, i in LIGHT_LAYOUTS])
def test_what_goes_in_comes_out_or_is_refused(name: str, layout: int, tmp_path: Path) -> None:
    # The first way in is followed by all ways out.
    part = 1 if (name, layout) == LIGHT_LAYOUTS[0] else 0.2
    fill(LIGHT_IN[name], layout, tmp_path).check_all(f"{name} {layout}", WAYS_OUT, part, tmp_path)


@pytest.mark.parametrize("column", [c for c in columns() if not c.type.is_nested], ids=lambda c: c.name)
def test_values_as_keys(column: Column, tmp_path: Path) -> None:
    """Each value is a key of its own: updated, looked up and deleted as such."""
    fields = [{"name": "k", "type": column.spec}, {"name": "n", "type": "INT"}]
    spec = {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "-1"}}
    if column.type.root is Root.VARIANT:
        with pytest.raises(InvalidInputError, match="k"):
            Table.create(f"{tmp_path}/d.db/t", spec)
        return
    table = Table.create(f"{tmp_path}/d.db/t", spec)
    values = [v for v in column.good if v is not None and v == v]
    keys = to_arrow(values, column.type, table.schema.arrow_schema.field("k").type)
    for n in (1, 2):
        table.upsert(pa.table({"k": keys, "n": pa.array([n] * len(keys), pa.int32())}))
    assert table.scan().to_arrow().column("n").to_pylist() == [2] * len(values)
    stored = table.scan().to_arrow().select(["k"])
    kept = {plain(v) for v in from_arrow(stored.column("k"), column.type)}
    assert kept == {plain(column.stored(v)) for v in values}
    found = table.lookup(stored)
    assert found.column("n").to_pylist() == [2] * len(values)
    table.delete(stored)
    assert table.scan().to_arrow().num_rows == 0
