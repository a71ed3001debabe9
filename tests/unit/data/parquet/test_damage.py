"""A damaged page is named by its column and its byte; what Arrow and the disk raise becomes an error of lakeidx."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.chunks import damage_of
from lakeidx.data.parquet.damage import ColumnChunk, find_damage
from lakeidx.data.parquet.row_groups import ParquetSource
from lakeidx.errors import CorruptFileError, InvalidInputError, UnavailableError
from tests.unit.data.tables import STORE

_ROWS = 300
_ROW = {"k": 0, "text": "", "part": {"a": 0, "b": [0]}}


def _write(path: Path, *, checksums: bool = True, version: str = "1.0") -> None:
    rows = [{"k": i, "text": f"value {i % 9}", "part": {"a": i, "b": [i, i + 1]}} for i in range(_ROWS)]
    schema = pa.schema(
        {"k": pa.int64(), "text": pa.string(), "part": pa.struct({"a": pa.int32(), "b": pa.list_(pa.int32())})}
    )
    pq.write_table(
        pa.Table.from_pylist(rows, schema),
        path,
        row_group_size=100,
        data_page_version=version,
        data_page_size=64,
        write_batch_size=10,
        write_page_checksum=checksums,
    )


def _chunks(metadata: pq.FileMetaData, group: int) -> list[ColumnChunk]:
    chunks = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
    starts = [c.dictionary_page_offset or c.data_page_offset for c in chunks]
    return [
        ColumnChunk(c.path_in_schema, i, start, c.total_compressed_size)
        for i, (c, start) in enumerate(zip(chunks, starts, strict=True))
    ]


def _read(path: Path) -> None:
    source = ParquetSource(STORE, str(path))
    for g in range(source.groups):
        list(source.group(g, source.schema.names, 1000))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_flipped_byte_is_found_in_its_page(tmp_path: Path, version: str) -> None:
    path = tmp_path / "f.parquet"
    _write(path, version=version)
    good, metadata = path.read_bytes(), pq.read_metadata(path)
    for g in range(metadata.num_row_groups):
        for c in range(metadata.num_columns):
            chunk = metadata.row_group(g).column(c)
            # The last byte of a chunk is the last one of its last page.
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            at = start + chunk.total_compressed_size - 1
            data = bytearray(good)
            data[at] ^= 1
            path.write_bytes(data)
            with pytest.raises(
                CorruptFileError,
                match=f"column '{re.escape(chunk.path_in_schema)}', row group {g}: the page's checksum",
            ) as caught:
                _read(path)
            assert caught.value.path == str(path)
            assert caught.value.offset is not None
            assert max(start, at - 200) < caught.value.offset < at


def test_a_header_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    _write(path)
    metadata, data = pq.read_metadata(path), bytearray(path.read_bytes())
    at = metadata.row_group(1).column(0).data_page_offset
    data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="column 'k', row group 1: the page header cannot be read") as caught:
        _read(path)
    assert caught.value.offset == at


def test_a_page_that_is_longer_than_its_chunk(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"k": list(range(10))}), path, compression="none", use_dictionary=False)
    metadata, data = pq.read_metadata(path), bytearray(path.read_bytes())
    at = metadata.row_group(0).column(0).data_page_offset
    # Field 1 (type DATA_PAGE), 2 and 3, each a byte and a number; both sizes take two bytes.
    assert bytes(data[at : at + 3]) == b"\x15\x00\x15"
    assert data[at + 5] == 0x15
    size = struct.unpack_from("<H", data, at + 6)[0]
    struct.pack_into("<H", data, at + 6, size | 0x7F00)
    with path.open("wb") as out:
        out.write(data)
    found = find_damage(pa.OSFile(str(path)), _chunks(metadata, 0))
    assert found is not None
    assert (found.column, found.offset) == ("k", at)
    assert found.what.endswith("reaches beyond its column chunk")


def test_a_file_that_is_right_has_none(tmp_path: Path) -> None:
    for checksums in (True, False):
        path = tmp_path / f"{checksums}.parquet"
        _write(path, checksums=checksums)
        metadata = pq.read_metadata(path)
        with pa.OSFile(str(path)) as stream:
            for g in range(metadata.num_row_groups):
                assert find_damage(stream, _chunks(metadata, g)) is None


def test_a_column_without_checksums_is_named_when_it_cannot_be_decoded(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    _write(path, checksums=False)
    metadata, data = pq.read_metadata(path), bytearray(path.read_bytes())
    chunk = metadata.row_group(2).column(1)
    assert chunk.path_in_schema == "text"
    # The dictionary says how long its texts are: one of them is made endless.
    at = chunk.dictionary_page_offset
    data[at + 30 : at + 60] = b"\xff" * 30
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="column 'text', row group 2: ") as caught:
        _read(path)
    assert caught.value.offset == at


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (pa.ArrowInvalid("bad page"), CorruptFileError),
        (OSError("Couldn't deserialize thrift"), CorruptFileError),
        (OSError(5, "Input/output error"), UnavailableError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), CorruptFileError),
        (InvalidInputError("ours"), InvalidInputError),
        (RuntimeError("a bug"), RuntimeError),
    ],
)
def test_errors_of_damage_of_a_disk_and_of_others(raised: Exception, becomes: type[Exception]) -> None:
    with pytest.raises(becomes), damage_of("f.parquet"):
        raise raised
