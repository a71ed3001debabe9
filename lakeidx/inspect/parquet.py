"""What ``lakeidx inspect`` shows of data files: Parquet (schema with field ids, row groups, key-value metadata) and ORC."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from lakeidx.data.parquet.chunks import FooterChunks, open_footer
from lakeidx.data.parquet.damage import damage_of
from lakeidx.errors import CorruptFileError

_FIELD_ID = b"PARQUET:field_id"
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_ENCODINGS = {0: "PLAIN", 2: "PLAIN_DICTIONARY", 3: "RLE", 4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED",
              6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY", 8: "RLE_DICTIONARY", 9: "BYTE_STREAM_SPLIT"}  # fmt: skip


def describe_parquet(source: pa.NativeFile, path: str) -> dict[str, Any]:
    """Show the footer; bounds of columns in their physical form.

    errors   CorruptFileError
    """
    with damage_of(path):
        footer = open_footer(source, path)
        meta = footer.metadata
        return {
            "kind": "parquet data file",
            "rows": meta.num_rows,
            "createdBy": meta.created_by,
            "formatVersion": str(meta.format_version),
            "fields": [_field(f) for f in meta.schema.to_arrow_schema()],
            "rowGroups": [
                {
                    "rows": meta.row_group(g).num_rows,
                    "bytes": meta.row_group(g).total_byte_size,
                    "columns": [_column(footer.chunks, g, i, leaf) for i, leaf in enumerate(footer.leaves)],
                }
                for g in range(meta.num_row_groups)
            ],
            "keyValueMetadata": _texts(meta.metadata),
        }


def _texts(metadata: dict[bytes, bytes] | None) -> dict[str, str]:
    out = {}
    for key, value in (metadata or {}).items():
        if key != b"ARROW:schema":
            out[key.decode("utf-8", "replace")] = value.decode("utf-8", "backslashreplace")
    return out


def _field(f: pa.Field) -> dict[str, Any]:
    ids = f.metadata or {}
    return {
        "name": f.name,
        "type": str(f.type),
        "nullable": f.nullable,
        "fieldId": int(ids[_FIELD_ID]) if _FIELD_ID in ids else None,
    }


def _column(chunks: FooterChunks, group: int, column: int, leaf: pq.ColumnSchema) -> dict[str, Any]:
    stats = chunks.stats(group, column, leaf.physical_type)
    codec = chunks.codec(group, column)
    return {
        "path": leaf.path,
        "physicalType": leaf.physical_type,
        "compression": _CODECS[codec] if 0 <= codec < len(_CODECS) else str(codec),
        "encodings": [_ENCODINGS.get(e, str(e)) for e in chunks.encodings(group, column)],
        "compressedBytes": chunks.compressed_bytes(group, column),
        "nullCount": stats.null_count,
        "min": _shown(stats.low),
        "max": _shown(stats.high),
    }


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def describe_orc(source: pa.NativeFile, path: str) -> dict[str, Any]:
    """Describe the rows, columns and stripes of an ORC file.

    errors   CorruptFileError
    """
    try:
        file = orc.ORCFile(source)
        return {
            "kind": "orc data file",
            "rows": file.nrows,
            "createdBy": file.software_version,
            "fields": [_field(f) for f in file.schema],
            "stripes": file.nstripes,
            "compression": file.compression,
        }
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as e:
        raise CorruptFileError(f"not a readable ORC file: {e}", path=path) from e
