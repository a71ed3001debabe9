"""What ``lakeidx inspect`` shows of data files: Parquet (schema with field ids, row groups, key-value metadata) and ORC."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

from lakeidx.errors import CorruptFileError

_FIELD_ID = b"PARQUET:field_id"


def describe_parquet(source: pa.NativeFile, path: str) -> dict[str, Any]:
    """The footer.

    errors   CorruptFileError
    """
    try:
        file = pq.ParquetFile(source)
        meta = file.metadata
        return {
            "kind": "parquet data file",
            "rows": meta.num_rows,
            "createdBy": meta.created_by,
            "formatVersion": str(meta.format_version),
            "fields": [_field(f) for f in file.schema_arrow],
            "rowGroups": [_row_group(meta.row_group(i)) for i in range(meta.num_row_groups)],
            "keyValueMetadata": _texts(meta.metadata),
        }
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as e:
        raise CorruptFileError(f"not a readable Parquet file: {e}", path=path) from e


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


def _row_group(group: pq.RowGroupMetaData) -> dict[str, Any]:
    return {
        "rows": group.num_rows,
        "bytes": group.total_byte_size,
        "columns": [_column(group.column(i)) for i in range(group.num_columns)],
    }


def _column(column: pq.ColumnChunkMetaData) -> dict[str, Any]:
    stats = column.statistics
    out = {
        "path": column.path_in_schema,
        "physicalType": column.physical_type,
        "compression": column.compression,
        "encodings": list(column.encodings),
        "compressedBytes": column.total_compressed_size,
        "uncompressedBytes": column.total_uncompressed_size,
        "nullCount": None if stats is None or not stats.has_null_count else stats.null_count,
        "min": None,
        "max": None,
    }
    if stats is not None and stats.has_min_max:
        out["min"], out["max"] = _shown(stats.min), _shown(stats.max)
    return out


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def describe_orc(source: pa.NativeFile, path: str) -> dict[str, Any]:
    """Rows, columns and stripes of an ORC file.

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
