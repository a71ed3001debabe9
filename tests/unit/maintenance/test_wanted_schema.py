"""The pipeline file as the wanted state: what differs is shown, and applied as far as the policy says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError
from lakeidx.maintenance.wanted_schema import POLICIES, ensure_table
from tests.kit.small_tables import filled_table, make_table, table_spec

BASE: dict[str, Any] = table_spec(
    "p INT, k BIGINT, v STRING",
    ["p", "k"],
    partitions=["p"],
    options={"bucket": "-1", "dynamic-bucket.target-row-num": "10"},
)


def wanted(fields: list[dict[str, Any]] | None = None, **options: str) -> dict[str, Any]:
    return {**BASE, "fields": fields or BASE["fields"], "options": {**BASE["options"], **options}}


MORE = [*BASE["fields"], {"name": "n", "type": "INT", "description": "how many"}]
LESS = BASE["fields"][:2]
#: What is wanted, the first policy that applies it, and how the refusal shows it.
CASES = [
    (wanted(MORE), "add", "column n: added, INT"),
    (wanted(None, **{"snapshot.num-retained.max": "50"}), "add", "option snapshot.num-retained.max: set, 50"),
    (wanted([*BASE["fields"][:2], {"name": "v", "type": "STRING", "description": "text"}]), "add", "column v: comment"),
    (wanted([*LESS, {"name": "w", "type": "STRING"}]), "all", "column v: dropped, STRING"),
]


@pytest.mark.parametrize(("spec", "first", "shown"), CASES, ids=lambda c: c if isinstance(c, str) else "")
def test_each_policy_applies_its_differences(tmp_path: Path, spec: dict[str, Any], first: str, shown: str) -> None:
    table = filled_table(tmp_path, [(1, 1, "a")])
    for policy in POLICIES[: POLICIES.index(first)]:
        with pytest.raises(InvalidInputError, match=re.escape(shown)) as refused:
            ensure_table(table.uri, spec, policy=policy)
        assert f"schema_changes: {first}" in str(refused.value)
        assert table.metadata.schema_ids() == [0]
    ensure_table(table.uri, spec, policy=first)
    assert table.schema.field_names == tuple(f["name"] for f in spec["fields"])
    assert dict(table.schema.options) == spec["options"]
    assert [f.description for f in table.schema.fields] == [f.get("description") for f in spec["fields"]]
    assert ensure_table(table.uri, spec, policy="refuse").metadata.schema_ids() == [0, 1]
    assert table.scan().to_arrow().column("k").to_pylist() == [1]


def test_types_widen_and_never_shrink(tmp_path: Path) -> None:
    fields = [*LESS, {"name": "v", "type": "INT"}]
    uri = f"{tmp_path}/wh/d.db/t"
    ensure_table(uri, wanted(fields))
    wider = wanted([*LESS, {"name": "v", "type": "BIGINT"}])
    with pytest.raises(InvalidInputError, match=r"column v: type, INT -> BIGINT.*schema_changes: widen"):
        ensure_table(uri, wider, policy="add")
    assert str(ensure_table(uri, wider, policy="widen").schema.field("v").type) == "BIGINT"
    with pytest.raises(InvalidInputError, match="such a change loses values"):
        ensure_table(uri, wanted(fields), policy="all")


def test_what_landing_files_have_brought_stays_where_they_may(tmp_path: Path) -> None:
    """New columns and wider types; the pipeline file says neither."""
    uri, spec = f"{tmp_path}/wh/d.db/t", wanted([*LESS, {"name": "v", "type": "INT"}])
    ensure_table(uri, spec)
    Table.open(uri).alter(add={"city": "STRING"}, types={"v": "BIGINT"})
    landed = ensure_table(uri, spec, policy="refuse", landed=True).schema
    assert [str(f.type) for f in landed.fields[2:]] == ["BIGINT", "STRING"]
    with pytest.raises(InvalidInputError, match=r"column v: type, BIGINT -> INT.*column city: dropped, STRING"):
        ensure_table(uri, spec, policy="refuse")


def test_the_order_of_columns_follows_with_all_only(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    turned = wanted([MORE[3], *BASE["fields"][::-1]])
    assert ensure_table(table.uri, turned, policy="add").schema.field_names == ("p", "k", "v", "n")
    assert ensure_table(table.uri, turned, policy="widen").schema.field_names == ("p", "k", "v", "n")
    more = wanted([MORE[3], *BASE["fields"][::-1], {"name": "z", "type": "INT"}])
    assert ensure_table(table.uri, more, policy="all").schema.field_names == ("n", "v", "k", "p", "z")


def test_options_of_other_programs_stay_unless_all(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"snapshot.num-retained.max": "77"})
    assert ensure_table(table.uri, wanted(), policy="refuse").schema.options["snapshot.num-retained.max"] == "77"
    assert "snapshot.num-retained.max" not in ensure_table(table.uri, wanted(), policy="all").schema.options


def test_keys_never_change(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    with pytest.raises(InvalidInputError, match="neither can change"):
        ensure_table(table.uri, {**wanted(), "primaryKeys": ["p", "k", "v"]}, policy="all")
