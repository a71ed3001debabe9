"""Stores the block bodies of an SST in sections (`format.lookup.sst_sections`), and gathers the section index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.containers.compress import BlockCodec, BlockCompressor
from lakeidx.codec.varint import decode_varint, encode_varint
from lakeidx.format.lookup.sst import TRAILER_SIZE, block_trailer, saves_enough, stored_block
from lakeidx.format.lookup.sst_sections import Section, encode_section, first_entries_of_sections


class SectionWriter:
    """Stores block bodies one after another."""

    def __init__(self, compressor: BlockCompressor) -> None:
        self._compressor = compressor
        self._index: list[tuple[bytes, bytes]] = []
        self._has_cut = False

    @property
    def index(self) -> Sequence[tuple[bytes, bytes]]:
        """Entries of the section index; none when no block has several sections, so that the file needs no index of them."""
        return self._index if self._has_cut else ()

    def store(
        self, body: memoryview, starts: npt.NDArray[np.int64], end: int, last_key: bytes
    ) -> tuple[bytes | memoryview, ...]:
        """Store a block body: with zstd a frame for each section, where that saves as much as Paimon wants.

        starts   int64[n], where each entry begins; `end` where the last one ends
        returns  the stored body and its trailer, in parts
        """
        if self._compressor.codec is not BlockCodec.ZSTD:
            return stored_block(body, self._compressor)
        firsts = first_entries_of_sections(starts, end)
        if len(firsts) > 1:
            bounds = [*map(starts.item, firsts), end, len(body)]
            frames = self._compressor.compress_parts(body, bounds)
            prefix = encode_varint(len(body))
            if saves_enough(len(prefix) + sum(map(len, frames)), len(body)):
                keys = [_key_at(body, starts.item(first - 1)) for first in firsts[1:]]
                return (self._cut(prefix, frames, bounds, [*firsts, len(starts)], [*keys, last_key]),)
        stored, trailer = stored_block(body, self._compressor)
        plain = stored is body
        content = 0 if plain else len(encode_varint(len(body)))
        section = Section(
            len(stored) + TRAILER_SIZE,
            content,
            len(stored) - content,
            0 if plain else len(body),
            0,
            crc32(stored, trailer),
        )
        self._index.append((last_key, encode_section(section)))
        return stored, trailer

    def _cut(
        self, prefix: bytes, frames: list[bytes], bounds: list[int], firsts: list[int], keys: list[bytes]
    ) -> bytes:
        """Note a block of several sections; the last frame has the positions."""
        self._has_cut = True
        *sections, positions = frames
        ranges = sections.copy()
        ranges[0] = prefix + ranges[0]
        ranges[-1] += positions
        ranges[-1] += block_trailer(ranges, BlockCodec.ZSTD)
        content = len(prefix)
        for i, (key, part) in enumerate(zip(keys, ranges, strict=True)):
            section = Section(
                len(part), content, len(sections[i]), bounds[i + 1] - bounds[i], firsts[i + 1] - firsts[i], crc32(part)
            )
            self._index.append((key, encode_section(section)))
            content = 0
        return b"".join(ranges)


def _key_at(body: memoryview, at: int) -> bytes:
    size, start = decode_varint(body, at)
    return bytes(body[start : start + size])
