"""The page index of a column chunk, held against the pages and the values they hold: readers leave out pages by it.

OffsetIndex: 1 list of PageLocation (1 i64 offset, 2 i32 size with header, 3 i64 first row), 2 list of i64 (bytes of the values).
ColumnIndex: 1 list of bool (only nulls), 2 and 3 lists of binary (lowest, highest value), 4 i32 (0 no order, 1 ascending, 2
descending), 5 list of i64 (nulls), 6 and 7 lists of i64 (repetition and definition levels: how often each, page after page).
PageHeader: 1 type, 3 size in the file, 5 DataPageHeader (1 values), 8 DataPageHeaderV2 (1 values); the page's bytes follow it.

source   parquet-format 2.10 ``parquet.thrift``
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.data.nested_nulls import map_entries
from lakeidx.data.parquet.chunks import ChunkPlace, plain_value
from lakeidx.data.parquet.damage import PAGE_BYTES
from lakeidx.data.parquet.thrift import (
    BINARY,
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    decode_struct,
)
from lakeidx.errors import CorruptFileError

Numbers = npt.NDArray[np.int64]

# Fields of the indexes, as `decode_struct` names them.
_PLACES, _UNENCODED = (1, LIST, STRUCT), (2, LIST, I64)
_NULL_PAGES, _LOW, _HIGH, _ORDER = (1, LIST, FALSE), (2, LIST, BINARY), (3, LIST, BINARY), (4, I32)
_NULLS, _REPETITIONS, _DEFINITIONS = (5, LIST, I64), (6, LIST, I64), (7, LIST, I64)
_OFFSET_INDEX = (_PLACES, _UNENCODED)
_COLUMN_INDEX = (_NULL_PAGES, _LOW, _HIGH, _ORDER, _NULLS, _REPETITIONS, _DEFINITIONS)
_LATER_FIELDS = 16
# Fields of a page header, and the number of values, which comes first in the structs of both types of data pages.
_KIND, _PAGE, _PAGE_2, _PAGE_VALUES = (1, I32), (5, STRUCT), (8, STRUCT), (1, I32)
# Types of pages.
_DATA, _DATA_2 = 0, 3
#: Bytes of a character in UTF-8 at most.
_CHARACTER = 4
#: Decimals of 38 digits stay exact.
_EXACT = Context(prec=80)


@dataclass(frozen=True, slots=True)
class LeafValues:
    """Values of some rows in a leaf column.

    values   nulls included; rows: the row of each
    slots    rows of the places without a value, because a list around it is null or empty
    """

    values: pa.Array
    rows: Numbers
    slots: Numbers


def leaf_values(values: pa.Array, rows: Numbers, slots: Sequence[Numbers] = ()) -> Iterator[LeafValues]:
    """Return the values of every leaf column below a column, in the order of the file.

    rows   of the values, ascending
    """
    t = values.type
    if pa.types.is_map(t):
        values = map_entries(values)
    if pa.types.is_struct(t):
        for child in values.flatten():
            yield from leaf_values(child, rows, slots)
    elif pa.types.is_map(t) or pa.types.is_list(t) or pa.types.is_large_list(t):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        yield from leaf_values(values.flatten(), np.repeat(rows, lengths), [*slots, rows[lengths == 0]])
    else:
        yield LeafValues(values, rows, np.concatenate([*slots, np.empty(0, np.int64)]))


class ChunkPages:
    """The pages of a chunk by its page index. Give it the rows of the chunk, then ask for what is wrong.

    column, physical_type   of the leaf
    flat       it is a column of the table: its nulls are counted alike by every writer
    nulls      of the chunk by the footer; None: not there
    errors     CorruptFileError naming byte and column when an index cannot be read, or is not that of the chunk
    """

    def __init__(
        self,
        stream: pa.NativeFile,
        place: ChunkPlace,
        rows: int,
        *,
        column: str,
        physical_type: str,
        flat: bool,
        nulls: int | None,
    ) -> None:
        self._stream, self._place, self._column, self._physical = stream, place, column, physical_type
        self._flat, self._nulls = flat, nulls
        index = self._decoded(place.index_at, place.index_size, "offset index")
        self._offsets, self._firsts = self._page_places(index, rows)
        pages = len(self._offsets) - 1
        self._unencoded = index.get(_UNENCODED) if physical_type == "BYTE_ARRAY" else None
        has_bounds = min(place.bounds_at, place.bounds_size) >= 0
        self._bounds = self._decoded(place.bounds_at, place.bounds_size, "column index") if has_bounds else None
        if self._bounds is not None and not self._bounds.keys() >= {_NULL_PAGES, _LOW, _HIGH, _ORDER}:
            raise self._wrong("column index", "fields are missing")
        self._places, self._values, self._bytes = (np.zeros(pages, np.int64) for _ in range(3))
        self._low: list[Any] = [None] * pages
        self._high: list[Any] = [None] * pages

    def add(self, leaf: LeafValues) -> None:
        """Count the values of the next rows in their pages."""
        pages = np.searchsorted(self._firsts, leaf.rows, side="right") - 1
        for held in (pages, np.searchsorted(self._firsts, leaf.slots, side="right") - 1):
            self._places += np.bincount(held, minlength=len(self._places))
        values, words = leaf.values, None
        if pa.types.is_dictionary(values.type):
            # Few values are put into order, and their numbers compared.
            words = values.dictionary.take(pc.sort_indices(values.dictionary))
            values = pc.index_in(values.dictionary, words).take(values.indices)
        if self._unencoded is not None:
            sizes = pc.binary_length(values) if words is None else pc.binary_length(words).take(values)
            weights = pc.fill_null(sizes, 0).to_numpy(zero_copy_only=False)
            self._bytes += np.bincount(pages, weights=weights, minlength=len(self._bytes)).astype(np.int64)
        # Rows ascend, so the values of a page lie together.
        edges = [0, *(np.flatnonzero(np.diff(pages)) + 1).tolist(), len(pages)]
        cuts = [(int(pages[at]), values.slice(at, end - at)) for at, end in pairwise(edges) if end > at]
        for page, part in cuts:
            self._values[page] += len(part) - part.null_count
        if self._bounds is None or not cuts:
            return
        found = [pc.min_max(part) for _, part in cuts]
        for name, kept, better in (("min", self._low, min), ("max", self._high, max)):
            bounds = pa.array([both[name] for both in found], values.type)
            bounds = bounds if words is None else words.take(bounds)
            for (page, _), value in zip(cuts, _plain_numbers(bounds), strict=True):
                if value is not None:
                    kept[page] = value if kept[page] is None else better(kept[page], value)

    def check(self) -> None:
        """Compare pages and index with what was added.

        errors   CorruptFileError
        """
        begin, end = int(self._offsets[0]), self._place.start + self._place.size
        data = self._stream.read_at(end - begin, begin)
        if len(data) != end - begin or not _pages_fit(data, self._offsets - begin, self._places):
            raise self._wrong("offset index", "page sizes differ from the page index")
        if self._unencoded is not None and self._unencoded != self._bytes.tolist():
            raise self._wrong("offset index", "the bytes of values in the page index are not those of the pages")
        if self._bounds is not None:
            fault = self._wrong_counts(self._bounds) or self._wrong_bounds(self._bounds)
            if fault is not None:
                raise self._wrong("column index", fault)

    def _wrong_counts(self, index: Mapping[tuple[int, ...], Any]) -> str | None:
        """Check which pages have only nulls, how many, and how often each level comes."""
        pages, places, values = len(self._places), self._places.tolist(), self._values.tolist()
        if index[_NULL_PAGES] != [count == 0 for count in values]:
            return "pages of nulls alone in the page index are others"
        nulls = index.get(_NULLS)
        if nulls is None and self._nulls is not None:
            return "the page index has no counts of nulls, the footer has"
        if nulls is not None:
            counted = [p - v for p, v in zip(places, values, strict=True)]
            # Writers do not agree on what a null is below a list.
            if len(nulls) != pages or (nulls != counted if self._flat else self._nulls not in (None, sum(nulls))):
                return "counts of nulls in the page index are not those of the pages"
        for levels, last in ((index.get(_REPETITIONS), None), (index.get(_DEFINITIONS), values)):
            if not levels:
                continue
            width = len(levels) // pages
            rows = [levels[p * width : (p + 1) * width] for p in range(pages)]
            wrong = len(levels) != width * pages or [sum(row) for row in rows] != places
            if wrong or (last is not None and [row[-1] for row in rows] != last):
                return "counts of levels in the page index are not those of the pages"
        return None

    def _wrong_bounds(self, index: Mapping[tuple[int, ...], Any]) -> str | None:
        """Check the least and the greatest value of each page, and the order of the pages."""
        low, high, order = index[_LOW], index[_HIGH], index[_ORDER]
        pages = len(self._values)
        if {len(low), len(high)} != {pages}:
            return "the page index has bounds for another number of pages"
        found: list[tuple[Any, Any]] = []
        for page in range(pages):
            if not self._values[page]:
                if low[page] or high[page]:
                    return f"page {page} has only nulls, and bounds in the page index"
                continue
            least, greatest = self._low[page], self._high[page]
            if _is_unknown(least) or _is_unknown(greatest):
                return None
            pair = _bound(low[page], least, self._physical), _bound(high[page], greatest, self._physical)
            if not (is_least(pair[0], least) and is_greatest(pair[1], greatest)):
                return f"the bounds of page {page} in the page index are not those of its values"
            found.append(pair)
        if found:
            rising = all(a <= c and b <= d for (a, b), (c, d) in pairwise(found))
            falling = all(a >= c and b >= d for (a, b), (c, d) in pairwise(found))
            if order != (1 if rising else 2 if falling else 0):
                return "the order of the pages in the page index is not that of their bounds"
        return None

    def _decoded(self, at: int, size: int, what: str) -> dict[tuple[int, ...], Any]:
        try:
            data = self._stream.read_at(size, at)
            found, end = decode_struct(data, 0)
        except (CorruptFileError, ValueError, IndexError) as error:
            raise self._wrong(what, "it cannot be read") from error
        if end != size:
            raise self._wrong(what, "it has another length than the footer says")
        known = _OFFSET_INDEX if what == "offset index" else _COLUMN_INDEX
        # Some fields beyond those known may be of later releases of the format.
        if any(key not in known and not len(known) < key[0] <= _LATER_FIELDS for key in found):
            raise self._wrong(what, "its fields are of other types")
        return found

    def _page_places(self, index: Mapping[tuple[int, ...], Any], rows: int) -> tuple[Numbers, Numbers]:
        """Return offsets and first rows of the pages, what follows the last one included."""
        try:
            pages = np.array([(p[1, I64], p[2, I32], p[3, I64]) for p in index[_PLACES]], np.int64).reshape(-1, 3)
        except (KeyError, OverflowError) as error:
            raise self._wrong("offset index", "it is none of pages") from error
        end = self._place.start + self._place.size
        offsets, firsts = np.append(pages[:, 0], end), np.append(pages[:, 2], rows)
        apart = np.diff(offsets)
        if not len(pages) or offsets[0] < self._place.start or firsts[0] or (np.diff(firsts) <= 0).any():
            raise self._wrong("offset index", "its pages do not hold the rows of the chunk")
        if (apart != pages[:, 1]).any() or (apart <= 0).any():
            raise self._wrong("offset index", "its pages are not those of the chunk, one after another")
        return offsets, firsts

    def _wrong(self, what: str, fault: str) -> CorruptFileError:
        at = self._place.index_at if what == "offset index" else self._place.bounds_at
        return CorruptFileError(f"column {self._column}: the {what} is damaged: {fault}", offset=at)


def _plain_numbers(bounds: pa.Array) -> list[Any]:
    """Return values as Parquet stores them: numbers of days or units, unscaled decimals, bytes."""
    t = bounds.type
    if pa.types.is_decimal(t):
        return [None if v is None else int(v.scaleb(t.scale, _EXACT)) for v in bounds.to_pylist()]
    if t in (pa.date64(), pa.timestamp("s")):
        return [None] * len(bounds)  # stored in other units than shown
    if pa.types.is_temporal(t):
        return list(bounds.view(pa.int64() if t.bit_width == 64 else pa.int32()).to_pylist())
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return list(bounds.cast(pa.binary() if pa.types.is_string(t) else pa.large_binary()).to_pylist())
    return list(bounds.to_pylist())


def _bound(raw: bytes, like: Any, physical_type: str) -> Any:
    """Decode a bound to what values of its column are: those of a decimal may be bytes."""
    value = plain_value(raw, physical_type)
    return int.from_bytes(raw, "big", signed=True) if isinstance(value, bytes) and isinstance(like, int) else value


def is_least(bound: Any, value: Any) -> bool:
    """Return True for the least value itself, or the beginning of it: writers cut long texts."""
    return bool(bound == value or (isinstance(value, bytes) and bound and value.startswith(bound)))


def is_greatest(bound: Any, value: Any) -> bool:
    """Return True for the greatest value itself, or its beginning with one character more by one: what carries over may follow."""
    if bound == value or not isinstance(value, bytes) or len(bound) >= len(value):
        return bool(bound == value)
    alike = next((i for i, (a, b) in enumerate(zip(bound, value, strict=False)) if a != b), len(bound))
    after = slice(alike + _CHARACTER, len(bound))
    carried = all(a == b or (a, b) == (0, 0xFF) for a, b in zip(bound[after], value[after], strict=True))
    return bound > value and carried


def _is_unknown(value: Any) -> bool:
    """Return True where the values of a page have no least one that writers agree on."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _pages_fit(data: bytes, starts: Numbers, values: Numbers) -> bool:
    """Return True when consecutive data pages begin at starts int64[p + 1] and have values int64[p] values."""
    for (begin, end), expected in zip(pairwise(starts.tolist()), values.tolist(), strict=True):
        try:
            header, at = decode_struct(data, begin)
        except (CorruptFileError, ValueError, IndexError):
            return False
        counted = header.get(_PAGE) or header.get(_PAGE_2) or {}
        if header.get(_KIND) not in (_DATA, _DATA_2) or counted.get(_PAGE_VALUES) != expected:
            return False
        if at + header.get(PAGE_BYTES, -1) != end:
            return False
    return True
