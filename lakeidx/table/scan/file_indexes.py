"""Query the file indexes of data files, embedded or beside them: whether and where they may contain selected rows.

A damaged or unknown index never fails a read and never hides a row: it is reported, and its file is read whole.

source   org.apache.paimon.io.FileIndexEvaluator, release 1.4.2
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

from pyroaring import BitMap

from lakeidx.errors import CorruptFileError, NotFoundError, UnsupportedError
from lakeidx.file_index.container import FileIndexContainer, IndexAt
from lakeidx.file_index.evaluate import evaluate_container
from lakeidx.file_index.kinds.types import FileIndexResult, Verdict
from lakeidx.file_index.write import INDEX_SUFFIX
from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate import BoundPredicate, Leaf, Predicate
from lakeidx.storage.base import ObjectStore
from lakeidx.table.scan.metrics import ScanMetrics

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a file's indexes.

    skip        no row is selected: do not open the file
    selection   positions that may be selected; None = nothing is known about positions
    asked       (index type, column) of the indexes that let the file through
    """

    skip: bool
    selection: BitMap | None = None
    asked: frozenset[tuple[str, str]] = frozenset()


class FileIndexTest:
    """Tests the data files of one scan, whose rows it selects by `predicate`."""

    def __init__(self, store: ObjectStore, predicate: BoundPredicate) -> None:
        self._store = store
        self._predicate = predicate

    def embedded_may_match(self, file: DataFileMeta, file_schema: TableSchema) -> bool:
        """Return False when the embedded index rules the file out. Reads nothing."""
        if not file.embedded_index:
            return True
        try:
            result = evaluate_container(
                file.embedded_index, self._of_file(file_schema), file_schema.fields,
                rows=file.row_count, path=file.file_name,
            )  # fmt: skip
        except (CorruptFileError, UnsupportedError) as error:
            _log.warning("reading data file %s without its embedded index: %s", file.file_name, error)
            return True
        return result is not Verdict.SKIP

    def ask(self, file: DataFileMeta, path: str, file_schema: TableSchema, metrics: ScanMetrics) -> Answer:
        """Evaluate all indexes of a file before it is read.

        path   of the data file; its index is beside it
        """
        side = next((n for n in file.extra_files if n.endswith(INDEX_SUFFIX)), None)
        if side is None and not file.embedded_index:
            return Answer(False)
        started = time.monotonic()
        said: list[tuple[IndexAt, bool]] = []

        def listen(entry: IndexAt, _: Leaf, result: FileIndexResult) -> None:
            said.append((entry, result is Verdict.SKIP or (isinstance(result, BitMap) and not result)))

        predicate = self._of_file(file_schema)
        where = path
        result: FileIndexResult = Verdict.REMAIN
        try:
            container: bytes | FileIndexContainer
            if file.embedded_index:
                container = file.embedded_index
            else:
                assert side is not None
                where = f"{path.rpartition('/')[0]}/{side}"
                container = self._open(where, metrics)
            result = evaluate_container(
                container, predicate, file_schema.fields, rows=file.row_count, path=where, listener=listen
            )
        except (CorruptFileError, UnsupportedError, NotFoundError) as error:
            metrics.index_failures += 1
            said = []
            _log.warning("reading data file %s without its index: %s", path, error)
        skip = result is Verdict.SKIP
        passed = self._count(said, skip, metrics)
        metrics.index_seconds += time.monotonic() - started
        return Answer(skip, result if isinstance(result, BitMap) else None, passed)

    def _open(self, path: str, metrics: ScanMetrics) -> FileIndexContainer:
        def read(offset: int, length: int) -> bytes:
            data = self._store.get_range(path, offset, length)
            metrics.index_bytes += len(data)
            return data

        return FileIndexContainer(read, self._store.size(path), path)

    def _count(self, said: list[tuple[IndexAt, bool]], skip: bool, metrics: ScanMetrics) -> frozenset[tuple[str, str]]:
        """Count each index once per file; return those that let the file through."""
        by_index: dict[tuple[str, str], tuple[bool, int]] = {}
        for entry, ruled_out in said:
            key = (entry.type, entry.column)
            before = by_index.get(key, (False, 0))[0]
            by_index[key] = (before or ruled_out, entry.length)
        for (index_type, column), (ruled_out, length) in by_index.items():
            tally = metrics.tally(index_type, column)
            tally.asked += 1
            tally.spared += skip and ruled_out
            tally.bytes += length
        return frozenset() if skip else frozenset(by_index)

    def _of_file(self, file_schema: TableSchema) -> Predicate:
        return self._predicate.of_files(file_schema.id, file_schema.fields)[0]
