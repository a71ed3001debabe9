"""Blocks as bytes: what comes back is what was sent, in pieces or whole."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeidx.errors import UnavailableError
from lakeidx.tasks import blocks as blocks_module
from lakeidx.tasks.blocks import BlockWriter, block_folder, decode_block, encode_block, take_block
from lakeidx.tasks.routed_rows import RoutedRows, cut_rows, group_targets
from lakeidx.testing.limits import HANGS_SECONDS
from tests.kit.largest_file import largest_file


@pytest.mark.parametrize(("weights", "pieces"), [([600_000, 600_000], [4, 4]), ([5, 5], [1])])
def test_pieces_are_of_targets_that_are_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: list[int], pieces: list[int]
) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 1000)
    groups = group_targets(weights, 1)
    rows = pa.table({"v": np.arange(1000)}).replace_schema_metadata({"of": "x"})
    targets = (np.arange(1000) % 2).astype(np.int32)
    cuts = list(cut_rows(RoutedRows(7, rows, targets), groups))
    encoded = [list(encode_block(cut, groups)) for cut in cuts]
    with BlockWriter(str(tmp_path)) as writer:
        places = [list(writer.write(cut, groups)) for cut in cuts]
    assert [len(e) for e in encoded] == [len(e) for e in places] == pieces
    filed = [[take_block(str(tmp_path), writer.name, *place) for place in e] for e in places]
    for way in (encoded, filed):
        decoded = [decode_block(cut.group, 7, piece) for cut, e in zip(cuts, way, strict=True) for piece in e]
        blocks = [b for block in decoded for b in block.blocks()]
        for target in (0, 1):
            found = pa.concat_tables(b.rows for b in blocks if b.target == target)
            assert found.column("v").to_pylist() == list(range(target, 1000, 2))
            assert found.schema.metadata == {b"of": b"x"}
        assert {b.order for b in blocks} == {7}


# ---- in local files: what was written comes back, else an error; no folder stays, whoever was killed -----------------


ONE_TARGET = group_targets([1], 1)


def write(writer: BlockWriter, numbers: int) -> tuple[int, int]:
    """Write a block of so many numbers."""
    rows = RoutedRows(7, pa.table({"v": np.arange(numbers)}), np.zeros(numbers, np.int32))
    ((place,),) = (list(writer.write(cut, ONE_TARGET)) for cut in cut_rows(rows, ONE_TARGET))
    return place


def test_blocks_come_back_and_every_writer_has_a_file_of_its_own(tmp_path: Path) -> None:
    sizes = [1, 1000, 7, 300_000, 2]
    with BlockWriter(str(tmp_path)) as one, BlockWriter(str(tmp_path)) as two, BlockWriter(str(tmp_path)) as nothing:
        places = [(writer.name, *write(writer, n)) for n in sizes for writer in (one, two)]
    found = [decode_block(0, 7, take_block(str(tmp_path), *place)).rows["v"].to_pylist() for place in places]
    assert found == [list(range(n)) for n in sizes for _ in range(2)]
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([one.name, two.name])
    assert nothing.name not in (one.name, two.name)


def test_a_file_that_is_gone_or_short_is_an_error_and_no_rows(tmp_path: Path) -> None:
    with BlockWriter(str(tmp_path)) as writer:
        start, size = write(writer, 10)
    os.truncate(tmp_path / writer.name, size - 3)
    with pytest.raises(UnavailableError, match=f"cut short: 3 of {size} bytes are missing") as raised:
        take_block(str(tmp_path), writer.name, start, size)
    assert raised.value.retryable
    os.remove(tmp_path / writer.name)
    with pytest.raises(UnavailableError, match=rf"{writer.name}: cannot read the shuffle file: No such file"):
        take_block(str(tmp_path), writer.name, start, size)


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    for numbers in (100, 100_000):
        with largest_file(numbers * 12), BlockWriter(str(tmp_path)) as writer:
            assert write(writer, numbers)[0] == 0
            with pytest.raises(UnavailableError, match="cannot write the shuffle file: File too large"):
                write(writer, numbers)
    with pytest.raises(UnavailableError, match="cannot create a folder for shuffle files: No such file"):
        block_folder(str(tmp_path / "missing")).__enter__()


def test_a_folder_goes_with_its_shuffle_and_not_with_anothers(tmp_path: Path) -> None:
    with block_folder(str(tmp_path)) as outer:
        for error in (None, ValueError("a task failed")):
            with suppress(ValueError), block_folder(str(tmp_path)) as inner, BlockWriter(inner) as writer:
                write(writer, 1)
                assert Path(inner).parent == Path(outer).parent == tmp_path
                if error:
                    raise error
            assert [str(f) for f in tmp_path.iterdir()] == [outer]
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from lakeidx.tasks.blocks import BlockWriter, block_folder
from tests.unit.tasks.test_blocks import write
with block_folder(sys.argv[1]) as folder, BlockWriter(folder) as writer:
    write(writer, 1)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_with_the_next_shuffle(tmp_path: Path) -> None:
    other = tmp_path / "lakeidx-tables"
    other.mkdir()
    with block_folder(str(tmp_path)) as mine:
        subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=HANGS_SECONDS)
        (left,) = (f for f in tmp_path.iterdir() if str(f) not in (mine, str(other)))
        assert len(list(left.iterdir())) == 1
        with block_folder(str(tmp_path)) as later:
            assert sorted(map(str, tmp_path.iterdir())) == sorted([str(other), mine, later])
