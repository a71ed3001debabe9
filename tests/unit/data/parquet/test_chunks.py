"""The footer walk gives what Arrow's metadata objects give, and stands any bytes."""

from __future__ import annotations

import gc
import io
import random
import weakref

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.chunks import ChunkStats, FooterChunks, open_footer
from lakeidx.errors import CorruptFileError


def sample_file(*, page_index: bool) -> bytes:
    table = pa.table(
        {
            "i": pa.array([3, None, -7, 12], pa.int32()),
            "l": pa.array([1, 2, 3, 2**40]),
            "s": ["b", "", "zz", None],
            "d": pa.array([1, 2, None, 4], pa.decimal128(30, 2)),
            "f": [1.5, None, -2.0, 0.0],
            "b": [True, None, True, True],
            "n": pa.array([None] * 4, pa.int64()),
            "a": [[1], None, [2, 3], []],
            "long": ["x" * 5000, "y", None, "z"],
        }
    )
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=2, write_page_index=page_index, store_decimal_as_integer=True)
    return out.getvalue()


def footer_of(raw: bytes) -> bytes:
    length = int.from_bytes(raw[-8:-4], "little")
    return raw[-8 - length : -8]


@pytest.mark.parametrize("page_index", [False, True])
def test_every_chunk_is_what_arrow_says(page_index: bool) -> None:
    raw = sample_file(page_index=page_index)
    arrow = pq.ParquetFile(io.BytesIO(raw)).metadata
    chunks = FooterChunks(footer_of(raw), arrow.num_row_groups, arrow.num_columns, "f")
    for g in range(arrow.num_row_groups):
        for c in range(arrow.num_columns):
            wanted = arrow.row_group(g).column(c)
            stats = wanted.statistics
            low, high = (stats.min_raw, stats.max_raw) if stats.has_min_max else (None, None)
            low, high = (v.encode() if isinstance(v, str) else v for v in (low, high))
            assert chunks.stats(g, c, wanted.physical_type) == ChunkStats(
                wanted.num_values, stats.null_count, low, high
            )
            assert chunks.compressed_bytes(g, c) == wanted.total_compressed_size


@pytest.mark.slow
def test_any_bytes_give_a_value_or_corrupt_file_error() -> None:
    footer = footer_of(sample_file(page_index=True))
    rng = random.Random(5)
    damaged = 0
    variants = [footer[:n] for n in range(len(footer))]
    variants += [
        footer[:i] + bytes([footer[i] ^ (1 << rng.randrange(8))]) + footer[i + 1 :] for i in range(len(footer))
    ]
    variants += [rng.randbytes(rng.randrange(200)) for _ in range(500)]
    for variant in variants:
        try:
            chunks = FooterChunks(variant, 2, 9, "f")
        except CorruptFileError:
            damaged += 1
            continue
        for c in range(9):
            for physical in ("INT32", "INT64", "DOUBLE", "BYTE_ARRAY", "BOOLEAN"):
                chunks.stats(1, c, physical)
    assert len(footer) < damaged < len(variants)


def test_columns_of_dictionary_pages_only_are_known() -> None:
    n = 3000
    table = pa.table({
        "few": [f"v{i % 9}" for i in range(n)], "many": [f"value number {i}" for i in range(n)], "numbers": list(range(n)),
        "plain": ["x"] * n,
    })  # fmt: skip
    for version in ("1.0", "2.6"):
        out = io.BytesIO()
        pq.write_table(
            table, out, row_group_size=2000, use_dictionary=["few", "many"], dictionary_pagesize_limit=4096,
            version=version, column_encoding={"numbers": "DELTA_BINARY_PACKED"},
        )  # fmt: skip
        chunks = FooterChunks(footer_of(out.getvalue()), 2, 4, "f")
        found = chunks.dictionary_only()
        # The larger format version writes the dictionary itself as PLAIN, which may as well be a page of values.
        assert found == [version == "1.0", False, False, False]


def test_another_number_of_row_groups_or_columns_is_damage() -> None:
    footer = footer_of(sample_file(page_index=False))
    for groups, columns in ((1, 9), (3, 9), (2, 8), (2, 10)):
        with pytest.raises(CorruptFileError, match="f at byte"):
            FooterChunks(footer, groups, columns, "f")


def test_a_footer_that_nobody_holds_is_gone_at_once() -> None:
    stream = pa.BufferReader(sample_file(page_index=False))
    gc.disable()
    try:
        footer = open_footer(stream, "f")
        assert [leaf.path for leaf in footer.leaves][:3] == ["i", "l", "s"]
        metadata = weakref.ref(footer.metadata)
        del footer
        assert metadata() is None
    finally:
        gc.enable()
