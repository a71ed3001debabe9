"""A hash index with a wrong hash: `verify` finds it, a scan has all rows, and the table's own rows make the index anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lakeidx.api.table import Table
from lakeidx.cli.main import app
from lakeidx.errors import CorruptFileError
from lakeidx.table.handle import TableHandle
from lakeidx.testing.small_tables import content, make_table, upsert

ROWS = [(p, k, f"a{k}") for p in (1, 2) for k in range(25)]


def flip(file: Path) -> None:
    damaged = bytearray(file.read_bytes())
    damaged[5] ^= 4
    file.write_bytes(damaged)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-4])


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_batch_that_needs_it_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """A key whose hash is another one would get a second bucket; with a flipped bit nothing but the checksum in the name tells."""
    table = make_table(tmp_path)
    upsert(table, ROWS)
    before = set(Path(table.uri).rglob("data-*"))
    files = [str(file) for file in Path(table.uri, "index").iterdir()]
    for file in files:
        damage(Path(file))
    with pytest.raises(CorruptFileError, match=r"rebuild .*docs/upkeep\.md") as caught:
        upsert(TableHandle.open(table.uri), [(1, 3, "b")])
    assert caught.value.path in files
    assert set(Path(table.uri).rglob("data-*")) == before


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("damage", [flip, cut, Path.unlink])
def test_a_table_is_put_in_its_own_place(tmp_path: Path, whole: bool, damage: Callable[[Path], None]) -> None:
    """As docs/upkeep.md says, as a whole and by partitions."""
    table = make_table(tmp_path)
    upsert(table, ROWS)
    for file in Path(table.uri, "index").iterdir():
        damage(file)
    found = {rule.name for rule in Table.open(table.uri).verify().findings}
    assert found & {"live_keys_indexed", "index_files_agree", "referenced_files_exist"}
    kept, run = tmp_path / "rows.parquet", CliRunner().invoke
    for where in (None,) if whole else ("p = 1", "p = 2"):
        given = [] if where is None else ["--where", where]
        assert run(app, ["scan", table.uri, "-o", str(kept), *given]).exit_code == 0
        how = "table" if whole else "partitions"
        done = run(app, ["upsert", table.uri, str(kept), "--overwrite", how, "--no-progress"])
        assert done.exit_code == 0, done.output
    assert Table.open(table.uri).verify().passed
    assert content(table) == {(p, k): v for p, k, v in ROWS}
