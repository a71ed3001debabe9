"""Plain models of the two store files, written from the format sheets with nothing of lakeidx: bytes in, bytes out, no speed."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence

Entry = tuple[bytes, bytes]


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def murmur(data: bytes) -> int:
    """Unsigned 32-bit hash of a byte string."""
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data) // 4 * 4, 4)]
    words += [b if b < 128 else b + 0xFFFFFF00 for b in data[len(data) // 4 * 4 :]]
    h = 42
    for k in words:
        k = k * 0xCC9E2D51 % 2**32
        k = (k * 2**15 + k // 2**17) % 2**32
        h ^= k * 0x1B873593 % 2**32
        h = (h * 2**13 + h // 2**19) % 2**32
        h = (h * 5 + 0xE6546B64) % 2**32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def bloom(keys: Sequence[bytes], expected: int, fpp: float) -> bytes:
    bits = int(-expected * math.log(fpp) / math.log(2) ** 2)
    size = (bits + 7) // 8
    probes = max(1, math.floor(8 * size / expected * math.log(2) + 0.5))
    out = bytearray(size)
    for key in keys:
        h = murmur(key)
        for i in range(1, probes + 1):
            c = (h + i * (h >> 16)) % 2**32
            if c >= 2**31:
                c = 2**32 - 1 - c
            bit = c % (8 * size)
            out[bit // 8] |= 1 << bit % 8
    return bytes(out)


def _block(entries: Sequence[Entry]) -> bytes:
    records = [varint(len(k)) + k + varint(len(v)) + v for k, v in entries]
    if len({len(r) for r in records}) == 1:
        return b"".join(records) + struct.pack("<i", len(records[0])) + b"\0"
    starts = [sum(len(r) for r in records[:i]) for i in range(len(records))]
    return b"".join(records) + struct.pack(f"<{len(records)}i", *starts) + struct.pack("<i", len(records)) + b"\1"


def _stored(body: bytes) -> bytes:
    return body + b"\0" + struct.pack("<I", zlib.crc32(body + b"\0"))


def sst_file(entries: Sequence[Entry], block_size: int, filter_for: tuple[int, float] | None) -> bytes:
    """An SST without compression; entries are in order."""
    blocks: list[list[Entry]] = []
    open_block: list[Entry] = []
    sizes: list[int] = []
    for key, value in entries:
        open_block.append((key, value))
        sizes.append(len(varint(len(key)) + key + varint(len(value)) + value))
        if sum(sizes) + 5 + (4 * len(sizes) if len(set(sizes)) > 1 else 0) > block_size:
            blocks.append(open_block)
            open_block, sizes = [], []
    if open_block:
        blocks.append(open_block)
    out, index = b"", []
    for block in blocks:
        body = _block(block)
        index.append((block[-1][0], varint(len(out)) + varint(len(body))))
        out += _stored(body)
    bits = bloom([k for k, _ in entries], *filter_for) if filter_for else b""
    place = (len(out), len(bits), filter_for[0]) if bits and filter_for else (0, 0, 0)
    out += bits
    index_body = _block(index) if index else b"\0\0\0\0\1"
    footer = struct.pack("<qiqqii", *place, len(out), len(index_body), 1481571681)
    return out + _stored(index_body) + footer


def hash_image(entries: Sequence[Entry], load: float, filter_for: tuple[int, float] | None) -> bytes:
    """The image of a hash lookup file; entries in the order of putting."""
    lengths = sorted({len(k) for k, _ in entries})
    tables, sections = b"", b""
    for length in lengths:
        data, offsets, before = b"\0", [], None
        own = [(k, v) for k, v in entries if len(k) == length]
        for _, value in own:
            if value != before:
                offsets.append(len(data))
                data += varint(len(value)) + value
            else:
                offsets.append(offsets[-1])
            before = value
        slots = math.floor(len(own) / load + 0.5)
        width = max(len(varint(o)) for o in offsets)
        table: list[bytes | None] = [None] * slots
        for (key, _), offset in zip(own, offsets, strict=True):
            at = murmur(key) % 2**31 % slots
            while table[at] is not None:
                at = (at + 1) % slots
            table[at] = key + varint(offset).ljust(width, b"\0")
        tables += b"".join(slot or bytes(length + width) for slot in table)
        sections += data
    bits = bloom([k for k, _ in entries], *filter_for) if filter_for else b""
    return bits + tables + sections
