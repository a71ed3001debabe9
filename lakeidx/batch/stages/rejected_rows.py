"""Rejected rows of a batch: each task writes those of its landing file; counts, reasons and the first ten go to the driver.

``ingest/<random>/rejected/<source>.parquet``, of a share of a large file ``<source>-<share>.parquet``; columns of
`lakeidx.landing.cast_rows.REJECT_SCHEMA`, rows in the order of the file. The report names the file, or the folder when several
tasks have rejected rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeidx.landing.cast_rows import REJECT_SCHEMA
from lakeidx.storage.base import ObjectStore

#: Rows that a task shows the driver, reasons that are counted apart, and rows that wait to be written.
_SHOWN, _REASONS, _WAITING = 10, 50, 10_000
_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True)
class RejectedRows:
    """Rows of one landing file that were rejected.

    path      where all of it lies; None when nothing was
    reasons   rows by the kind of reason, the most frequent ones
    first     rows, as REJECT_SCHEMA has them
    """

    rows: int = 0
    path: str | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)
    first: tuple[Mapping[str, Any], ...] = ()


class RejectWriter:
    """Writes the rejected rows of one task under a name; a context, which leaves a file when it ends without an error."""

    def __init__(self, store: ObjectStore, out_dir: str, name: str) -> None:
        self._store = store
        self._path = f"{out_dir}/rejected/{name}{_SUFFIX}"
        self._open = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._reasons: Counter[str] = Counter()
        self._first: list[Mapping[str, Any]] = []
        self._rows = 0

    def __enter__(self) -> RejectWriter:
        self._open.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open.__exit__(kind, error, at)

    def add(self, rows: pa.Table) -> None:
        """Add rejected rows, in the order of the file."""
        if not rows.num_rows:
            return
        self._first += rows.slice(0, _SHOWN - len(self._first)).to_pylist()
        kinds = pc.list_element(pc.split_pattern(rows.column("reason"), ":", max_splits=1), 0)
        for counted in pc.value_counts(kinds.combine_chunks()).to_pylist():
            self._reasons[counted["values"]] += counted["counts"]
        self._rows += rows.num_rows
        self._waiting.append(rows)
        if sum(t.num_rows for t in self._waiting) >= _WAITING:
            self._flush()

    def finish(self) -> RejectedRows:
        """Write the buffered rows; return counts, reasons and first rows."""
        self._flush()
        path = self._path if self._rows else None
        return RejectedRows(self._rows, path, dict(self._reasons.most_common(_REASONS)), tuple(self._first))

    def _flush(self) -> None:
        if not self._waiting:
            return
        if self._writer is None:
            sink = self._open.enter_context(self._store.open_output(self._path))
            self._writer = self._open.enter_context(pq.ParquetWriter(sink, REJECT_SCHEMA))
        self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting = []


def join_rejected(found: Sequence[RejectedRows]) -> RejectedRows:
    """Join what was rejected of all landing files, in their order; the path is that of the report."""
    with_rows = [f for f in found if f.path is not None]
    path = None
    if with_rows and with_rows[0].path is not None:
        path = with_rows[0].path if len(with_rows) == 1 else with_rows[0].path.rpartition("/")[0]
    reasons = sum((Counter(f.reasons) for f in with_rows), Counter[str]())
    first = [row for f in with_rows for row in f.first][:_SHOWN]
    return RejectedRows(sum(f.rows for f in with_rows), path, dict(reasons.most_common(_REASONS)), tuple(first))


def read_rejected(store: ObjectStore, path: str, *, most: int | None = None) -> pa.Table:
    """Read rejected rows, those of the first landing file first.

    path   as the report of `ingest` names it
    most   rows to read, about: no further file is opened after them; None: all
    """
    paths = [path] if path.endswith(_SUFFIX) else sorted(f.path for f in store.list(path))
    tables: list[pa.Table] = []
    for each in paths:
        with store.open_input(each) as file:
            tables.append(pq.ParquetFile(file).read_row_group(0) if most is not None else pq.read_table(file))
        if most is not None and sum(t.num_rows for t in tables) >= most:
            break
    found = pa.concat_tables(tables) if tables else REJECT_SCHEMA.empty_table()
    return found if most is None else found.slice(0, most)
