"""`verification` was green over a data file with flipped bytes: only key columns had been decoded."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeidx
from lakeidx.errors import LakeIdxError
from lakeidx.quality.load import load_evidence
from lakeidx.quality.verify import check_files_readable
from lakeidx.tasks.runner import LocalRunner
from tests.kit.share import share_of

_ROWS = 40


def _table(folder: Path, **options: str) -> lakeidx.Table:
    kinds = {"k": "INT", "s": "STRING", "d": "DECIMAL(20, 2)", "f": "DOUBLE", "t": "TIMESTAMP(6)", "n": "BIGINT"}
    columns: dict[str, Any] = {
        "k": list(range(_ROWS)),
        "s": [f"value {i % 7}" for i in range(_ROWS)],
        "d": [Decimal(i) / 100 for i in range(_ROWS)],
        "f": [i / 7 if i % 5 else float("nan") for i in range(_ROWS)],
        "t": [datetime(2024, 1, 1 + i % 28) for i in range(_ROWS)],
        "n": [None if i % 3 else i * 10**12 for i in range(_ROWS)],
        "l": [[i, None] for i in range(_ROWS)],
    }
    fields = [*({"name": n, "type": t} for n, t in kinds.items()),
              {"name": "l", "type": {"type": "ARRAY", "element": "INT"}}]  # fmt: skip
    table = lakeidx.Table.create(
        f"{folder}/d.db/t", {"fields": fields, "primaryKeys": ["k"], "options": {"bucket": "1", **options}}
    )
    table.upsert(pa.table(columns))
    return table


def _data_file(folder: Path) -> Path:
    (file,) = (folder / "d.db/t").rglob("data-*.parquet")
    return file


def _verdict(table: lakeidx.Table) -> bool:
    return check_files_readable(load_evidence(table.metadata, runner=LocalRunner(1))).passed


def _read(table: lakeidx.Table) -> Any:
    """Rows by a scan and by filters that use statistics and pages; an error as such."""
    try:
        shown = repr(table.scan().to_arrow().to_pylist())
        for where in ("n = 30000000000000", "s = 'value 3'", "d >= 0.35", "k = 17"):
            shown += repr(table.scan(where=where).to_arrow().to_pylist())
        return shown
    except LakeIdxError as error:
        return type(error)


def _flips(folder: Path, change: Callable[[bytearray, int], None], offsets: list[int]) -> list[int]:
    """Offsets at which a change passes the check although it changes what is read."""
    table = _table(folder)
    file = _data_file(folder)
    good, before = file.read_bytes(), _read(table)
    assert _verdict(table)
    silent = []
    for at in offsets:
        data = bytearray(good)
        change(data, at)
        file.write_bytes(data)
        if _verdict(table) and _read(table) != before:
            silent.append(at)
    return silent


def _invert(data: bytearray, at: int) -> None:
    data[at] ^= 0xFF


def _lowest_bit(data: bytearray, at: int) -> None:
    data[at] ^= 1


def test_a_flip_in_a_page_of_any_column_fails(tmp_path: Path) -> None:
    """One byte in the middle of every column chunk: the check fails and names the file."""
    import pyarrow.parquet as pq

    table = _table(tmp_path)
    file = _data_file(tmp_path)
    good = file.read_bytes()
    group = pq.read_metadata(file).row_group(0)
    for i in range(group.num_columns):
        chunk = group.column(i)
        data = bytearray(good)
        data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
        file.write_bytes(data)
        result = check_files_readable(load_evidence(table.metadata, runner=LocalRunner(1)))
        assert not result.passed, chunk.path_in_schema
        assert str(result.sample[0]["file"]).endswith(file.name)


def test_a_sample_of_bytes(tmp_path: Path) -> None:
    """No flipped byte that changes an answer passes."""
    _table(tmp_path / "sizing")
    size = _data_file(tmp_path / "sizing").stat().st_size
    assert _flips(tmp_path / "flips", _invert, sorted(random.Random(7).sample(range(size), 20))) == []


@pytest.mark.slow
def test_every_byte(tmp_path: Path) -> None:
    """All of them, each by one of two changes."""
    _table(tmp_path / "sizing")
    size = _data_file(tmp_path / "sizing").stat().st_size
    draw = random.Random(8)
    change = [draw.choice((_invert, _lowest_bit)) for _ in range(size)]
    assert _flips(tmp_path / "flips", lambda data, at: change[at](data, at), share_of(range(size), 0.15)) == []
