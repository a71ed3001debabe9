"""Which columns are indexed, and every bad configuration."""

from __future__ import annotations

from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.file_index.options import indexed_columns, split_reference, validate_file_index_options
from lakeidx.format.schema.schema_file import new_schema

FIELDS: list[dict[str, Any]] = [
    {"name": "a", "type": "INT"},
    {"name": "b", "type": "STRING"},
    {"name": "flag", "type": "BOOLEAN"},
    {"name": "d", "type": "DECIMAL(20, 2)"},
    {"name": "t9", "type": "TIMESTAMP(9)"},
    {"name": "m", "type": {"type": "MAP", "key": "STRING", "value": "BIGINT"}},
    {"name": "n", "type": {"type": "MAP", "key": "INT", "value": "BIGINT"}},
    {"name": "r", "type": {"type": "ARRAY", "element": "INT"}},
]


def test_what_options_ask_for() -> None:
    options = {
        "bucket": "-1",
        "file-index.bloom-filter.columns": "a, b,m[k1],m[k2]",
        "file-index.bloom-filter.a.items": "200",
        "file-index.bloom-filter.m.items": "50",
        "file-index.bloom-filter.m.fpp": "0.2",
        "file-index.bloom-filter.m[k2].items": "7",
        "file-index.bitmap.columns": "b",
        "file-index.in-manifest-threshold": "1 kb",
        "file-index.read.enabled": "false",
        "file-index.bloom-filter.odd.name.items": "9",
    }
    found = {(i.reference, i.index): (i.source, i.map_key, dict(i.options)) for i in indexed_columns(options)}
    assert found == {
        ("a", "bloom-filter"): ("a", None, {"items": "200"}),
        ("b", "bloom-filter"): ("b", None, {}),
        ("m[k1]", "bloom-filter"): ("m", "k1", {"items": "50", "fpp": "0.2"}),
        ("m[k2]", "bloom-filter"): ("m", "k2", {"items": "7", "fpp": "0.2"}),
        ("b", "bitmap"): ("b", None, {}),
    }
    assert indexed_columns({"bucket": "1"}) == ()


def test_a_column_or_an_entry_of_a_map_is_referred_to() -> None:
    assert split_reference("a") == ("a", None)
    assert split_reference("m[k]") == ("m", "k")
    assert split_reference("m[a[b]]") == ("m", "a[b]")
    assert split_reference("m[k") == ("m[k", None)


GOOD = [
    {"file-index.bitmap.columns": "a,b,flag,m[k]", "file-index.bitmap.a.version": "1"},
    {"file-index.bloom-filter.columns": "t9", "file-index.bloom-filter.t9.fpp": "0.01"},
    {"file-index.range-bitmap.columns": "a,b", "file-index.range-bitmap.b.chunk-size": "4 kb"},
    {"file-index.bsi.columns": "a,t9"},
]


@pytest.mark.parametrize("options", GOOD)
def test_good_options_name_their_columns(options: dict[str, str]) -> None:
    validate_file_index_options(new_schema({"fields": FIELDS, "options": options}))
    wanted = next(value.split(",") for key, value in options.items() if key.endswith(".columns"))
    assert [i.reference for i in indexed_columns(options)] == wanted


BAD = [
    ({"file-index.bitmap.columns": "c"}, "unknown column 'c'"),
    ({"file-index.bitmap.columns": "A"}, "did you mean 'a'"),
    ({"file-index.bitmapp.columns": "a"}, "did you mean 'bitmap'"),
    ({"file-index.xyz.columns": "a"}, "known are bitmap, bloom-filter, bsi, range-bitmap"),
    ({"file-index.bitmap.columns": "a,,b"}, "an empty column name"),
    ({"file-index.bitmap.columns": ""}, "an empty column name"),
    ({"file-index.bloom-filter.columns": "flag"}, "bloom-filter cannot index BOOLEAN"),
    ({"file-index.bsi.columns": "b"}, "bsi cannot index STRING"),
    ({"file-index.bsi.columns": "d"}, "bsi cannot index DECIMAL"),
    ({"file-index.range-bitmap.columns": "t9"}, "range-bitmap cannot index TIMESTAMP"),
    ({"file-index.range-bitmap.columns": "d"}, "range-bitmap cannot index DECIMAL"),
    ({"file-index.bitmap.columns": "d"}, "bitmap cannot index DECIMAL"),
    ({"file-index.bitmap.columns": "r"}, "bitmap cannot index ARRAY"),
    ({"file-index.bitmap.columns": "m"}, "name one entry of it"),
    ({"file-index.bitmap.columns": "n[k]"}, "string keys"),
    ({"file-index.bitmap.columns": "a[k]"}, "needs a map column"),
    ({"file-index.bloom-filter.a.items": "5"}, "is not in 'file-index.bloom-filter.columns'"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.b.items": "5"}, "column 'b' is not in"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.itms": "5"}, "did you mean 'items'"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.zzz": "5"}, "it has fpp, items"),
    ({"file-index.bsi.columns": "a", "file-index.bsi.a.x": "5"}, "it has none"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": "1.5"}, "fpp must be between"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": "0"}, "fpp must be between"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": "nan"}, "fpp must be between"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.fpp": "x"}, "fpp a number"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.items": "0"}, "items must be at least 1"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.items": "1e6"}, "items must be a whole"),
    ({"file-index.bloom-filter.columns": "a", "file-index.bloom-filter.a.items": "2000000000"}, "256 MB"),
    ({"file-index.bitmap.columns": "a", "file-index.bitmap.a.version": "3"}, "version must be 1 or 2"),
    ({"file-index.bitmap.columns": "a", "file-index.bitmap.a.index-block-size": "x"}, "index-block-size must be"),
    ({"file-index.bitmap.columns": "a", "file-index.bitmap.a.index-block-size": "2 b"}, "index-block-size must be"),
    ({"file-index.range-bitmap.columns": "a", "file-index.range-bitmap.a.chunk-size": "-1"}, "chunk-size must be"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    schema = new_schema({"fields": FIELDS})
    with pytest.raises(InvalidInputError) as caught:
        validate_file_index_options(type(schema)(id=0, fields=schema.fields, highest_field_id=99, options=options))
    assert message in str(caught.value)
    assert next(iter(options)).split(".")[1] in str(caught.value)
