"""A large text file ingested in shares gives the batch that the whole file gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeidx.api.table import Table
from lakeidx.batch.committed_batch import BatchResult
from lakeidx.batch.context import make_context
from lakeidx.batch.stages import ingest
from lakeidx.batch.stages.rejected_rows import read_rejected
from lakeidx.errors import InvalidInputError
from lakeidx.landing.read import LandingOptions
from lakeidx.landing.text.shares import cross_range
from lakeidx.tasks.runner import LocalRunner
from tests.kit.small_tables import content, make_table
from tests.kit.upserts import upsert_files

OPTIONS = {"bucket": "1"}


def landed(folder: Path, text: bytes, name: str, **options: Any) -> tuple[Table, BatchResult]:
    """A new table, and the file upserted into it."""
    folder.mkdir()
    table = make_table(folder, options=OPTIONS)
    file = folder / name
    file.write_bytes(text)
    context = make_context(table.metadata, "b", runner=LocalRunner(2))
    return table, upsert_files(context, [str(file)], LandingOptions(**options))


def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, name: str, **options: Any
) -> tuple[tuple[Table, BatchResult], tuple[Table, BatchResult]]:
    """The file landed whole, and in shares."""
    whole = landed(tmp_path / "whole", text, name, **options)
    monkeypatch.setattr(ingest, "SHARE_BYTES", 150)
    return whole, landed(tmp_path / "shared", text, name, **options)


def csv(n: int) -> bytes:
    """Keys that come several times, in quotes over lines; some records that are no rows."""
    lines = [f'{k % 3},{k % 40},"v\n{k}"' if k % 7 else f"{k % 3},no number,{k}" for k in range(n)]
    return ("p,k,v\n" + "\r\n".join(lines)).encode()


@pytest.mark.slow
def test_csv_rows_rejects_and_the_later_row_of_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole, one), (shared, many) = both(tmp_path, monkeypatch, csv(200), "f.csv")
    assert content(shared) == content(whole)
    assert len(many.ingest.parts) > 5
    assert len(one.ingest.parts) == 1
    assert many.ingest.rows_in == one.ingest.rows_in == 200
    assert many.ingest.reject_reasons == one.ingest.reject_reasons
    paths = [r.ingest.rejected_path for r in (one, many)]
    assert all(paths)
    found = [read_rejected(t.store, p or "").to_pylist() for t, p in zip((whole, shared), paths, strict=True)]
    assert [(r["line"], r["reason"], r["row"]) for r in found[1]] == [
        (r["line"], r["reason"], r["row"]) for r in found[0]
    ]


@pytest.mark.slow
def test_changes_as_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def message(k: int) -> str:
        row = {"p": 1, "k": k % 30, "v": str(k)}
        return json.dumps({"before": row, "after": None, "op": "d"} if k % 5 == 0 else {"after": row, "op": "c"})

    text = "\n".join(message(k) for k in range(100)).encode()
    (whole, _), (shared, many) = both(tmp_path, monkeypatch, text, "f.jsonl", format="debezium")
    assert content(shared) == content(whole)
    assert len(many.ingest.parts) > 5


def test_a_column_that_only_some_shares_have_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [{"p": 1, "k": k, "v": "x"} if k < 3 else {"p": 1, "k": k} for k in range(60)]
    text = "\n".join(map(json.dumps, lines)).encode()
    (whole, _), (shared, _) = both(tmp_path, monkeypatch, text, "f.jsonl")
    assert content(shared) == content(whole)


def test_a_compressed_file_is_one_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    _, (shared, many) = both(tmp_path, monkeypatch, gzip.compress(csv(200)), "f.csv.gz")
    assert len(many.ingest.parts) == 1
    assert len(content(shared)) == len({(k % 3, k % 40) for k in range(200) if k % 7})


def test_a_file_that_changes_between_the_two_looks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f" / "f.csv"
    monkeypatch.setattr(ingest, "SHARE_BYTES", 150)
    monkeypatch.setattr(ingest, "cross_range", changing(file, cross_range))
    with pytest.raises(InvalidInputError, match="the landing file changed while it was read; run the batch again"):
        landed(tmp_path / "f", csv(200), "f.csv")
    assert Table.open(f"{tmp_path}/f/wh/d.db/t").metadata.snapshot_ids() == []


def changing(file: Path, look: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which lets the file grow when it is called."""

    def grown(*arguments: Any) -> Any:
        found = look(*arguments)
        with file.open("ab") as more:
            more.write(b"\r\n1,1,late")
        return found

    return grown
