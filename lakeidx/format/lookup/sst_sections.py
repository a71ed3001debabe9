"""Sections of a sorted lookup file (SST): parts of its compressed blocks that are decompressed alone.

One key of a zstd block would cost the decompression of the whole block. lakeidx writes the entries of a large zstd block as several
frames, its sections, and a last frame with the positions of the entries. Together the frames are the block body, so Java reads such
a block as any other. The section index says where the sections are. It lies between the data blocks and the filter, where Java,
which goes by the footer, does not look. A file without a block of several sections has no section index and is byte for byte what
Java writes.

==============  ======================================================================================================
part            bytes
==============  ======================================================================================================
section index   stored body, trailer, as the index block; one entry for each section, in order
entry           key: last key of the section; value: six u32, see `Section`
==============  ======================================================================================================

The ranges of sections follow one another from the beginning of the file to the end of the data blocks, and their checksums cover
every byte: the first range of a block begins with its size prefix, the last one ends with the frame of the positions and the
trailer. A block that is stored in one piece is one section.

source   lakeidx; read by org.apache.paimon.sst.SstFileReader, release 1.4.2
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError

#: Bytes of entries that a section has about.
SECTION_BYTES = 8 * 1024
_SECTION = struct.Struct("<6I")


class Section(NamedTuple):
    """What the section index has of a section, in this order.

    range_bytes    of the file that the checksum covers
    content        where the content begins in them
    content_bytes  of the content, a zstd frame or bytes that are not compressed
    body_bytes     that it decompresses to; 0 when it is not compressed
    entries        in it; 0 when the content is a whole block body, with its positions
    checksum       CRC-32 (IEEE) of the range
    """

    range_bytes: int
    content: int
    content_bytes: int
    body_bytes: int
    entries: int
    checksum: int


def encode_section(section: Section) -> bytes:
    """Encode the value of an entry of the section index."""
    return _SECTION.pack(*section)


def decode_sections(values: RowBytes, end: int, *, path: str | None = None) -> npt.NDArray[np.int64]:
    """Decode the values of the section index, as columns in the order of `Section`.

    end      of the data blocks, which is where the last range ends
    returns  int64[6, n]
    errors   CorruptFileError when a value has another size, a content leaves its range, or the ranges end elsewhere
    """
    if (values.lengths != _SECTION.size).any():
        raise CorruptFileError(
            f"an entry of the section index does not have {_SECTION.size} bytes", path=path, offset=end
        )
    columns = values.flat.view("<u4").reshape(-1, 6).astype(np.int64).T
    ranges, contents, content_bytes = columns[:3]
    outside = np.flatnonzero((contents + content_bytes > ranges) | (ranges == 0))
    if len(outside):
        raise CorruptFileError(f"the content of section {outside[0]} leaves its range", path=path, offset=end)
    if ranges.sum() != end:
        raise CorruptFileError(f"sections end at {ranges.sum()}, data blocks at {end}", path=path, offset=end)
    return columns


def first_entries_of_sections(starts: npt.NDArray[np.int64], size: int) -> list[int]:
    """Cut the entries of a block into sections of about `SECTION_BYTES`, as alike as entries allow.

    starts   int64[n], where each entry begins; `size` where the last one ends
    returns  number of the first entry of each section; one section where there is not enough for two
    """
    n = max(1, round(size / SECTION_BYTES))
    bounds = starts.searchsorted([i * size // n for i in range(n)]).tolist()
    # Ascending, and alike where one entry is larger than a section.
    return [first for first in dict.fromkeys(bounds) if first < len(starts)]
