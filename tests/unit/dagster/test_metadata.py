"""Tables in the metadata of Dagster."""

from __future__ import annotations

from lakeidx.dagster.metadata.reports import records_table


def test_a_column_has_the_type_of_all_its_values() -> None:
    found = records_table(
        [{"a": None, "b": 1, "c": 0.5, "d": True, "e": 1}, {"a": 3, "b": 2.5, "c": 1, "d": "x", "e": 2}]
    )
    assert {c.name: c.type for c in found.schema.columns} == {
        "a": "string", "b": "float", "c": "float", "d": "string", "e": "int",
    }  # fmt: skip
    assert [dict(r.data) for r in found.records] == [
        {"a": "", "b": 1, "c": 0.5, "d": "True", "e": 1},
        {"a": "3", "b": 2.5, "c": 1, "d": "x", "e": 2},
    ]
    assert records_table([]).schema.columns == []
