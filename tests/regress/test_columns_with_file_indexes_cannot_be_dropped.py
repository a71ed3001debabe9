"""A column that file index options name could be dropped; afterwards every upsert and compaction failed."""

from __future__ import annotations

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.changes import drop_column, evolve
from lakeidx.format.schema.schema_file import TableSchema, new_schema


def _schema(**options: str) -> TableSchema:
    fields = [
        {"name": "k", "type": "INT"},
        {"name": "a", "type": "STRING"},
        {"name": "m", "type": {"type": "MAP", "key": "STRING", "value": "STRING"}},
    ]
    return new_schema({"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}})


@pytest.mark.parametrize(
    ("column", "key", "value"),
    [
        ("a", "file-index.bloom-filter.columns", "a"),
        ("a", "file-index.bitmap.columns", "k, a"),
        ("m", "file-index.bloom-filter.columns", "a,m[x]"),
        ("a", "file-index.bloom-filter.a.fpp", "0.1"),
        ("m", "file-index.bloom-filter.m[x].fpp", "0.1"),
    ],
)
def test_refused_with_the_option(column: str, key: str, value: str) -> None:
    """The message names the option; another column can go."""
    schema = _schema(**{key: value})
    with pytest.raises(
        InvalidInputError, match=f"column '{column}' cannot be dropped: option '{key}'".replace("[", r"\[")
    ):
        evolve(schema, [drop_column(column)])
    other = "m" if column == "a" else "a"
    if f"{other}" not in value.split(","):
        assert other not in evolve(schema, [drop_column(other)]).field_names
