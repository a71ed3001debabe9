"""Conditions on key columns reach every run before a merge, and no merge engine gives other rows for that.

What is selected is judged by evaluating the predicate on the rows of a scan without one.
"""

from __future__ import annotations

import random
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeidx.api import Table
from lakeidx.batch.context import make_context, new_batch_id
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import filter_table
from lakeidx.predicate.parse import parse_where
from lakeidx.table.scan.table_scan import TableScan
from lakeidx.tasks.runner import LocalRunner
from tests.kit.upserts import upsert_table

pytestmark = pytest.mark.slow

SUM = {"fields.n.aggregate-function": "sum", "fields.v.aggregate-function": "last_non_null_value"}
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "sequence field": {"sequence.field": "n"},
    "ignored deletes": {"ignore-delete": "true"},
    "partial-update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "sequence group": {"merge-engine": "partial-update", "fields.n.sequence-group": "v"},
    "aggregation": {"merge-engine": "aggregation", **SUM},
    "aggregation by level": {"merge-engine": "aggregation", **SUM, "changelog-producer": "lookup"},
    "first-row": {"merge-engine": "first-row"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
    "merged with deletion vectors": {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    "changelog": {"changelog-producer": "input"},
}  # fmt: skip


@pytest.fixture(scope="module", params=ENGINES)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A table of several levels and some runs at level 0."""
    kind = request.param
    spec = {
        "fields": [{"name": "p", "type": "INT"}, {"name": "k", "type": "BIGINT"}, {"name": "t", "type": "STRING"},
                   {"name": "v", "type": "STRING"}, {"name": "n", "type": "INT"}],
        "primaryKeys": ["p", "k", "t"], "partitionKeys": ["p"],
        "options": {"bucket": "2", "num-sorted-run.compaction-trigger": "100", **ENGINES[kind]},
    }  # fmt: skip
    table = Table.create(f"{tmp_path_factory.mktemp('keys')}/d.db/t", spec)
    generator = random.Random(kind)
    deletes = kind not in ("first-row",)
    for step in range(6):
        keys = generator.sample(range(60), 25)
        rows = [
            {"p": k % 2, "k": k // 3, "t": "ab€"[k % 3] * 3, "v": generator.choice((None, "x", f"y{step}")), "n": step - k % 4}
            for k in keys
        ]  # fmt: skip
        kinds = ["-D" if deletes and generator.random() < 0.2 else "+I" for _ in keys]
        data = pa.Table.from_pylist(rows, schema=table.schema.arrow_schema).append_column("_kind", pa.array(kinds))
        upsert_table(make_context(table.metadata, new_batch_id(), runner=LocalRunner(1)), data)
        if step in (1, 3):
            run_compaction(table.metadata, LocalRunner(1), full=step == 1)
    return table


_NUMBER = st.integers(-1, 21)
_LEAF = st.one_of(
    st.builds("k {} {}".format, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), _NUMBER),
    st.builds("k BETWEEN {} AND {}".format, _NUMBER, _NUMBER),
    st.builds("t {} '{}'".format, st.sampled_from(["=", "<", ">="]), st.sampled_from(["aaa", "b", "€€€", "c"])),
    st.builds("t LIKE '{}%'".format, st.sampled_from(["a", "bb", "€"])),
    st.builds("n > {}".format, st.integers(-3, 5)),
    st.builds("p = {}".format, st.integers(0, 1)),
)  # fmt: skip
_WHERE = st.recursive(
    _LEAF,
    lambda inner: st.one_of(st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
                            st.builds("NOT ({})".format, inner)),
    max_leaves=3,
)  # fmt: skip


def in_order(rows: pa.Table) -> list[str]:
    """Rows as texts, sorted."""
    return sorted(map(str, rows.to_pylist()))


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(wheres=st.lists(_WHERE, min_size=3, max_size=3))
def test_conditions_on_keys_select_as_after_the_merge(table: Table, wheres: list[str]) -> None:
    for kept in (False, True):
        read = partial(TableScan, table.metadata, keep_deletes=kept, keep_sequence=kept)
        rows = read(table.scan().plan).to_arrow(threads=1)
        for where in wheres:
            found = read(table.scan(where=where).plan).to_arrow(threads=1)
            assert in_order(found) == in_order(filter_table(parse_where(where, table.schema.fields), rows)), where


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=_WHERE, after=st.integers(0, 5))
def test_conditions_on_keys_select_changes(table: Table, where: str, after: int) -> None:
    last = table.metadata.latest_snapshot()
    assert last is not None
    found, rows = (table.changes(after, last.id, where=w).to_arrow() for w in (where, None))
    assert in_order(found) == in_order(filter_table(parse_where(where, table.schema.fields), rows)), where
