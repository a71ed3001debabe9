"""Layout of Paimon's BinaryRow, BinaryArray and BinaryMap; `binary_row_write` writes single values, `binary_row_read` reads them.

Byte order: little endian throughout (the writer's machine order); the arity prefix of `with_arity` is big endian.

=====================  ============================================================================================
row                    content
=====================  ============================================================================================
header                 ``ceil((arity + 8) / 64) * 8`` bytes: byte 0 row kind, bit ``8 + i`` null of field i (LSB first)
slots                  8 bytes per field
variable part          pieces in field order, each zero-padded to 8; an offset counts from the start of the row
=====================  ============================================================================================

=====================  ============================================================================================
slot                   content
=====================  ============================================================================================
BOOLEAN .. DOUBLE      the value at its own width, rest zero; DATE and TIME as i32
bytes, length <= 7     the bytes, zero fill, last byte ``0x80 + length``
bytes, longer          u32 length, u32 offset
DECIMAL                p <= 18: i64 unscaled; else u32 length, u32 offset of 16 bytes: big-endian, minimal length
TIMESTAMP              p <= 3: i64 millis; else u32 nanos of the milli, u32 offset of an i64 millis
nested, VARIANT        u32 length, u32 offset
null                   zero; DECIMAL p > 18 and TIMESTAMP p > 3 still reserve their bytes and keep the offset
=====================  ============================================================================================

ARRAY: i32 size, null bits in 4-byte steps, elements at own width, rounded up to 8, variable part. A null element is a
zero slot and reserves nothing; NaN is written canonically (in rows its bits stay). MAP: i32 byte length of the key
array, key array, value array. VARIANT: i32 length of the value, value, metadata.

source   org.apache.paimon.data.BinaryRowWriter, BinaryArrayWriter, BinaryMap, RowHelper; release 1.4.2
"""

from __future__ import annotations

import struct

from lakeidx.errors import CorruptFileError
from lakeidx.types import DataType, Root

# How a value of each fixed-width type is written, in rows and in compacted rows.
FIXED = {
    Root.BOOLEAN: struct.Struct("<?"),
    Root.TINYINT: struct.Struct("<b"),
    Root.SMALLINT: struct.Struct("<h"),
    Root.INT: struct.Struct("<i"),
    Root.DATE: struct.Struct("<i"),
    Root.TIME: struct.Struct("<i"),
    Root.BIGINT: struct.Struct("<q"),
    Root.FLOAT: struct.Struct("<f"),
    Root.DOUBLE: struct.Struct("<d"),
}
I32 = struct.Struct("<i")
I64 = struct.Struct("<q")
LENGTH_OFFSET = struct.Struct("<II")
_ARITY = struct.Struct(">i")
MAX_NANOS = 999_999


def header_size(arity: int) -> int:
    """Return the bytes before the first slot of a row: kind byte and null bits, in whole 8-byte words."""
    return (arity + 63 + 8) // 64 * 8


def element_width(t: DataType) -> int:
    """Return the bytes of one array element in the fixed part."""
    fixed = FIXED.get(t.root)
    return fixed.size if fixed is not None else 8


def with_arity(row: bytes, arity: int) -> bytes:
    """Prefix a row with its arity, the form rows have in manifests: i32 big-endian arity, then the row."""
    return _ARITY.pack(arity) + row


def split_arity(data: bytes) -> tuple[int, bytes]:
    """Split the prefixed form into arity and BinaryRow.

    errors   CorruptFileError when it is too short for the arity it names
    """
    if len(data) < 4:
        raise CorruptFileError(f"a prefixed row has at least 4 bytes, found {len(data)}", offset=0)
    (arity,) = _ARITY.unpack_from(data, 0)
    if arity < 0 or len(data) - 4 < header_size(arity) + 8 * arity:
        raise CorruptFileError(f"{len(data) - 4} bytes cannot hold a row of {arity} columns", offset=0)
    return arity, bytes(data[4:])
