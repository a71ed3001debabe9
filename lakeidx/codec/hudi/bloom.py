"""Hudi's bloom filters SIMPLE and DYNAMIC_V0, in Hudi's bytes. All integers big endian.

SIMPLE
======  ======  =====================================================================================================
offset  type    value
======  ======  =====================================================================================================
0       i32     -1 (version). Above 0 instead: old header, this int IS k, the next field is m_bits, hash type Jenkins
4       i32     k, hash rounds
8       i8      hash type, 1 = Murmur (0 = Jenkins)
9       i32     m_bits
13      bytes   ceil(m_bits / 8) bytes; bit i is byte i >> 3, mask 1 << (i & 7)
======  ======  =====================================================================================================

DYNAMIC_V0
======  ======  =====================================================================================================
0       13      the same header
13      i32     nr, entries per row
17      i32     keys added since the last row was started; continues growing past nr once no row may be added
21      i32     row count r
25      bytes   r complete SIMPLE records, each with its own header
======  ======  =====================================================================================================

Neither form has a checksum: damage inside the bit vector gives a readable filter with other bits. The bound on rows
(dynamic max entries) is not stored, so a dynamic filter that was read back never grows (see `plan_rows`).

source   org.apache.hudi.common.bloom.{SimpleBloomFilter,HoodieDynamicBoundedBloomFilter,InternalDynamicBloomFilter},
         release 1.0.2; golden/hudi/bloom.json

Their hash functions are Hadoop's MurmurHash (a murmur2 variant) and Jenkins' lookup3.

==========  ===========================================================================================================
step        Hadoop's murmur over bytes b[0..n-1] with a 32-bit seed; all arithmetic wraps at 32 bits, m = 0x5bd1e995
==========  ===========================================================================================================
start       h = seed XOR n
words       per 4 bytes, little endian: k *= m, k ^= k >>> 24, k *= m; h *= m, h ^= k
tail        t = n mod 4 bytes, each SIGN-EXTENDED, counted from the end: b[n-3] << 16, b[n-2] << 8, b[n-1]; then h *= m
finish      h ^= h >>> 13, h *= m, h ^= h >>> 15
==========  ===========================================================================================================

The tail makes it neither standard murmur2 nor murmur3: it is reversed, and a byte from 0x80 flips all higher bits.
A filter's k positions chain: the hash of round i is the seed of round i + 1, from 0; position = abs(Java h % bits).

source   org.apache.hudi.common.bloom.HashFunction, org.apache.hadoop.util.hash.{MurmurHash,JenkinsHash} in Hudi 1.0.2;
         golden/hudi/bloom.json
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeidx.codec.arrays import frozen
from lakeidx.codec.cursor import Cursor
from lakeidx.codec.jit import inlined, kernel
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import InvalidInputError, UnsupportedError

#: Hash type codes in a filter's header.
JENKINS, MURMUR = 0, 1


@inlined
def _murmur_word(data, at):  # type: ignore[no-untyped-def]
    """Return the mixed little-endian word at a position, for kernels (the part of a round that does not need the seed)."""
    k = np.uint32(
        np.uint32(data[at])
        | np.uint32(data[at + 1]) << np.uint32(8)
        | np.uint32(data[at + 2]) << np.uint32(16)
        | np.uint32(data[at + 3]) << np.uint32(24)
    )
    k = np.uint32(k * np.uint32(0x5BD1E995))
    k = np.uint32(k ^ (k >> np.uint32(24)))
    return np.uint32(k * np.uint32(0x5BD1E995))


@inlined
def _murmur_tail(data, end, tail):  # type: ignore[no-untyped-def]
    """Return the word that the last `tail` (0..3) bytes before `end` are XORed in as, for kernels."""
    x = np.uint32(0)
    if tail >= 3:
        x ^= np.uint32(np.int32(np.int8(data[end - 3]))) << np.uint32(16)
    if tail >= 2:
        x ^= np.uint32(np.int32(np.int8(data[end - 2]))) << np.uint32(8)
    if tail >= 1:
        x ^= np.uint32(np.int32(np.int8(data[end - 1])))
    return np.uint32(x)


@inlined
def _murmur_round(words, count, tail, tail_value, length, seed):  # type: ignore[no-untyped-def]
    """Mix one word that `_murmur_word` prepared: uint32, for kernels."""
    h = np.uint32(seed ^ np.uint32(length))
    for w in range(count):
        h = np.uint32(np.uint32(h * np.uint32(0x5BD1E995)) ^ words[w])
    if tail:
        h = np.uint32(np.uint32(h ^ tail_value) * np.uint32(0x5BD1E995))
    h = np.uint32(np.uint32(h ^ (h >> np.uint32(13))) * np.uint32(0x5BD1E995))
    return np.uint32(h ^ (h >> np.uint32(15)))


@inlined
def _rot(x, k):  # type: ignore[no-untyped-def]
    return np.uint32((x << np.uint32(k)) | (x >> np.uint32(32 - k)))


@kernel
def _jenkins_round(data, start, end, seed):  # type: ignore[no-untyped-def]
    """Return lookup3 of ``data[start:end]``: uint32, for kernels."""
    a = np.uint32(np.uint32(0xDEADBEEF) + np.uint32(end - start) + np.uint32(seed))
    b = a
    c = a
    at = start
    while True:
        left = end - at
        w0 = np.uint32(0)
        w1 = np.uint32(0)
        w2 = np.uint32(0)
        for i in range(min(12, left)):
            byte = np.uint32(np.uint32(data[at + i]) << np.uint32(8 * (i & 3)))
            if i < 4:
                w0 |= byte
            elif i < 8:
                w1 |= byte
            else:
                w2 |= byte
        a = np.uint32(a + w0)
        b = np.uint32(b + w1)
        c = np.uint32(c + w2)
        if left <= 12:
            break
        a = np.uint32(np.uint32(a - c) ^ _rot(c, 4))
        c = np.uint32(c + b)
        b = np.uint32(np.uint32(b - a) ^ _rot(a, 6))
        a = np.uint32(a + c)
        c = np.uint32(np.uint32(c - b) ^ _rot(b, 8))
        b = np.uint32(b + a)
        a = np.uint32(np.uint32(a - c) ^ _rot(c, 16))
        c = np.uint32(c + b)
        b = np.uint32(np.uint32(b - a) ^ _rot(a, 19))
        a = np.uint32(a + c)
        c = np.uint32(np.uint32(c - b) ^ _rot(b, 4))
        b = np.uint32(b + a)
        at += 12
    c = np.uint32(np.uint32(c ^ b) - _rot(b, 14))
    a = np.uint32(np.uint32(a ^ c) - _rot(c, 11))
    b = np.uint32(np.uint32(b ^ a) - _rot(a, 25))
    c = np.uint32(np.uint32(c ^ b) - _rot(b, 16))
    a = np.uint32(np.uint32(a ^ c) - _rot(c, 4))
    b = np.uint32(np.uint32(b ^ a) - _rot(a, 14))
    return np.uint32(np.uint32(c ^ b) - _rot(b, 24))


@inlined
def _bloom_position(h, bits):  # type: ignore[no-untyped-def]
    """Return the abs(Java int h % bits) of a uint32 hash, for kernels."""
    magnitude = h
    if h >> np.uint32(31):
        magnitude = np.uint32(np.uint32(0) - h)
    return np.uint32(magnitude % np.uint32(bits))


SIMPLE = "SIMPLE"
DYNAMIC_V0 = "DYNAMIC_V0"
_TYPE_CODES = (SIMPLE, DYNAMIC_V0)
_LN2 = 0.6931471805599453
_HEADER_BYTES = 13
_VERSION = -1
# No filter has more (the smallest positive double as error rate gives 1075); a damaged count must not loop for minutes.
_MAX_ROUNDS = 2048

Bits = npt.NDArray[np.uint8]
FirstHashes = npt.NDArray[np.uint32]
#: Rounds that are known beforehand: a round rules out half of the keys that a filter does not have.
_KNOWN_ROUNDS = 4
_NO_HASHES: FirstHashes = np.zeros((0, 0), np.uint32)


def size_filter(num_entries: int, fpp: float) -> tuple[int, int]:
    """Return (m_bits, k) for a number of entries and an error rate; the order of operations is Hudi's, rounding included.

    errors   InvalidInputError unless num_entries >= 1 and 0 < fpp < 1
    source   org.apache.hudi.common.bloom.BloomFilterUtils
    """
    if num_entries < 1 or not 0 < fpp < 1:
        raise InvalidInputError(f"a bloom filter needs entries >= 1 and 0 < fpp < 1, not {num_entries} and {fpp}")
    m_bits = math.ceil(num_entries * (-math.log(fpp) / (_LN2 * _LN2)))
    if m_bits > 2**31 - 1:
        raise InvalidInputError(f"a bloom filter of {num_entries} entries at {fpp} needs {m_bits} bits, above 2^31 - 1")
    return m_bits, math.ceil(_LN2 * m_bits / num_entries)


@dataclass(slots=True)
class BloomFilter:
    """A filter of one row (SIMPLE) or several equal rows (DYNAMIC_V0) of bits. `add` changes it.

    bits         uint8[r, ceil(m_bits / 8)]
    rounds       k
    nr           entries per row; 0 = SIMPLE, which never grows
    current      keys added since the last row was started (DYNAMIC_V0)
    max_entries  no further row once rows * nr reaches it (DYNAMIC_V0; 0 in a filter that was read)
    saturated    that bound was met: keys go to the rows in turn
    turn         the next row of that, counted without end
    """

    bits: Bits
    rounds: int
    m_bits: int
    hash_type: int = MURMUR
    nr: int = 0
    current: int = 0
    max_entries: int = 0
    saturated: bool = False
    turn: int = 0

    @property
    def type_code(self) -> str:
        """SIMPLE or DYNAMIC_V0."""
        return DYNAMIC_V0 if self.nr else SIMPLE

    def add(self, keys: RowBytes) -> None:
        """Add keys in order; duplicates count as entries.

        errors   InvalidInputError for an empty key, before anything is added
        """
        _refuse_empty(keys)
        rows = self._plan_rows(len(keys))
        kernel_bits = np.ascontiguousarray(self.bits)
        data, offsets = frozen(keys.data), frozen(keys.offsets)
        _add(data, offsets, rows, kernel_bits, np.uint32(self.m_bits), self.rounds, self.hash_type)
        self.bits = kernel_bits

    def _plan_rows(self, n: int) -> npt.NDArray[np.int32]:
        """Plan the filter row of each of the next n keys by Hudi's growth rule; grows `bits`."""
        out = np.zeros(n, np.int32)
        if not self.nr:
            return out
        rows, at = len(self.bits), 0
        while at < n:
            if self.saturated:
                out[at:] = (self.turn + np.arange(n - at)) % rows
                self.turn += n - at
                self.current += n - at
                break
            if self.current >= self.nr:
                if rows * self.nr < self.max_entries:
                    rows, self.current = rows + 1, 0
                else:
                    # The first key beyond the bound goes to row 0 without moving the turn, so row 0 is used twice.
                    self.saturated, out[at] = True, 0
                    self.current += 1
                    at += 1
                    continue
            take = min(self.nr - self.current, n - at)
            out[at : at + take] = rows - 1
            self.current += take
            at += take
        if rows > len(self.bits):
            self.bits = np.concatenate([self.bits, np.zeros((rows - len(self.bits), self.bits.shape[1]), np.uint8)])
        return out

    def test(
        self, keys: RowBytes, take: npt.NDArray[np.int64] | None = None, hashes: FirstHashes | None = None
    ) -> npt.NDArray[np.bool_]:
        """Test which keys may be in the filter.

        take     int64[c] positions in `keys` to test; None = all
        hashes   `first_hashes` of all keys, for keys that several filters are asked for
        returns  bool[c]
        errors   InvalidInputError for an empty key among them
        """
        picked = np.arange(len(keys), dtype=np.int64) if take is None else np.ascontiguousarray(take, np.int64)
        out = np.zeros(len(picked), np.bool_)
        data, offsets, bits = frozen(keys.data), frozen(keys.offsets), frozen(self.bits)
        known = _NO_HASHES if hashes is None or self.hash_type != MURMUR else hashes
        bad = _test(
            data, offsets, frozen(picked), frozen(known), bits, np.uint32(self.m_bits), self.rounds, self.hash_type, out
        )
        if bad >= 0:
            raise InvalidInputError(f"a bloom filter cannot contain an empty key (row {bad})")
        return out

    def to_bytes(self) -> bytes:
        """Serialise the filter. One with the old header is written with the new one, its Jenkins type kept."""
        header = _i32(_VERSION) + _i32(self.rounds) + bytes([self.hash_type]) + _i32(self.m_bits)
        records = [header + row.tobytes() for row in self.bits]
        if not self.nr:
            found: bytes = records[0]
            return found
        return b"".join([header, _i32(self.nr), _i32(self.current), _i32(len(self.bits)), *records])

    def to_base64(self) -> str:
        """Return `to_bytes` in standard Base64: the text Hudi keeps in file footers."""
        return base64.b64encode(self.to_bytes()).decode("ascii")

    @property
    def fill(self) -> float:
        """Share of bits that are set, over all rows: 0.0 to 1.0."""
        return float(np.bitwise_count(self.bits).sum()) / (self.m_bits * len(self.bits))


def new_filter(type_code: str, *, num_entries: int, fpp: float, max_entries: int) -> BloomFilter:
    """Make an empty filter.

    type_code    SIMPLE or DYNAMIC_V0, any case
    max_entries  bound of a DYNAMIC_V0 filter; ignored for SIMPLE
    errors       UnsupportedError for another type; InvalidInputError for impossible sizes
    """
    code = check_type_code(type_code)
    m_bits, rounds = size_filter(num_entries, fpp)
    bits = np.zeros((1, (m_bits + 7) // 8), np.uint8)
    if code == SIMPLE:
        return BloomFilter(bits, rounds, m_bits)
    return BloomFilter(bits, rounds, m_bits, nr=num_entries, max_entries=max_entries)


def first_hashes(keys: RowBytes) -> FirstHashes:
    """Return what each key's first rounds of Murmur give, uint32[n, rounds]: the same whatever filter is asked."""
    out = np.zeros((len(keys), _KNOWN_ROUNDS), np.uint32)
    _hash_first(frozen(keys.data), frozen(keys.offsets), out)
    return out


def check_type_code(type_code: str, path: str | None = None) -> str:
    """Return the type code in capitals; UnsupportedError when Hudi has no such type."""
    code = type_code.upper()
    if code not in _TYPE_CODES:
        raise UnsupportedError(
            f"unknown bloom filter type {type_code!r}; known are {', '.join(_TYPE_CODES)}", path=path
        )
    return code


def decode_filter(data: bytes, type_code: str = SIMPLE, *, path: str | None = None) -> BloomFilter:
    """Read a serialised filter.

    errors   CorruptFileError when the bytes are not a filter of that type; UnsupportedError for an unknown type
    """
    code = check_type_code(type_code, path)
    cursor = Cursor(data, path)
    if code == SIMPLE:
        rounds, hash_type, m_bits, row = _read_record(cursor)
        found = BloomFilter(row[None, :], rounds, m_bits, hash_type)
    else:
        rounds, hash_type, m_bits = _read_header(cursor)
        at = cursor.pos
        nr, current, count = cursor.i32be(), cursor.i32be(), cursor.i32be()
        if nr < 1 or current < 0:
            raise cursor.error(f"{nr} entries per row and {current} keys in the last one cannot be", at=at)
        size = _HEADER_BYTES + (m_bits + 7) // 8
        if count < 1 or count > cursor.remaining // size:
            raise cursor.error(f"{count} rows of {size} bytes do not fit {cursor.remaining} bytes", at=at + 8)
        rows = []
        for _ in range(count):
            row_at = cursor.pos
            *header, row = _read_record(cursor)
            if header != [rounds, hash_type, m_bits]:
                raise cursor.error("a row's header differs from the filter's", at=row_at)
            rows.append(row)
        found = BloomFilter(np.stack(rows), rounds, m_bits, hash_type, nr=nr, current=current)
    if cursor.remaining:
        raise cursor.error(f"{cursor.remaining} bytes follow the filter")
    return found


def decode_filter_base64(text: str | bytes, type_code: str = SIMPLE, *, path: str | None = None) -> BloomFilter:
    """Read a filter from its Base64 text.

    errors   CorruptFileError when the text is not Base64 or not a filter; UnsupportedError for an unknown type
    """
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Cursor(b"", path).error(f"the bloom filter is not Base64: {error}") from error
    return decode_filter(data, type_code, path=path)


def _read_header(cursor: Cursor) -> tuple[int, int, int]:
    at = cursor.pos
    first = cursor.i32be()
    if first > 0:
        rounds, hash_type, m_bits = first, JENKINS, cursor.i32be()
    elif first == _VERSION:
        rounds, hash_type, m_bits = cursor.i32be(), cursor.i8(), cursor.i32be()
    else:
        raise cursor.error(f"expected version {_VERSION} or a positive hash count, found {first}", at=at)
    if not 1 <= rounds <= _MAX_ROUNDS or m_bits < 1 or hash_type not in (JENKINS, MURMUR):
        raise cursor.error(f"{rounds} rounds, hash type {hash_type} and {m_bits} bits cannot be", at=at)
    return rounds, hash_type, m_bits


def _read_record(cursor: Cursor) -> tuple[int, int, int, Bits]:
    rounds, hash_type, m_bits = _read_header(cursor)
    row = np.frombuffer(cursor.bytes((m_bits + 7) // 8), np.uint8)
    return rounds, hash_type, m_bits, row


def _i32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def _refuse_empty(keys: RowBytes) -> None:
    empty = np.flatnonzero(np.diff(keys.offsets) == 0)
    if len(empty):
        raise InvalidInputError(f"a bloom filter cannot contain an empty key (row {empty[0]})")


@inlined
def _longest(offsets):  # type: ignore[no-untyped-def]
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


# Three kernels load a key's words by the same lines: an inlined function in their place makes all three slower.
@kernel
def _add(data, offsets, rows, bits, m_bits, rounds, hash_type):  # type: ignore[no-untyped-def]
    words = np.empty(_longest(offsets) // 4 + 1, np.uint32)
    for i in range(len(rows)):
        start, end = offsets[i], offsets[i + 1]
        length = end - start
        count, tail = length >> 2, length & 3
        for w in range(count):
            words[w] = _murmur_word(data, start + 4 * w)
        tail_value = _murmur_tail(data, end, tail)
        h = np.uint32(0)
        for _ in range(rounds):
            if hash_type == 1:
                h = _murmur_round(words, count, tail, tail_value, length, h)
            else:
                h = _jenkins_round(data, start, end, h)
            at = _bloom_position(h, m_bits)
            bits[rows[i], at >> np.uint32(3)] |= np.uint8(1 << (at & np.uint32(7)))


@kernel
def _hash_first(data, offsets, out):  # type: ignore[no-untyped-def]
    words = np.empty(_longest(offsets) // 4 + 1, np.uint32)
    for i in range(len(out)):
        start, end = offsets[i], offsets[i + 1]
        length = end - start
        count, tail = length >> 2, length & 3
        for w in range(count):
            words[w] = _murmur_word(data, start + 4 * w)
        tail_value = _murmur_tail(data, end, tail)
        h = np.uint32(0)
        for j in range(out.shape[1]):
            h = _murmur_round(words, count, tail, tail_value, length, h)
            out[i, j] = h


@inlined
def _rule_out(bits, at, alive, left):  # type: ignore[no-untyped-def]
    """Clear `alive` of the rows without a bit; return how many are left."""
    byte, mask = at >> np.uint32(3), np.uint8(1 << (at & np.uint32(7)))
    for r in range(len(alive)):
        if alive[r] and not bits[r, byte] & mask:
            alive[r] = False
            left -= 1
    return left


@kernel
def _test(data, offsets, take, known, bits, m_bits, rounds, hash_type, out):  # type: ignore[no-untyped-def]
    longest = 0
    for i in take:
        longest = max(longest, offsets[i + 1] - offsets[i])
    words = np.empty(longest // 4 + 1, np.uint32)
    filter_rows = bits.shape[0]
    alive = np.empty(filter_rows, np.bool_)
    first = min(known.shape[1], rounds)
    for c in range(len(take)):
        start, end = offsets[take[c]], offsets[take[c] + 1]
        length = end - start
        if length == 0:
            return take[c]
        alive[:] = True
        h = np.uint32(0)
        left = filter_rows
        for j in range(first):
            h = known[take[c], j]
            left = _rule_out(bits, _bloom_position(h, m_bits), alive, left)
            if left == 0:
                break
        if left == 0:
            continue
        count, tail = length >> 2, length & 3
        for w in range(count):
            words[w] = _murmur_word(data, start + 4 * w)
        tail_value = _murmur_tail(data, end, tail)
        for _ in range(first, rounds):
            if hash_type == 1:
                h = _murmur_round(words, count, tail, tail_value, length, h)
            else:
                h = _jenkins_round(data, start, end, h)
            left = _rule_out(bits, _bloom_position(h, m_bits), alive, left)
            if left == 0:
                break
        out[c] = left > 0
    return np.int64(-1)
