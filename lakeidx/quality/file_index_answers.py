"""Check that file indexes have no false negatives: sample values of each data file and query its indexes.

An index may have false positives, never false negatives. Each index of a file is queried by itself, for
``= v``, ``<= v`` and ``>= v`` of values that some row has, and IS NULL where a row is null; the row's position must be in
the answer. Rows that deletion vectors hide are asked, too, for indexes refer to the file as it was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.read_data_file import read_data_file
from lakeidx.errors import CorruptFileError, InvalidInputError, LakeIdxError, UnavailableError, UnsupportedError
from lakeidx.file_index.container import FileIndexContainer, IndexAt
from lakeidx.file_index.evaluate import both_zeros
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, Verdict
from lakeidx.file_index.options import split_reference
from lakeidx.file_index.registry import find_file_index
from lakeidx.file_index.write import INDEX_SUFFIX
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.predicate.bind import reference_type
from lakeidx.predicate.tree import Compare, IsNull, Leaf, Op
from lakeidx.quality.result import PartitionName, RuleResult, Severity, bounded
from lakeidx.storage.files import join
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import data_file_path
from lakeidx.tasks.limits import available_cores
from lakeidx.tasks.runner import LocalRunner
from lakeidx.types import Root

#: Values of a file that are asked at least, however many files there are.
_LEAST_VALUES = 10
_ASKED = (Op.EQ, Op.LE, Op.GE)


@dataclass(slots=True)
class _Found:
    """Answers of one file's indexes."""

    indexes: int = 0
    asked: int = 0
    denied: int = 0
    unreadable: int = 0
    skipped: int = 0
    offenders: list[dict[str, Any]] = field(default_factory=list)


def check_file_indexes(
    metadata: TableMetadata,
    entries: Sequence[ManifestEntry],
    *,
    sample_rows: int = 1000,
    partition_name: PartitionName = bytes.hex,
) -> RuleResult:
    """Check that file indexes have no false negatives on these data files.

    entries       live data files; those without file indexes cost nothing
    sample_rows   rows that are asked, of all files together; of each file `_LEAST_VALUES` at least
    returns       metrics: files, indexes, values_asked, false_negatives, indexes_unreadable, and files_skipped, whose own
                  bytes could not be read (other rules refer to those)
    errors        UnavailableError
    cost          the sampled pages of the indexed columns, and the indexes
    """
    indexed = [e for e in entries if e.file.embedded_index or _side_file(e) is not None]
    rows = max(_LEAST_VALUES, sample_rows // max(1, len(indexed)))

    def look(numbered: tuple[int, ManifestEntry]) -> _Found:
        number, entry = numbered
        rng = np.random.default_rng((0, number))
        count = entry.file.row_count
        chosen = np.sort(rng.choice(count, min(rows, count), replace=False))
        return _look(metadata, entry, chosen, partition_name)

    found = LocalRunner(available_cores()).map(look, list(enumerate(indexed)), label="file-index")
    denied, unreadable = sum(f.denied for f in found), sum(f.unreadable for f in found)
    return RuleResult(
        name="file_indexes_answer",
        passed=denied + unreadable == 0,
        severity=Severity.ERROR,
        metrics={
            "files": len(indexed),
            "indexes": sum(f.indexes for f in found),
            "values_asked": sum(f.asked for f in found),
            "false_negatives": denied,
            "indexes_unreadable": unreadable,
            "files_skipped": sum(f.skipped for f in found),
        },
        sample=bounded(offender for f in found for offender in f.offenders),
        description="File indexes have no false negatives.",
    )


def _side_file(entry: ManifestEntry) -> str | None:
    return next((n for n in entry.file.extra_files if n.endswith(INDEX_SUFFIX)), None)


def _look(metadata: TableMetadata, entry: ManifestEntry, chosen: np.ndarray, partition_name: PartitionName) -> _Found:
    out = _Found()
    path = data_file_path(metadata, entry)
    schema = metadata.load_schema(entry.file.schema_id)
    said = {"partition": partition_name(entry.partition), "bucket": entry.bucket, "file": path}

    def unreadable(error: LakeIdxError, **index: Any) -> None:
        out.unreadable += 1
        out.offenders.append({**said, **index, "fault": f"unreadable: {error.message}"})

    try:
        container = _container(metadata, entry, path)
    except (CorruptFileError, UnsupportedError) as error:
        unreadable(error)
        return out
    except UnavailableError:
        raise
    except LakeIdxError:
        out.skipped += 1  # the index file is gone: the rule over referenced files says so
        return out
    sources = list(dict.fromkeys(split_reference(e.column)[0] for e in container.entries))
    sources = [s for s in sources if s in schema.field_names]
    try:
        rows = _rows(metadata, entry, path, schema, sources, chosen)
    except UnavailableError:
        raise
    except LakeIdxError:
        out.skipped += 1
        return out
    for index in container.entries:
        if index.is_empty or split_reference(index.column)[0] not in sources:
            continue
        try:
            reader = _reader(container, index, schema, entry.file.row_count)
            if reader is None:
                continue
            out.indexes += 1
            for position, leaf in _leaves(index, schema, rows, chosen):
                out.asked += 1
                answer = reader.select(both_zeros(leaf, reference_type(leaf, schema.fields_by_name)))
                if _denies(answer, position):
                    out.denied += 1
                    value = leaf.value if isinstance(leaf, Compare) else None
                    test = leaf.op.value if isinstance(leaf, Compare) else "IS NULL"
                    offender = {"column": index.column, "index": index.type, "test": test, "value": value}
                    out.offenders.append({**said, **offender, "row": position, "fault": "denied"})
        except (CorruptFileError, UnsupportedError) as error:
            unreadable(error, column=index.column, index=index.type)
    return out


def _container(metadata: TableMetadata, entry: ManifestEntry, path: str) -> FileIndexContainer:
    if entry.file.embedded_index:
        return FileIndexContainer.from_bytes(entry.file.embedded_index, entry.file.file_name)
    side = _side_file(entry)
    assert side is not None
    where = join(path.rpartition("/")[0], side)
    return FileIndexContainer.from_bytes(metadata.store.get(where), where)


def _reader(container: FileIndexContainer, index: IndexAt, schema: TableSchema, rows: int) -> FileIndexReader | None:
    """Make a reader; None for a type that is not installed or does not support the column: scans ignore it, too."""
    column_type = reference_type(_leaf(index, None), schema.fields_by_name)
    try:
        indexer = find_file_index(index.type)
        if indexer is None:
            return None
        indexer.check(column_type, {})
    except InvalidInputError:
        return None
    return indexer.create_reader(column_type, container.payload(index), rows=rows, path=container.path)


def _rows(
    metadata: TableMetadata,
    entry: ManifestEntry,
    path: str,
    schema: TableSchema,
    columns: Sequence[str],
    chosen: np.ndarray,
) -> pa.Table:
    """Read the chosen rows of a data file, as it was written."""
    batches = list(
        read_data_file(metadata.store, path, entry.file, schema, schema, columns, selection=BitMap(chosen.tolist()))
    )
    return pa.concat_tables(batches) if batches else schema.arrow_schema.empty_table().select(list(columns))


def _leaf(index: IndexAt, value: Any, op: Op = Op.EQ) -> Leaf:
    return Compare(index.column, op, value, split_reference(index.column)[1])


def _leaves(index: IndexAt, schema: TableSchema, rows: pa.Table, chosen: np.ndarray) -> Iterator[tuple[int, Leaf]]:
    """Build tests that a row passes, with its position; each distinct value once."""
    source, map_key = split_reference(index.column)
    column = rows.column(source)
    t = reference_type(_leaf(index, None), schema.fields_by_name)
    if map_key is not None:
        column = pc.map_lookup(column, map_key, "first")
    seen: set[Any] = set()
    for position, value in zip(chosen.tolist(), arrow_to_internal(column, t), strict=True):
        # Both zeros and all NaNs of a float are one value.
        key = repr(value) if t.root in (Root.FLOAT, Root.DOUBLE) else value
        if key in seen:
            continue
        seen.add(key)
        if value is None:
            yield position, IsNull(index.column, False, map_key)
        else:
            yield from ((position, _leaf(index, value, op)) for op in _ASKED)


def _denies(answer: FileIndexResult, position: int) -> bool:
    if isinstance(answer, BitMap):
        return position not in answer
    return answer is Verdict.SKIP
