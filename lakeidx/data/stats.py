"""Column statistics of a data file: from the Parquet footer to the BinaryRow bytes in the manifest.

Modes (`metadata.stats-mode`, `metadata.stats-mode.per.level`, `fields.<column>.stats-mode`):

===============  ============================================================================================
mode             what is kept
===============  ============================================================================================
none             nothing: minimum, maximum and null count are all null
counts           the null count
truncate(n)      everything; strings cut to n code points: the minimum is cut, the maximum is cut and its last
                 code point that can be is raised by one. If none can be raised both bounds are left out
full             everything, uncut
===============  ============================================================================================

System columns, and in thin mode the value columns that are keys, use truncate(128) whatever the mode of the table; an
explicit `fields.<column>.stats-mode` beats both. Columns with nothing at all (nested types, mode none) are left out of
dense statistics.

Bounds are missing, and only the null count is there, for BINARY, VARBINARY and INT96 timestamps, for values of more than
4 kB, and for columns that are all null. ARRAY, MAP, MULTISET, ROW and VARIANT have nothing. FLOAT and DOUBLE go by Java's
order: -0.0 below 0.0, NaN above all numbers.

source   org.apache.paimon.statistics.*ColStatsCollector, org.apache.paimon.utils.StatsCollectorFactories,
         org.apache.paimon.format.parquet.ParquetSimpleStatsExtractor, org.apache.paimon.stats.SimpleStatsConverter;
         release 1.4.2
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.codec.rows.binary_row import encode_row, with_arity
from lakeidx.data.parquet.chunks import NO_STATS, ChunkStats, FloatMarks, FooterStats, merge_chunk_stats
from lakeidx.data.parquet.schema import SYSTEM_COLUMNS, is_int96
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import SimpleStats
from lakeidx.format.schema.table_schema import KEY_PREFIX
from lakeidx.types import NESTED_ROOTS, STRING_ROOTS, DataType, Field, Root

_SYSTEM_TRUNCATE_LENGTH = 128
_TRUNCATE = re.compile(r"TRUNCATE\((\d+)\)")
_NO_STATS_ROOTS = NESTED_ROOTS | {Root.VARIANT}
_SURROGATES = range(0xD800, 0xE000)
_LAST_CODE_POINT = 0x10FFFF


class ModeKind(StrEnum):
    """Kinds of statistics that are kept of a column."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class StatsMode:
    """A statistics mode; `length` in code points, for TRUNCATE only."""

    kind: ModeKind
    length: int = 0

    def keeps_all(self, t: DataType) -> bool:
        """Return True when it leaves the statistics of a column as the footer has them."""
        return t.root not in STRING_ROOTS and self.kind in (ModeKind.FULL, ModeKind.TRUNCATE)


_SYSTEM_MODE = StatsMode(ModeKind.TRUNCATE, _SYSTEM_TRUNCATE_LENGTH)
_NONE_MODE = StatsMode(ModeKind.NONE)


def parse_stats_mode(text: str) -> StatsMode:
    """Parse a mode as options spell it, upper or lower case.

    errors   InvalidInputError
    """
    upper = text.strip().upper()
    if upper in ("NONE", "COUNTS", "FULL"):
        return StatsMode(ModeKind[upper])
    m = _TRUNCATE.fullmatch(upper)
    if m is not None and int(m[1]) > 0:
        return StatsMode(ModeKind.TRUNCATE, int(m[1]))
    raise InvalidInputError(f"stats mode {text!r} is not none, counts, full or truncate(N) with N > 0")


def stats_modes(
    columns: Sequence[str],
    *,
    default: StatsMode,
    options: Mapping[str, str],
    thin_keys: Sequence[str] = (),
    keep_first_columns: int = -1,
) -> dict[str, StatsMode]:
    """Return the mode of every column of a data file.

    columns             all columns of the file in file order, system columns included
    default             the table's mode at this level
    options             table options, for `fields.<column>.stats-mode`
    thin_keys           in thin mode the trimmed primary key, else empty
    keep_first_columns  `metadata.stats-keep-first-n-columns`: ordinary columns beyond it have none; -1 keeps all
    errors              InvalidInputError naming the option
    """
    modes: dict[str, StatsMode] = {}
    counted = 0
    for name in columns:
        option = f"fields.{name}.stats-mode"
        explicit = options.get(option)
        if explicit is not None:
            try:
                modes[name] = parse_stats_mode(explicit)
            except InvalidInputError as e:
                raise InvalidInputError(f"{option}: {e.message}") from e
            counted += 1
        elif name.startswith(KEY_PREFIX) or name in SYSTEM_COLUMNS or name in thin_keys:
            modes[name] = _SYSTEM_MODE
        else:
            modes[name] = _NONE_MODE if 0 <= keep_first_columns <= counted else default
            counted += 1
    return modes


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
