"""A pruned plan never changes a result: every predicate gives the rows that it selects of all rows.

Tables with updates, deletes, several levels and schema changes (added, renamed, widened, dropped column); what is selected
is judged by evaluating the predicate on the rows of an unpruned, unfiltered scan, which a plain dictionary has confirmed.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeidx.api.table import Table
from lakeidx.batch.context import make_context, new_batch_id
from lakeidx.format.schema.schema_file import encode_schema
from lakeidx.maintenance.compaction import run_compaction
from lakeidx.predicate import filter_table
from lakeidx.predicate.parse import parse_where
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import Field, parse_type
from tests.kit.small_tables import table_spec
from tests.kit.upserts import upsert_table

INDEXES = {
    "file-index.bloom-filter.columns": "k,v", "file-index.bloom-filter.k.items": "50",
    "file-index.bloom-filter.v.items": "50", "file-index.bitmap.columns": "v,n",
    "file-index.range-bitmap.columns": "n", "file-index.bsi.columns": "old",
}  # fmt: skip
KINDS: dict[str, dict[str, str]] = {
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "12"},
    "fixed": {"bucket": "3"},
    "partial-update": {"bucket": "2", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "embedded": {"bucket": "2", "file-index.in-manifest-threshold": "1 mb"},
    "append": {"bucket": "-1"},
    "append-bucket": {"bucket": "2", "bucket-key": "k"},
}  # fmt: skip


def evolve(table: Table) -> None:
    """Add `extra`, rename v to name, widen n to BIGINT, drop old: as a new schema file."""
    now = table.schema
    changed = []
    for f in now.fields:
        if f.name == "old":
            continue
        if f.name == "v":
            f = replace(f, name="name")
        if f.name == "n":
            f = replace(f, type=parse_type("BIGINT"))
        changed.append(f)
    changed.append(Field(now.highest_field_id + 1, "extra", parse_type("INT")))
    options = {k: v for k, v in now.options.items() if not k.startswith("file-index.")}
    options |= {"file-index.bloom-filter.columns": "name", "file-index.bloom-filter.name.items": "50",
                "file-index.bitmap.columns": "extra,n"}  # fmt: skip
    new = replace(now, id=now.id + 1, fields=tuple(changed), highest_field_id=now.highest_field_id + 1, options=options)
    assert table.store.put_if_absent(table.paths.schema_path(new.id), encode_schema(new))


def write(table: Table, rows: list[dict[str, Any]], kinds: list[str] | None) -> None:
    schema = table.schema.arrow_schema
    data = pa.Table.from_pylist(rows, schema=schema)
    if kinds is not None:
        data = data.append_column("_kind", pa.array(kinds, pa.string()))
    upsert_table(make_context(table.metadata, new_batch_id(), runner=LocalRunner(1)), data)


def build(folder: Path, kind: str) -> Table:
    """A table of a kind with a history, checked against a dictionary."""
    keyed = not kind.startswith("append")
    spec = table_spec(
        "p INT, k BIGINT, v STRING, n INT, old INT",
        ["p", "k"] if keyed else [],
        partitions=["p"],
        options={**INDEXES, **KINDS[kind]},
    )
    table = Table.create(f"{folder}/d.db/{kind}", spec)
    generator = random.Random(kind)
    model: dict[Any, dict[str, Any]] = {}
    for step in range(7):
        if step == 4:
            evolve(table)
        names = table.schema.field_names
        rows, kinds = [], []
        for k in generator.sample(range(40), 18):
            row: dict[str, Any] = {"p": k % 3, "k": k, "n": generator.choice((None, *range(6)))}
            row["v" if "v" in names else "name"] = generator.choice((None, "a", "b", f"v{k}", "é%_"))
            row["old" if "old" in names else "extra"] = generator.choice((None, *range(4)))
            delete = keyed and generator.random() < 0.25
            # A delete names the key only: what else it held, partial-update would begin the next row of the key with.
            rows.append({"p": row["p"], "k": k} if delete else row)
            kinds.append("-D" if delete else "+I")
            key = k if keyed else len(model)
            before = model.pop(key, None)
            if delete:
                continue
            if kind == "partial-update" and before is not None:
                row_now = {**before, **{c: v for c, v in row.items() if v is not None}}
            else:
                row_now = dict(row)
            model[key] = row_now
        write(table, rows, kinds if keyed else None)
        if step == 3:
            for row in model.values():
                row.pop("old", None)
                row["name"] = row.pop("v", None)
        if step in (2, 5):
            run_compaction(table.metadata, LocalRunner(1), full=step == 2)
    found = table.scan().to_arrow()
    names = table.schema.field_names
    expected = sorted(([row.get(c) for c in names] for row in model.values()), key=str)
    assert sorted(([row[c] for c in names] for row in found.to_pylist()), key=str) == expected
    return table


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return build(tmp_path_factory.mktemp("pruned"), request.param)


_NUMBER = st.integers(-1, 41)
_TEXT = st.sampled_from(["a", "b", "v3", "v17", "é%_", "zz", ""])


def _leaf() -> st.SearchStrategy[str]:
    op = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    number = st.sampled_from(["p", "k", "n", "extra"])
    quoted = _TEXT.map(lambda t: f"'{t}'")
    return st.one_of(
        st.builds("{} {} {}".format, number, op, _NUMBER),
        st.builds("{} {} {}".format, st.just("name"), op, quoted),
        st.builds(
            lambda c, n, values: f"{c} {n} ({', '.join(map(str, values))})",
            number, st.sampled_from(["IN", "NOT IN"]), st.lists(_NUMBER, min_size=1, max_size=4),
        ),
        st.builds(
            lambda n, values: f"name {n} ({', '.join(values)})",
            st.sampled_from(["IN", "NOT IN"]), st.lists(quoted, min_size=1, max_size=3),
        ),
        st.builds("{} IS {}".format, st.sampled_from(["n", "extra", "name", "k"]), st.sampled_from(["NULL", "NOT NULL"])),
        st.builds("{} BETWEEN {} AND {}".format, number, _NUMBER, _NUMBER),
        st.builds("name {} '{}%'".format, st.sampled_from(["LIKE", "NOT LIKE"]), st.sampled_from(["v", "v1", "a"])),
    )  # fmt: skip


_WHERE = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=_WHERE)
def test_no_layer_changes_a_result(table: Table, where: str) -> None:
    everything = table.scan().to_arrow(threads=1)
    selected = filter_table(parse_where(where, table.schema.fields), everything)
    expected = sorted(map(str, selected.to_pylist()))
    found = table.scan(where=where).to_arrow(threads=1)
    assert sorted(map(str, found.to_pylist())) == expected, where


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=_WHERE)
def test_threads_give_the_same_rows_in_the_same_order(table: Table, where: str) -> None:
    assert table.scan(where=where).to_arrow(threads=3).equals(table.scan(where=where).to_arrow(threads=1))


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=_WHERE)
def test_the_explanation_adds_up(table: Table, where: str) -> None:
    scan = table.scan(where=where)
    explained = scan.explain()
    rows = scan.to_arrow(threads=1)
    assert explained.rows == rows.num_rows == explained.metrics.rows_selected
    assert explained.metrics.read == scan.metrics.read
    by_name = {layer.layer: layer for layer in explained.layers}
    assert by_name["file index"].came_in == sum(len(b.files()) for b in scan.plan.buckets)
    assert by_name["file index"].kept == scan.metrics.read.files
    assert by_name["row group"].kept == scan.metrics.read.row_groups_read
    assert by_name["row group"].bytes_kept == scan.metrics.read.bytes_read
    assert by_name["filter"].kept == rows.num_rows
    file_layers = [layer for layer in explained.planning if layer.unit == "files"]
    assert all(a.kept == b.came_in and a.bytes_kept == b.bytes_in for a, b in pairwise(file_layers))
