"""HASH index files of dynamic-bucket tables: ``index/index-<uuid>-<n>``.

========  =======================================================
bytes     content
========  =======================================================
4 * n     i32 **big**-endian key hashes, in no particular order
========  =======================================================

One file holds all hashes of one (partition, bucket); n is also ``_ROW_COUNT`` of the index manifest entry. There is no header and
no checksum in the file: any whose length is a multiple of 4 decodes. lakeidx puts one in the name, which other programs keep:
the UUID's third group is then ``81d8`` (version 8; Java's are of version 4), and its last 8 digits are the CRC-32 of the file.

source   org.apache.paimon.index.HashIndexFile, IntHashSet, release 1.4.2
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError
from lakeidx.format.file_names import checksum_in

#: What a damaged or missing file is mended by.
REBUILD = "rebuild the hash index with 'lakeidx index rebuild TABLE --type hash'"


def decode_hash_index(data: bytes, path: str | None = None) -> npt.NDArray[np.int32]:
    """Decode the hashes of a file, in file order; int32[n], native byte order, writable.

    errors   CorruptFileError when the length is not a multiple of 4
    """
    if len(data) % 4:
        raise CorruptFileError(
            f"a HASH index is a multiple of 4 bytes long, not {len(data)}", path=path, offset=len(data) - len(data) % 4
        )
    return np.frombuffer(data, dtype=">i4").astype(np.int32)


def has_its_checksum(data: bytes, path: str) -> bool:
    """Return whether a file has the checksum in its name; true of names without one."""
    expected = checksum_in(path.rpartition("/")[2])
    return expected is None or expected == crc32(data)


def check_checksum(data: bytes, path: str) -> None:
    """Check that a file has the checksum in its name.

    errors   CorruptFileError
    """
    if not has_its_checksum(data, path):
        raise CorruptFileError(f"the hash index file lacks the checksum in its name: {REBUILD}", path=path)


def encode_hash_index(hashes: npt.NDArray[np.int32]) -> bytes:
    """Encode a file of these hashes; int32[n], kept in the given order."""
    return np.asarray(hashes, dtype=np.int32).astype(">i4").tobytes()
