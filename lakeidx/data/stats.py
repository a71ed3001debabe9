"""Column statistics of a data file: from the Parquet footer to the BinaryRow bytes in the manifest.

Bounds are missing, and only the null count is there, for BINARY, VARBINARY and INT96 timestamps, for values of more than
4 kB, and for columns that are all null. ARRAY, MAP, MULTISET, ROW and VARIANT have nothing. FLOAT and DOUBLE go by Java's
order: -0.0 below 0.0, NaN above all numbers.

source   org.apache.paimon.statistics.*ColStatsCollector, org.apache.paimon.utils.StatsCollectorFactories,
         org.apache.paimon.format.parquet.ParquetSimpleStatsExtractor, org.apache.paimon.stats.SimpleStatsConverter;
         release 1.4.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.codec.rows.binary_row import with_arity
from lakeidx.codec.rows.binary_row_write import encode_row
from lakeidx.data.parquet.chunks import NO_STATS, ChunkStats, FloatMarks, FooterStats, merge_chunk_stats
from lakeidx.data.parquet.schema import is_int96
from lakeidx.data.stats_modes import ModeKind, StatsMode
from lakeidx.format.data_file import SimpleStats
from lakeidx.types import NESTED_ROOTS, STRING_ROOTS, DataType, Field, Root

_NO_STATS_ROOTS = NESTED_ROOTS | {Root.VARIANT}
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


def float_marks(column: pa.ChunkedArray) -> FloatMarks:
    """Find the special values among some values of a FLOAT or DOUBLE column."""
    marks = FloatMarks()
    for chunk in column.chunks:
        # Nulls become 1.0: neither a NaN nor a zero.
        values = chunk.fill_null(1.0).to_numpy(zero_copy_only=False)
        zeros = values[values == 0]
        negative = int(np.count_nonzero(np.signbit(zeros)))
        marks |= FloatMarks(bool(np.isnan(values).any()), negative > 0, negative < len(zeros))
    return marks


def footer_stats(
    footer: pq.FileMetaData,
    fields: Sequence[Field],
    leaves: Mapping[str, int],
    *,
    floats: Mapping[str, FloatMarks],
    null_counts: Mapping[str, int],
) -> dict[str, FooterStats]:
    """Return the full statistics of the top-level columns of a Parquet file just written, merged over its row groups.

    fields       all columns of the file, in file order
    leaves       number of each one's first leaf column
    floats       special values of FLOAT and DOUBLE columns
    null_counts  of INT96 columns, about which Arrow writes nothing
    cost         O(columns x row groups); reads no data
    """
    groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
    out: dict[str, FooterStats] = {}
    for field in fields:
        name, t = field.name, field.type
        if t.root in _NO_STATS_ROOTS:
            out[name] = NO_STATS
        elif is_int96(t):
            out[name] = FooterStats(null_count=null_counts.get(name))
        else:
            leaf = leaves[name]
            out[name] = merge_chunk_stats([_chunk_of(g.column(leaf)) for g in groups], t, floats.get(name))
    return out


def _chunk_of(chunk: pq.ColumnChunkMetaData) -> ChunkStats:
    stats = chunk.statistics
    if stats is None:
        return ChunkStats(chunk.num_values, None, None, None)
    low, high = (stats.min_raw, stats.max_raw) if stats.has_min_max else (None, None)
    return ChunkStats(chunk.num_values, stats.null_count if stats.has_null_count else None, low, high)


def apply_mode(stats: FooterStats, mode: StatsMode, t: DataType) -> FooterStats:
    """Reduce full statistics to what a mode keeps; string bounds come in as UTF-8 bytes and leave as text."""
    if mode.kind is ModeKind.NONE:
        return NO_STATS
    if mode.kind is ModeKind.COUNTS:
        return FooterStats(null_count=stats.null_count)
    low, high = stats.minimum, stats.maximum
    if low is None or t.root not in STRING_ROOTS:
        return stats
    low, high = low.decode("utf-8", "replace"), high.decode("utf-8", "replace")
    if mode.kind is ModeKind.TRUNCATE:
        low, high = low[: mode.length], truncate_upper(high, mode.length)
        if high is None:
            return FooterStats(null_count=stats.null_count)
    return FooterStats(low, high, stats.null_count)


def truncate_upper(text: str, length: int) -> str | None:
    """Return a text of at most `length` code points that is not below `text`: cut, and one code point raised.

    returns  None when no code point can be raised
    A code point is raised past the surrogates, which are no characters (Paimon's Java raises U+D7FF to U+D800, whose
    UTF-8 form is "?": a bound below the value).
    """
    if len(text) <= length:
        return text
    for i in range(length - 1, -1, -1):
        code = ord(text[i]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST_CODE_POINT:
            return text[:i] + chr(code)
    return None


def simple_stats(stats: Sequence[FooterStats], types: Sequence[DataType]) -> SimpleStats:
    """Convert to the manifest form, one slot per column."""
    low, high, nulls = zip(*stats, strict=True) if stats else ((), (), ())
    arity = len(types)
    return SimpleStats(with_arity(encode_row(low, types), arity), with_arity(encode_row(high, types), arity), nulls)


def dense_stats(
    stats: Mapping[str, FooterStats], fields: Sequence[Field]
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Convert to the manifest form without the columns that have nothing.

    returns  the statistics and the names of the covered columns (`DataFileMeta.value_stats_cols`), None for all columns
    """
    kept = [f for f in fields if not stats[f.name].is_none]
    encoded = simple_stats([stats[f.name] for f in kept], [f.type for f in kept])
    return encoded, None if len(kept) == len(fields) else tuple(f.name for f in kept)
