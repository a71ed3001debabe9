from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeidx.format.file_names import (
    FileName,
    NameKind,
    NewFileNames,
    checksum_in,
    data_file_extension,
    lookup_name,
    numbered,
    parse_file_name,
)
from lakeidx.format.partition_names import bucket_dir_name, parse_bucket_dir

UUID = "85223684-070f-4b7b-a1ce-217d5b745222"
labels = st.text(min_size=1).filter(lambda s: "/" not in s)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("schema-0", FileName(NameKind.SCHEMA, 0)),
        ("snapshot-9223372036854775807", FileName(NameKind.SNAPSHOT, 9223372036854775807)),
        ("changelog-12", FileName(NameKind.CHANGELOG, 12)),
        ("LATEST", FileName(NameKind.HINT, label="LATEST")),
        ("EARLIEST", FileName(NameKind.HINT, label="EARLIEST")),
        ("tag-2024-01-01 ü", FileName(NameKind.TAG, label="2024-01-01 ü")),
        ("consumer-my-id", FileName(NameKind.CONSUMER, label="my-id")),
        (f"manifest-{UUID}-3", FileName(NameKind.MANIFEST, 3, UUID)),
        (f"manifest-list-{UUID}-0", FileName(NameKind.MANIFEST_LIST, 0, UUID)),
        (f"index-manifest-{UUID}-1", FileName(NameKind.INDEX_MANIFEST, 1, UUID)),
        (f"index-{UUID}-10", FileName(NameKind.INDEX, 10, UUID)),
        (f"stat-{UUID}-0", FileName(NameKind.STATISTICS, 0, UUID)),
        (f"data-{UUID}-0.parquet", FileName(NameKind.DATA, 0, UUID, "data-")),
        (f"changelog-{UUID}-1.parquet", FileName(NameKind.DATA, 1, UUID, "changelog-")),
        (f"data--u-user-s-1-w-{UUID}-0.avro", FileName(NameKind.DATA, 0, UUID, "data--u-user-s-1-w-")),
        (f"data-{UUID}-0.zst.parquet", FileName(NameKind.DATA, 0, UUID, "data-")),
        (f"data-{UUID}-0.parquet.index", FileName(NameKind.FILE_INDEX, 0, UUID, f"data-{UUID}-0.parquet")),
        (
            f"data-{UUID}-0.parquet.1581.1p1j1.v1.lookup",
            FileName(NameKind.LOOKUP, label=f"data-{UUID}-0.parquet"),
        ),
        (f".snapshot-3.{UUID}.tmp", FileName(NameKind.TEMP, label="snapshot-3")),
        ("snapshot-01", FileName(NameKind.OTHER)),
        ("snapshot-", FileName(NameKind.OTHER)),
        ("snapshot-x", FileName(NameKind.OTHER)),
        ("snapshot-٣", FileName(NameKind.OTHER)),
        ("snapshot--1", FileName(NameKind.OTHER)),
        (f"manifest-{UUID}", FileName(NameKind.OTHER)),
        ("tag-", FileName(NameKind.OTHER)),
        ("_SUCCESS", FileName(NameKind.OTHER)),
        ("", FileName(NameKind.OTHER)),
    ],
)
def test_names_have_their_kind_and_number(name: str, parsed: FileName) -> None:
    assert parse_file_name(name) == parsed


@given(labels)
def test_any_label_is_kept(label: str) -> None:
    assert parse_file_name(f"tag-{label}") == FileName(NameKind.TAG, label=label)
    assert parse_file_name(f".{label}.{UUID}.tmp") == FileName(NameKind.TEMP, label=label)


@given(st.text())
def test_any_name_has_a_kind_and_raises_nothing(name: str) -> None:
    assert parse_file_name(name).kind in NameKind
    for number in (parse_bucket_dir(name), *(numbered(name, kind) for kind in ("schema", "snapshot", "changelog"))):
        assert number is None or isinstance(number, int)


@given(st.integers(0, (1 << 60)))
def test_a_number_belongs_to_its_prefix(n: int) -> None:
    assert numbered(f"snapshot-{n}", "snapshot") == n
    assert numbered(f"snapshot-{n}", "schema") is None


@pytest.mark.parametrize("bucket", [0, 1, 32766, -2])
def test_names_of_buckets_are_parsed(bucket: int) -> None:
    assert parse_bucket_dir(bucket_dir_name(bucket)) == bucket


def test_other_directories_are_no_buckets() -> None:
    assert bucket_dir_name(-2) == "bucket-postpone"
    assert [parse_bucket_dir(x) for x in ("bucket-", "bucket--1", "bucket-01", "bucket-x", "dt=1")] == [None] * 5


def test_new_names_are_numbered_by_kind() -> None:
    names = NewFileNames(UUID)
    assert [names.manifest_list_name(), names.manifest_list_name()] == [
        f"manifest-list-{UUID}-0",
        f"manifest-list-{UUID}-1",
    ]
    assert names.manifest_name() == f"manifest-{UUID}-0"
    assert names.index_manifest_name() == f"index-manifest-{UUID}-0"
    assert names.index_name() == f"index-{UUID}-0"
    checked = names.index_name(0x00C0FFEE)
    assert checked == f"index-{UUID[:14]}81d8{UUID[18:28]}00c0ffee-1"
    assert checksum_in(checked) == 0x00C0FFEE
    assert [checksum_in(n) for n in (f"index-{UUID}-0", checked.replace("index", "manifest"), "index")] == [None] * 3
    assert names.data_file() == f"data-{UUID}-0.parquet"
    # Data and changelog files of a writer share one counter.
    assert names.data_file(prefix="changelog-") == f"changelog-{UUID}-1.parquet"
    assert names.data_file(data_file_extension("orc", "zstd")) == f"data-{UUID}-2.zst.orc"


def test_a_fresh_uuid_by_default() -> None:
    a, b = NewFileNames(), NewFileNames()
    assert uuid.UUID(a.uuid) != uuid.UUID(b.uuid)


@pytest.mark.parametrize(
    ("file_format", "compression", "extension"),
    [
        ("parquet", None, "parquet"), ("parquet", "none", "parquet"), ("parquet", "zstd", "zst.parquet"),
        ("orc", "ZSTD", "zst.orc"), ("avro", "lz4", "lz4.avro"), ("parquet", "snappy", "snappy.parquet"),
        ("parquet", "gzip", "gz.parquet"), ("csv", "gzip", "csv.gz"), ("json", "zstd", "json.zst"),
        ("text", "zstd", "zst.text"), ("csv", "none", "csv"), ("parquet", "brotli", "brotli.parquet"),
        ("csv", "lzo", "csv.lzo"),
    ],
)  # fmt: skip
def test_extensions_as_java_makes_them(file_format: str, compression: str | None, extension: str) -> None:
    assert data_file_extension(file_format, compression) == extension


def test_files_beside_a_data_file_name_it() -> None:
    data = f"data-{UUID}-0.parquet"
    assert parse_file_name(f"{data}.index").label == data
    assert parse_file_name(lookup_name(data, 12, "p")).label == data
