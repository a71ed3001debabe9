"""Encoding of Parquet data files: table options turned into settings of Arrow's writer, and an encoding per column.

================================================  ====================================================================
option                                            effect
================================================  ====================================================================
file.compression, .per.level, .zstd-level         codec of all columns; `parquet.compression[#column]` goes before it
file.block-size, parquet.block.size               size of a row group, counted in Arrow bytes; default 32 MB
parquet.page.size, .page.row.count.limit          size of a data page in bytes and rows; default 1 MB and 20,000 rows
parquet.dictionary.page.size                      size from which on a column is written without dictionary
parquet.enable.dictionary[#column]                true or false settles what is otherwise measured on the data
parquet.bloom.filter.enabled[#column],            Parquet bloom filters, one per row group
  .expected.ndv#column, .fpp[#column]
parquet.page.write-checksum.enabled               CRC-32 of pages; on by default, and verified when read
parquet.writer.version                            PARQUET_1_0: only the encodings of Parquet 1.0 (PLAIN and dictionary)
================================================  ====================================================================

Without PARQUET_1_0, whole numbers (dates, timestamps and decimals up to 18 digits too) of many distinct values are
written as DELTA_BINARY_PACKED: a third of the time and half the bytes of a dictionary that overflows, and the released
Java Paimon reads it. Byte strings stay PLAIN or dictionary: Java Paimon 1.4.2 does not read DELTA_LENGTH_BYTE_ARRAY.

source   org.apache.paimon.format.parquet.writer.RowDataParquetBuilder, release 1.4.2; parquet-mr's ParquetOutputFormat
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from lakeidx.data.parquet.chunks import leaf_paths
from lakeidx.data.parquet.file import _DELTA, LeafColumn, WriterSettings
from lakeidx.errors import InvalidInputError
from lakeidx.format.schema.table_schema import KEY_PREFIX, SEQUENCE_NUMBER
from lakeidx.options.descriptors import parse_bool, parse_fraction, parse_size
from lakeidx.options.table_options import TableOptions

T = TypeVar("T")

DEFAULT_ROW_GROUP_BYTES = 32 << 20
_DEFAULT_FPP = 0.01
#: With pages of a few bytes Arrow 26 leaves the only row of a nested column out of its last page.
_LEAST_PAGE_BYTES = 64
#: What the names of columns begin with whose values hardly ever repeat in a file.
_DISTINCT = (KEY_PREFIX, SEQUENCE_NUMBER)
_CODECS = {
    "none": "NONE", "uncompressed": "NONE", "snappy": "SNAPPY", "gzip": "GZIP", "brotli": "BROTLI", "lz4": "LZ4",
    "lz4_raw": "LZ4", "zstd": "ZSTD", "zstandard": "ZSTD",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParquetProperties:
    """Settings of the files of one write.

    codec, codec_by_column  Arrow's codec names
    row_group_bytes         Arrow bytes of a full row group
    dictionary              None: measured per column
    delta                   DELTA_BINARY_PACKED allowed
    bloom_ndv, bloom_fpp    by column; a column in neither, with `bloom` false, has no bloom filter
    """

    codec: str
    zstd_level: int
    row_group_bytes: int
    codec_by_column: Mapping[str, str]
    dictionary: bool | None
    dictionary_by_column: Mapping[str, bool]
    delta: bool
    bloom: bool
    bloom_by_column: Mapping[str, bool]
    bloom_ndv: Mapping[str, int]
    bloom_fpp: Mapping[str, float]
    default_fpp: float
    page_bytes: int | None
    page_rows: int | None
    dictionary_bytes: int | None
    checksum: bool

    def settle(self, schema: pa.Schema) -> WriterSettings:
        """Settle for files of a schema, columns as written, what does not depend on their rows."""
        leaves = [LeafColumn(f.name, path, t) for f in schema for path, t in leaf_paths(f.name, f.type)]
        codecs: str | dict[str, str] = self.codec
        if self.codec_by_column:
            codecs = {leaf.path: self.codec_by_column.get(leaf.column, self.codec) for leaf in leaves}
        dictionary: list[str] = []
        encodings: dict[str, str] = {}
        measured: list[tuple[LeafColumn, int, bool]] = []
        paths = Counter(leaf.path for leaf in leaves)
        for leaf in leaves:
            # Column ``a.b`` and field b of row a have one path; a setting would go to both.
            if paths[leaf.path] > 1:
                continue
            whole = self.delta and _is_whole_number(leaf.type)
            wanted = self.dictionary_by_column.get(leaf.column, self.dictionary)
            if wanted is None:
                wanted = _is_repeated(leaf, whole=whole)
            if wanted is None:
                measured.append((leaf, 8 if whole or pa.types.is_floating(leaf.type) else 2, whole))
            elif wanted and not pa.types.is_boolean(leaf.type):
                dictionary.append(leaf.path)
            elif whole:
                encodings[leaf.path] = _DELTA
        fixed = {
            "compression": codecs,
            "compression_level": self._levels(codecs),
            "write_statistics": True,
            "write_page_index": True,
            "write_page_checksum": self.checksum,
            "data_page_size": self.page_bytes,
            "max_rows_per_page": self.page_rows,
            "dictionary_pagesize_limit": self.dictionary_bytes,
        }
        return WriterSettings(self, fixed, dictionary, encodings, measured, self._bloom_filters(leaves))

    def _levels(self, codecs: str | dict[str, str]) -> Any:
        if isinstance(codecs, str):
            return self.zstd_level if codecs == "ZSTD" else None
        return {path: self.zstd_level for path, codec in codecs.items() if codec == "ZSTD"} or None

    def _bloom_filters(self, leaves: Sequence[LeafColumn]) -> dict[str, tuple[int | None, float]]:
        return {
            leaf.path: (self.bloom_ndv.get(leaf.column), self.bloom_fpp.get(leaf.column, self.default_fpp))
            for leaf in leaves
            if self.bloom_by_column.get(leaf.column, self.bloom) and not pa.types.is_boolean(leaf.type)
        }


def _is_repeated(leaf: LeafColumn, *, whole: bool) -> bool | None:
    """Return whether the values of a column are taken to repeat enough for a dictionary; None: it has to be measured."""
    if pa.types.is_boolean(leaf.type) or (whole and leaf.column.startswith(_DISTINCT)):
        return False
    if pa.types.is_dictionary(leaf.type):
        return True
    return not whole if leaf.path != leaf.column else None


def parquet_properties(
    options: TableOptions, *, compression: str, option: str = "file.compression"
) -> ParquetProperties:
    """Return the writer settings for files of one kind.

    compression  the codec as `option` names it; `parquet.compression` goes before it
    errors       InvalidInputError naming the option
    """
    raw = options.with_prefix("parquet.")
    version = raw.get("writer.version", "").upper()
    if version not in ("", "PARQUET_1_0", "V1", "PARQUET_2_0", "V2"):
        raise InvalidInputError(f"option 'parquet.writer.version': {version!r} is not PARQUET_1_0 or PARQUET_2_0")
    block = _read(raw, "block.size", parse_size)
    fpp = _read(raw, "bloom.filter.fpp", parse_fraction)
    return ParquetProperties(
        codec=_read(raw, "compression", _codec) or _parsed(option, compression, _codec),
        zstd_level=options.file_compression_zstd_level,
        row_group_bytes=options.file_block_size or block or DEFAULT_ROW_GROUP_BYTES,
        codec_by_column=_by_column(raw, "compression", _codec),
        dictionary=_read(raw, "enable.dictionary", parse_bool),
        dictionary_by_column=_by_column(raw, "enable.dictionary", parse_bool),
        delta=version not in ("PARQUET_1_0", "V1") and not _rows_are_picked(options),
        bloom=bool(_read(raw, "bloom.filter.enabled", parse_bool)),
        bloom_by_column=_by_column(raw, "bloom.filter.enabled", parse_bool),
        bloom_ndv=_by_column(raw, "bloom.filter.expected.ndv", int),
        bloom_fpp=_by_column(raw, "bloom.filter.fpp", parse_fraction),
        default_fpp=_DEFAULT_FPP if fpp is None else fpp,
        page_bytes=_read(raw, "page.size", lambda text: max(_LEAST_PAGE_BYTES, parse_size(text))),
        page_rows=_read(raw, "page.row.count.limit", _at_least_one),
        dictionary_bytes=_read(raw, "dictionary.page.size", parse_size),
        checksum=_read(raw, "page.write-checksum.enabled", parse_bool) is not False,
    )


def _rows_are_picked(options: TableOptions) -> bool:
    """Return whether readers may pick rows by position. Java 1.4.2 reads wrong values when rows are picked out of
    DELTA_BINARY_PACKED pages by position (seen with a bitmap index: it found no row). File indexes pick rows so, but
    for bloom filters, which rule out files only; deletion vectors do, too.
    """
    indexed = any(
        k.startswith("file-index.") and k.endswith(".columns") and not k.startswith("file-index.bloom-filter.")
        for k in options.raw
    )
    return indexed or bool(options.deletion_vectors_enabled)


def _is_whole_number(t: pa.DataType) -> bool:
    """Return True for types stored as INT32 or INT64. Timestamps of a file with INT96 come here as int64."""
    if pa.types.is_decimal(t):
        return bool(t.precision <= 18)
    if pa.types.is_timestamp(t):
        return bool(t.unit in ("ms", "us"))
    return bool(pa.types.is_integer(t) or pa.types.is_date(t) or pa.types.is_time(t))


def _codec(text: str) -> str:
    codec = _CODECS.get(text.strip().lower())
    if codec is None:
        raise ValueError(f"one of {', '.join(sorted(_CODECS))}")
    return codec


def _at_least_one(text: str) -> int:
    rows = int(text)
    if rows < 1:
        raise ValueError("a number of at least 1")
    return rows


def _read(raw: Mapping[str, str], key: str, parse: Callable[[str], T]) -> T | None:
    text = raw.get(key)
    return None if text is None else _parsed(f"parquet.{key}", text, parse)


def _by_column(raw: Mapping[str, str], key: str, parse: Callable[[str], T]) -> dict[str, T]:
    prefix = f"{key}#"
    return {k[len(prefix) :]: _parsed(f"parquet.{k}", v, parse) for k, v in raw.items() if k.startswith(prefix)}


def _parsed(key: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except ValueError as e:
        raise InvalidInputError(f"option '{key}': cannot read {text!r}: {e}") from e
