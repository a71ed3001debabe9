"""Random metadata values for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from lakeidx.format.data_file import DataFileMeta, SimpleStats
from lakeidx.format.index_manifest import DeletionVectorMeta, GlobalIndexMeta, IndexEntry
from lakeidx.format.manifest import FileKind, ManifestEntry
from lakeidx.format.manifest_list import ManifestFileMeta

longs = st.integers(-(1 << 63), (1 << 63) - 1)
ints = st.integers(-(1 << 31), (1 << 31) - 1)
text = st.text(st.characters(codec="utf-8"), max_size=12)
rows = st.binary(max_size=30)
names = st.lists(text, max_size=3).map(tuple)
file_names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
stats = st.builds(SimpleStats, rows, rows, st.none() | st.lists(st.none() | longs, max_size=4).map(tuple))
kinds = st.sampled_from(FileKind)

data_files = st.builds(
    DataFileMeta, file_name=file_names, file_size=longs, row_count=longs, min_key=rows, max_key=rows, key_stats=stats,
    value_stats=stats, min_sequence_number=longs, max_sequence_number=longs, schema_id=longs, level=ints,
    extra_files=st.lists(file_names, max_size=3).map(tuple), creation_time_ms=st.none() | longs,
    delete_row_count=st.none() | longs, embedded_index=st.none() | rows, file_source=st.none() | ints,
    value_stats_cols=st.none() | names, external_path=st.none() | text, first_row_id=st.none() | longs,
    write_cols=st.none() | names,
)  # fmt: skip

manifest_entries = st.builds(
    ManifestEntry, kind=kinds, partition=rows, bucket=ints, total_buckets=ints, file=data_files
)

manifest_files = st.builds(
    ManifestFileMeta, file_name=file_names, file_size=longs, num_added_files=longs, num_deleted_files=longs, partition_stats=stats,
    schema_id=longs, min_bucket=st.none() | ints, max_bucket=st.none() | ints, min_level=st.none() | ints,
    max_level=st.none() | ints, min_row_id=st.none() | longs, max_row_id=st.none() | longs,
)  # fmt: skip

vector_metas = st.builds(
    DeletionVectorMeta, data_file_name=text, offset=ints, length=ints, cardinality=st.none() | longs
)
global_indexes = st.builds(
    GlobalIndexMeta, row_range_start=longs, row_range_end=longs, index_field_id=ints,
    extra_field_ids=st.none() | st.lists(ints, max_size=3).map(tuple), index_meta=st.none() | rows,
)  # fmt: skip
index_entries = st.builds(
    IndexEntry, kind=kinds, partition=rows, bucket=ints, index_type=text, file_name=file_names, file_size=longs, row_count=longs,
    dv_ranges=st.none() | st.lists(vector_metas, max_size=3).map(tuple), external_path=st.none() | text,
    global_index=st.none() | global_indexes,
)  # fmt: skip
