from __future__ import annotations

import pickle
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.options.table_options import OPTION_BY_KEY, OPTIONS, TableOptions


def test_defaults_are_those_of_paimon() -> None:
    o = TableOptions({})
    assert o.bucket == -1
    assert o.merge_engine == "deduplicate"
    assert o.file_format == "parquet"
    assert o.file_compression == "zstd"
    assert o.manifest_target_file_size == 8 * 1024**2
    assert o.manifest_full_compaction_threshold_size == 16 * 1024**2
    assert o.manifest_merge_min_count == 30
    assert o.snapshot_num_retained_min == 10
    assert o.snapshot_time_retained == 3_600_000
    assert o.dynamic_bucket_target_row_num == 2_000_000
    assert o.dynamic_bucket_initial_buckets is None
    assert o.dynamic_bucket_max_buckets == -1
    assert o.file_index_in_manifest_threshold == 500
    assert o.deletion_vector_index_file_target_size == 2 * 1024**2
    assert o.num_levels is None
    assert o.max_levels == 6
    assert o.metadata_stats_mode == "truncate(16)"
    assert o.lookup_cache_bloom_filter_fpp == 0.05
    assert o.commit_min_retry_wait == 10
    assert o.partition_legacy_name is True
    assert o.sequence_field == ()
    assert o.manifest_codec == "zstd"
    assert not o.needs_lookup


def test_every_option_is_declared_once_and_documented() -> None:
    assert len(OPTION_BY_KEY) == len(OPTIONS) > 100
    empty = TableOptions({})
    for option in OPTIONS:
        assert option.doc.endswith(".")
        assert getattr(empty, option.attribute) == option.default
        assert getattr(TableOptions, option.attribute) is option


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("bucket", "4", 4),
        ("bucket", "-2", -2),
        ("target-file-size", "8 kb", 8192),
        ("target-file-size", "8KB", 8192),
        ("target-file-size", "1024", 1024),
        ("target-file-size", "3 m", 3 * 1024**2),
        ("target-file-size", "2 tebibytes", 2 * 1024**4),
        ("target-file-size", "1 b", 1),
        ("target-file-size", "500 bytes", 500),
        ("snapshot.time-retained", "1 h", 3_600_000),
        ("snapshot.time-retained", "2 d", 172_800_000),
        ("snapshot.time-retained", "10min", 600_000),
        ("snapshot.time-retained", "5 seconds", 5000),
        ("snapshot.time-retained", "1500", 1500),
        ("snapshot.time-retained", "2000000 ns", 2),
        ("snapshot.time-retained", "3 milliseconds", 3),
        ("write-only", "TRUE", True),
        ("merge-engine", "Partial-Update", "partial-update"),
        ("merge-engine", "first-row", "first-row"),
        ("sequence.field", "a, b ,c", ("a", "b", "c")),
        ("file.format.per.level", "0:avro, 5:orc", {"0": "avro", "5": "orc"}),
        ("lookup.cache.bloom.filter.fpp", "0.01", 0.01),
        ("dynamic-bucket.target-row-num", "5000000000", 5_000_000_000),
        ("changelog-producer", "full-compaction", "full-compaction"),
    ],
)
def test_texts_are_parsed_to_values(key: str, text: str, value: Any) -> None:
    options = TableOptions({key: text})
    assert getattr(options, OPTION_BY_KEY[key].attribute) == value
    assert options.raw == {key: text}
    assert options.is_set(key)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("bucket", "0"),
        ("bucket", "-3"),
        ("bucket", "many"),
        ("bucket", "1.5"),
        ("bucket", ""),
        ("bucket", "99999999999"),
        ("bucket", "٣"),
        ("target-file-size", "8 kib"),
        ("target-file-size", "-1"),
        ("target-file-size", "big"),
        ("target-file-size", "99999999 tb"),
        ("snapshot.time-retained", "1 fortnight"),
        ("snapshot.time-retained", "PT1H"),
        ("write-only", "yes"),
        ("write-only", ""),
        ("merge-engine", "newest"),
        ("changelog-producer", ""),
        ("sequence.field", "a,,b"),
        ("file.format.per.level", "avro"),
        ("lookup.cache.bloom.filter.fpp", "2"),
        ("lookup.cache.bloom.filter.fpp", "nan"),
        ("snapshot.num-retained.min", "0"),
        ("dynamic-bucket.max-buckets", "-2"),
        ("bucket-function.type", "murmur"),
    ],
)
def test_values_that_cannot_be_read(key: str, text: str) -> None:
    options = TableOptions({key: text, "num-levels": "4"})
    with pytest.raises(InvalidInputError, match=f"option '{key}'"):
        getattr(options, OPTION_BY_KEY[key].attribute)
    with pytest.raises(InvalidInputError, match=f"option '{key}'"):
        options.check()
    assert options.num_levels == 4  # the others are not spoiled
    TableOptions({"num-levels": "4"}).check()


def test_old_names_of_options_count() -> None:
    assert TableOptions({"write.compaction-skip": "true"}).write_only
    assert TableOptions({"write.compaction-skip": "true", "write-only": "false"}).write_only is False
    assert TableOptions({"partial-update.ignore-delete": "true"}).ignore_delete
    assert TableOptions({"first-row.ignore-delete": "true"}).is_set("ignore-delete")
    assert not TableOptions({}).is_set("ignore-delete")
    with pytest.raises(InvalidInputError, match="ignore-delete"):
        TableOptions({"deduplicate.ignore-delete": "x"}).check()


def test_unknown_keys_are_kept() -> None:
    raw = {"my.own": "x", "parquet.page.size": "1024", "bucket": "2"}
    options = TableOptions(raw)
    assert options.raw == raw
    assert options.with_prefix("parquet.") == {"page.size": "1024"}
    assert options.is_set("my.own")


def test_options_of_fields_are_collected() -> None:
    options = TableOptions(
        {
            "fields.a.aggregate-function": "sum",
            "fields.b.aggregate-function": "max",
            "fields.ts,ts2.sequence-group": "a,b",
            "fields.default-aggregate-function": "last_value",
            "fields.a.b.stats-mode": "none",
        }
    )
    assert options.field_option("a", "aggregate-function") == "sum"
    assert options.field_option("c", "aggregate-function") is None
    assert options.field_options("aggregate-function") == {"a": "sum", "b": "max"}
    assert options.field_options("sequence-group") == {"ts,ts2": "a,b"}
    assert options.field_options("stats-mode") == {"a.b": "none"}
    assert options.fields_default_aggregate_function == "last_value"


def test_derived_values_follow_from_several_options() -> None:
    assert TableOptions({"manifest.compression": "null"}).manifest_codec == "null"
    assert TableOptions({"manifest.compression": "null", "avro.codec": "deflate"}).manifest_codec == "deflate"
    assert TableOptions({"num-levels": "3"}).max_levels == 3
    assert TableOptions({"num-sorted-run.compaction-trigger": "7"}).max_levels == 8
    for raw in (
        {"changelog-producer": "lookup"},
        {"merge-engine": "first-row"},
        {"deletion-vectors.enabled": "true"},
        {"force-lookup": "true"},
    ):
        assert TableOptions(raw).needs_lookup


def test_equality_and_pickling() -> None:
    a, b = TableOptions({"bucket": "2"}), TableOptions({"bucket": "2"})
    assert a == b
    assert hash(a) == hash(b)
    assert a != TableOptions({"bucket": "3"})
    assert pickle.loads(pickle.dumps(a)) == a
    assert "bucket" in repr(a)
