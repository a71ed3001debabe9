"""Many byte strings packed one after another: the form in which serialised rows travel between kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.errors import InvalidInputError


@dataclass(frozen=True, slots=True, eq=False)
class RowBytes:
    """n byte strings: string i is ``data[offsets[i]:offsets[i + 1]]``.

    data     uint8[total] (may hold bytes before the first and after the last string)
    offsets  int64[n + 1], not decreasing
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> bytes:
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"row {i} of {n}")
        i %= n
        return self.data[self.offsets[i] : self.offsets[i + 1]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.to_list())

    def __eq__(self, other: object) -> bool:
        """Return True for the same strings in the same order (offsets may start elsewhere)."""
        if not isinstance(other, RowBytes):
            return NotImplemented
        return len(self) == len(other) and bool(
            np.array_equal(self.lengths, other.lengths) and np.array_equal(self.flat, other.flat)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """int64[n] byte length of each string."""
        return np.diff(self.offsets)

    @property
    def flat(self) -> npt.NDArray[np.uint8]:
        """The bytes of all strings, without the bytes before or after them."""
        return self.data[self.offsets[0] : self.offsets[-1]]

    @property
    def nbytes(self) -> int:
        """Bytes of all strings together."""
        return int(self.offsets[-1] - self.offsets[0])

    def to_list(self) -> list[bytes]:
        """Return all strings as Python bytes."""
        raw = self.data.tobytes()
        bounds = self.offsets.tolist()
        return [raw[a:b] for a, b in pairwise(bounds)]

    def slice(self, start: int, stop: int) -> RowBytes:
        """Return the strings start..stop-1, sharing the bytes."""
        start, stop = max(0, min(start, len(self))), max(0, min(stop, len(self)))
        return RowBytes(self.data, self.offsets[start : max(start, stop) + 1])

    def take(self, rows: npt.NDArray[np.int64]) -> RowBytes:
        """Take some strings, in this order, packed again."""
        width = self._width()
        if width:
            data = self.flat.reshape(-1, width).take(rows, axis=0)
            return RowBytes(data.reshape(-1), self._even_offsets(len(rows), width))
        return RowBytes.from_arrow(self.to_arrow().take(pa.array(rows)))

    def _even_offsets(self, n: int, width: int) -> npt.NDArray[np.int64]:
        """Return the offsets of n strings of one length, which that of ours is: the same array where it will do."""
        if n <= len(self) and self.offsets[0] == 0:
            return self.offsets[: n + 1]
        return np.arange(n + 1, dtype=np.int64) * width

    def _width(self) -> int:
        """Return the length of all strings; 0 when it is that, or they differ, or there is none."""
        n = len(self)
        width, rest = divmod(self.nbytes, n) if n else (0, 0)
        return 0 if rest or not width or not bool((self.lengths == width).all()) else width

    def to_arrow(self) -> pa.Array:
        """Convert to Arrow binary (large_binary above 2 GiB), without copying the bytes."""
        if int(self.offsets[-1]) > np.iinfo(np.int32).max:
            kind, offsets = pa.large_binary(), self.offsets
        else:
            kind, offsets = pa.binary(), self.offsets.astype(np.int32)
        buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(self.data))]
        return pa.Array.from_buffers(kind, len(self), buffers)

    @classmethod
    def empty(cls) -> RowBytes:
        """Make a column without strings."""
        return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[RowBytes]) -> RowBytes:
        """Concatenate columns; a single one is not copied."""
        if len(parts) == 1:
            return parts[0]
        offsets = np.zeros(sum(len(p) for p in parts) + 1, np.int64)
        np.cumsum(np.concatenate([np.zeros(0, np.int64), *(p.lengths for p in parts)]), out=offsets[1:])
        return cls(np.concatenate([np.zeros(0, np.uint8), *(p.flat for p in parts)]), offsets)

    @classmethod
    def from_list(cls, rows: Sequence[bytes]) -> RowBytes:
        """Pack Python bytes."""
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(r) for r in rows], out=offsets[1:])
        return cls(np.frombuffer(b"".join(rows), np.uint8), offsets)

    @classmethod
    def from_arrow(cls, column: pa.Array | pa.ChunkedArray) -> RowBytes:
        """Make one from an Arrow (large_)binary or (large_)string column without nulls, sharing the bytes when it is one chunk.

        errors   InvalidInputError for nulls or another type
        """
        if isinstance(column, pa.ChunkedArray):
            if column.num_chunks == 0:
                return cls.empty()
            if column.num_chunks > 1:
                return cls.concat([cls.from_arrow(chunk) for chunk in column.chunks])
            column = column.chunk(0)
        t = column.type
        if pa.types.is_binary_view(t) or pa.types.is_string_view(t):
            column = column.cast(pa.large_binary())
        elif pa.types.is_fixed_size_binary(t) or pa.types.is_dictionary(t):
            column = column.cast(pa.binary())
        t = column.type
        if not (
            pa.types.is_binary(t) or pa.types.is_string(t) or pa.types.is_large_binary(t) or pa.types.is_large_string(t)
        ):
            raise InvalidInputError(f"rows need a binary or string column, not {t}")
        if column.null_count:
            raise InvalidInputError(f"{column.null_count} rows are null")
        wide = pa.types.is_large_binary(t) or pa.types.is_large_string(t)
        _, offset_buffer, data_buffer = column.buffers()
        if len(column) == 0 or offset_buffer is None:
            return cls.empty()
        raw = np.frombuffer(offset_buffer, np.int64 if wide else np.int32)
        offsets = raw[column.offset : column.offset + len(column) + 1].astype(np.int64, copy=False)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
        return cls(data, offsets)
