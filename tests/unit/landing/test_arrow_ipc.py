"""Arrow IPC landing files: both formats, dictionaries, compressed bodies; damage is one error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError
from lakeidx.landing.read import LandingOptions, read_landing
from lakeidx.storage import LocalStore
from lakeidx.types import Field, parse_type

FIELDS = [Field(0, "k", parse_type("BIGINT NOT NULL")), Field(1, "v", parse_type("STRING"))]
ROWS = pa.table({"k": pa.array([1, 2, 3, 4], pa.int64()), "v": ["a", None, "c", "a"]})


def write(path: Path, table: pa.Table, *, stream: bool, compression: str | None = None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=3)


def read(path: Path) -> tuple[list[dict[str, object]], list[int]]:
    pieces = list(read_landing(LocalStore(), str(path), FIELDS, LandingOptions()))
    return [row for p in pieces for row in p.rows.to_pylist()], [p.first_line for p in pieces]


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize(("name", "stream"), [("a.arrow", False), ("a.arrows", True), ("a.feather", False)])
def test_rows_and_their_numbers(tmp_path: Path, name: str, stream: bool, compression: str | None) -> None:
    write(tmp_path / name, ROWS, stream=stream, compression=compression)
    rows, first_lines = read(tmp_path / name)
    assert rows == [{"k": 1, "v": "a"}, {"k": 2, "v": None}, {"k": 3, "v": "c"}, {"k": 4, "v": "a"}]
    assert first_lines == [1, 4]


def test_dictionaries_are_decoded(tmp_path: Path) -> None:
    encoded = ROWS.set_column(1, "v", ROWS.column("v").dictionary_encode())
    write(tmp_path / "a.arrow", encoded, stream=False)
    assert [r["v"] for r in read(tmp_path / "a.arrow")[0]] == ["a", None, "c", "a"]


def test_columns_are_checked(tmp_path: Path) -> None:
    write(tmp_path / "a.arrow", ROWS.append_column("x", ROWS.column("k")), stream=False)
    with pytest.raises(InvalidInputError, match="columns the table does not have: x"):
        read(tmp_path / "a.arrow")
    write(tmp_path / "a.arrow", ROWS.select(["v"]), stream=False)
    with pytest.raises(InvalidInputError, match="lacks the required columns k"):
        read(tmp_path / "a.arrow")


def outcome(path: Path) -> int | LakeIdxError:
    """Rows read, or the error."""
    try:
        return len(read(path)[0])
    except LakeIdxError as error:
        return error


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_damage_is_one_error(tmp_path: Path, stream: bool) -> None:
    path = tmp_path / "a.arrow"
    write(path, ROWS, stream=stream)
    whole = path.read_bytes()
    for cut in range(1, len(whole) - 8, 13):
        path.write_bytes(whole[:cut])
        found = outcome(path)
        if isinstance(found, int):
            # A stream may end after any of its batches, a file may not.
            assert stream, cut
            assert found in (0, 3, 4), cut
        else:
            assert isinstance(found, CorruptFileError), cut
            assert found.path == str(path), cut
    for i in range(len(whole)):
        flipped = bytearray(whole)
        flipped[i] ^= 0x41
        path.write_bytes(flipped)
        assert "\n" not in str(outcome(path)), i
