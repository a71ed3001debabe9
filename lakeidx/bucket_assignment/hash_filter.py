"""A small filter of a batch's key hashes, and what of an index file passes it.

An index file holds all hashes of a bucket, a batch often few of them. The filter is a bitmap over the **top** bits of the hash, 32
or 64 bits per hash of the batch: an ascending file, as lakeidx writes them, walks it from one end to the other. Hashes that pass
without being in the batch are real hashes of their bucket, so remembering them does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lakeidx.codec.jit import kernel

#: Below so many hashes the bitmap is small either way, and more bits let fewer strangers pass.
_SMALL = 1 << 16
_MIN_BITS, _MAX_BITS = 10, 32
_ONE, _S5, _MASK_5 = np.uint32(1), np.uint32(5), np.uint32(31)
_S8, _S24, _BYTE_1 = np.uint64(8), np.uint64(24), np.uint64(0xFF00)


@kernel
def _mark(words: NDArray[np.uint32], hashes: NDArray[np.int32], shift: int) -> None:
    s = np.uint32(shift)
    for i in range(len(hashes)):
        at = np.uint32(np.uint32(hashes[i]) >> s)
        words[at >> _S5] |= np.uint32(_ONE << (at & _MASK_5))


@kernel
def _pass(
    words: NDArray[np.uint32],
    raw: NDArray[np.uint32],
    shift: int,
    ends: NDArray[np.int64],
    out: NDArray[np.int32],
    kept: NDArray[np.int64],
) -> None:
    # `raw` holds big-endian numbers on a little-endian machine. Every hash is written, and the place moves on for those that pass:
    # no branch to predict.
    s, at_out, start = np.uint32(shift), 0, 0
    for file in range(len(ends)):
        for i in range(start, ends[file]):
            b = np.uint64(raw[i])
            x = np.uint32((b >> _S24) | ((b >> _S8) & _BYTE_1) | ((b & _BYTE_1) << _S8) | (b << _S24))
            at = np.uint32(x >> s)
            out[at_out] = np.int32(x)
            at_out += int((words[at >> _S5] >> (at & _MASK_5)) & _ONE)
        kept[file] = at_out
        start = ends[file]


class HashFilter:
    """A filter of a batch's hashes without false negatives: it passes every hash of the batch, and some others.

    columns   int32[n] each, repeats allowed
    memory    4 to 16 bytes per hash, at most 512 MiB
    """

    __slots__ = ("_shift", "_words")

    def __init__(self, columns: Sequence[NDArray[np.int32]]) -> None:
        rows = sum(len(hashes) for hashes in columns)
        per_hash = 64 if rows <= _SMALL else 32
        bits = min(max(int(rows * per_hash - 1).bit_length(), _MIN_BITS), _MAX_BITS)
        self._shift = 32 - bits
        self._words = np.zeros(1 << (bits - 5), np.uint32)
        for hashes in columns:
            _mark(self._words, np.require(hashes, np.int32, ["C", "W"]), self._shift)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the bitmap."""
        return int(self._words.nbytes)

    def passing(self, data: bytes) -> NDArray[np.int32]:
        """Return the hashes of an index file that pass, in file order, int32[k].

        data     the file: big-endian int32[m]
        cost     one pass; memory for the file's hashes besides
        """
        return self.passing_each(data, np.array([len(data) // 4]))[0]

    def passing_each(self, data: bytes, ends: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the hashes of some index files that pass, one after another, and where those of each end.

        data     the files, one behind the other: big-endian int32[m]
        ends     int64[files]: where the hashes of each end, ascending
        cost     one pass; memory for the hashes of all files besides
        """
        raw = np.frombuffer(data, np.uint32)
        out, kept = np.empty(len(raw) + 1, np.int32), np.empty(len(ends), np.int64)
        _pass(self._words, raw, self._shift, ends, out, kept)
        return out[: kept[-1] if len(kept) else 0].copy(), kept
