"""What an open Parquet file checks before Arrow sees it, and which errors become which."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeidx.data.parquet.row_groups import ParquetSource
from lakeidx.errors import CorruptFileError
from tests.unit.data.tables import STORE


def parquet_bytes() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2]}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes are too few"),
        (b"PAR1PAR1", "8 bytes are too few"),
        (parquet_bytes() + b"\n", "expected b'PAR1' at the end"),
        (b"PAR1" + struct.pack("<I", 4000) + b"PAR1", "a footer of 4000 bytes"),
        (b"PAR1" + b"\xff" * 40 + struct.pack("<I", 40) + b"PAR1", "footer"),
        (b"PAR1" + struct.pack("<I", 0) + b"PAR1", "not a readable data file"),
    ],
)
def test_footers_that_cannot_be(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=said) as caught:
        ParquetSource(STORE, str(path))
    assert caught.value.path == str(path)


def test_a_footer_larger_than_the_first_read(tmp_path: Path) -> None:
    names = [f"a column with a rather long name, number {i}" for i in range(2000)]
    pq.write_table(pa.table([pa.array([1])] * 2000, names=names), tmp_path / "wide.parquet")
    source = ParquetSource(STORE, str(tmp_path / "wide.parquet"))
    assert (source.rows, source.schema.names) == (1, names)
