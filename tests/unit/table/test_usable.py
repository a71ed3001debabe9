"""Options under which a table cannot be written: refused when they are given, borne in tables of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, LakeIdxError, UnsupportedError
from lakeidx.format.schema.schema_file import encode_schema, new_schema
from lakeidx.maintenance.wanted_schema import ensure_table
from lakeidx.options.table_options import OPTIONS
from lakeidx.table import usable
from lakeidx.table.usable import check_usable
from tests.kit.small_tables import SPEC, make_table, rows

REFUSED = [
    ({"file.format": "orc"}, "'file.format' = orc: lakeidx reads such data files, but writes Parquet only"),
    ({"file.format.per.level": "5:avro"}, "'file.format.per.level' = avro"),
    ({"changelog-producer": "input", "changelog-file.format": "avro"}, "'changelog-file.format' = avro"),
    ({"file.compression": "lzo"}, "'file.compression': cannot read 'lzo': one of brotli"),
    ({"file.compression.per.level": "5:xz"}, "'file.compression.per.level': cannot read 'xz'"),
    ({"parquet.compression#v": "xz"}, "'parquet.compression#v': cannot read 'xz'"),
    ({"parquet.page.size": "big"}, "'parquet.page.size': cannot read 'big'"),
    ({"parquet.page.row.count.limit": "0"}, "'parquet.page.row.count.limit': cannot read '0'"),
    ({"file.compression.zstd-level": "23"}, "'file.compression.zstd-level': expected a whole number of at most 22"),
    ({"target-file-size": "0 b"}, "'target-file-size': expected a size of at least 1 bytes"),
    ({"cache-page-size": "2 gb"}, "'cache-page-size': expected a size of at most 1073741824 bytes"),
    ({"lookup.hash-load-factor": "1"}, "'lookup.hash-load-factor': expected a number between 0 and 1"),
    ({"lookup.cache.bloom.filter.fpp": "0"}, "'lookup.cache.bloom.filter.fpp': expected a number between 0 and 1"),
    ({"lookup.cache-spill-compression": "lzo"}, "'lookup.cache-spill-compression' = lzo: lzo blocks are read but not"),
    ({"lookup.cache-spill-compression": "gzip"}, "'lookup.cache-spill-compression': none, zstd, lz4 or lzo, not 'gzip'"),
    ({"spill-compression.zstd-level": "0"}, "'spill-compression.zstd-level': a level is 1 to 22, not 0"),
    ({"dynamic-bucket.max-buckets": "40000"}, "dynamic-bucket.max-buckets: must be -1"),
    ({"bucket": "-2"}, "'bucket' = -2: lakeidx could not write the table: rows of a postponed bucket"),
    ({"num-levels": " 5"}, "'num-levels': write '5' without blanks, not ' 5'"),
    ({"write-only": "true "}, "'write-only': write 'true' without blanks"),
    ({"bucket": " 1 "}, "'bucket': write '1' without blanks, not ' 1 '"),
    ({"merge-engine": " deduplicate"}, "'merge-engine': write 'deduplicate' without blanks"),
    ({"file-index.bloom-filter.columns": "nope"}, "unknown column 'nope'"),
    ({"blob-field": "v"}, "'blob-field' = v: lakeidx could not write the table"),
]  # fmt: skip
TAKEN = [
    {"file.compression": "LZ4"}, {"manifest.compression": "ZSTD"}, {"avro.codec": "NULL"}, {"file.format": "PARQUET"},
    {"changelog-file.format": "avro"}, {"lookup.cache-spill-compression": "NONE"}, {"scan.fallback-branch": "b"},
    {"target-file-size": " 64 mb "}, {"snapshot.time-retained": " 1 h "},
    {"file.compression.zstd-level": "22"}, {"dynamic-bucket.max-buckets": "32767"}, {"parquet.page.size": "1"},
]  # fmt: skip


def made_by_java(folder: Path, options: dict[str, str]) -> Table:
    table = make_table(folder)
    schema = new_schema({**SPEC, "options": {**SPEC["options"], **options}})
    table.store.put(table.paths.schema_path(0), encode_schema(schema))
    return Table.open(table.uri)


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_they_are_refused_when_they_are_given(tmp_path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(LakeIdxError) as error:
        make_table(tmp_path / "new", options=options)
    assert said in str(error.value)
    assert not (tmp_path / "new").exists()
    there = Table.open(make_table(tmp_path).uri)
    with pytest.raises(LakeIdxError) as error:
        there.alter(set=options)
    assert said in str(error.value)
    assert there.schema.id == 0


def _verdict(options: dict[str, str]) -> str:
    try:
        check_usable(new_schema({**SPEC, "options": {"bucket": "-1", **options}}))
    except LakeIdxError as error:
        return str(error)
    return ""


def test_checks_that_are_left_out_would_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is made when an option that it reads is set: made always, they find no more, whatever one option says."""
    names = [o.key for o in OPTIONS] + ["parquet.writer.version", "parquet.compression#v", "file-index.bitmap.columns"]
    texts = ("nonsense", "0", "40000", "lzo", "9:xz", "v")
    given = [{name: text} for name in names for text in texts]
    given += [{"merge-engine": "aggregation", "fields.v.aggregate-function": text} for text in ("max", "sum", "rbm64")]
    given += [{"merge-engine": "partial-update", "fields.v.sequence-group": "k"}]
    found = list(map(_verdict, given))
    monkeypatch.setattr(usable, "_sets", lambda schema, *beginnings: True)
    assert found == list(map(_verdict, given))
    assert len(set(found)) > len(names)


@pytest.mark.parametrize("options", TAKEN)
def test_what_can_be_written_is_taken(tmp_path: Path, options: dict[str, str]) -> None:
    table = Table.open(make_table(tmp_path, options=options).uri)
    for value in ("a", "b"):
        table.upsert(rows([(1, 1, value)]))
    table.build_lookup_store()
    assert table.compact(full=True).rows_out == 1


@pytest.mark.parametrize(
    "options", [{"file.format": "orc"}, {"bucket": "-2"}, {"lookup.cache-spill-compression": "lzo"}]
)
def test_tables_of_other_programs_open_and_change(tmp_path: Path, options: dict[str, str]) -> None:
    table = made_by_java(tmp_path, options)
    assert table.scan().to_arrow().num_rows == 0
    table.alter(add={"w": "INT"}, set={"snapshot.num-retained.min": "3"})
    assert table.schema.field_names == ("p", "k", "v", "w")
    with pytest.raises(UnsupportedError, match="blob-field"):
        table.alter(set={"blob-field": "v"})
    ensure_table(table.uri, {**SPEC, "options": {**SPEC["options"], **options}}, None, policy="refuse", landed=True)


def test_what_cannot_be_read_may_be_mended(tmp_path: Path) -> None:
    table = made_by_java(tmp_path, {})
    schema = new_schema({**SPEC, "options": {**SPEC["options"]}})
    broken = encode_schema(schema).replace(b'"bucket"', b'"num-levels" : "x", "bucket"')
    table.store.put(table.paths.schema_path(0), broken)
    table = Table.open(table.uri)
    with pytest.raises(InvalidInputError, match="num-levels"):
        table.alter(add={"w": "INT"})
    table.alter(reset=["num-levels"])
    table.upsert(rows([(1, 1, "a")]))


def test_blanks_that_an_older_release_took_are_read_and_may_be_mended(tmp_path: Path) -> None:
    """Java cannot open such a table."""
    table = make_table(tmp_path, options={"merge-engine": "deduplicate"})
    path = table.paths.schema_path(0)
    table.store.put(path, table.store.get(path).replace(b'"deduplicate"', b'" deduplicate"'))
    there = Table.open(table.uri)
    there.upsert(rows([(1, 1, "a")]))
    there.alter(add={"w": "INT"})
    assert there.schema.options["merge-engine"] == " deduplicate"
    with pytest.raises(InvalidInputError, match="'merge-engine' cannot change once"):
        there.alter(set={"merge-engine": "first-row"})
    there.alter(set={"merge-engine": "deduplicate"})
    assert there.schema.options["merge-engine"] == "deduplicate"
    assert there.scan().to_arrow().num_rows == 1
