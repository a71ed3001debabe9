"""Evaluate a predicate with the file indexes of a data file: skip the file, read some rows, or read all.

The answer is never too narrow: a row that `lakeidx.predicate.evaluate` selects is in it. It may be too wide (bloom
filters, <> of a bitmap keeps null rows), so the predicate itself is applied to what is read.

source   org.apache.paimon.fileindex.FileIndexPredicate, FileIndexResult, empty.EmptyFileIndexReader, release 1.4.2
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pyroaring import BitMap

from lakeidx.errors import InvalidInputError
from lakeidx.file_index.container import FileIndexContainer, IndexAt
from lakeidx.file_index.kinds.types import FileIndexReader, FileIndexResult, Verdict, intersect, unite
from lakeidx.file_index.registry import find_file_index
from lakeidx.predicate.bind import reference_type
from lakeidx.predicate.mask import is_impossible
from lakeidx.predicate.tree import And, Compare, Constant, In, IsNull, Leaf, Match, Op, Or, Predicate
from lakeidx.types import DataType, Field, Root

_log = logging.getLogger(__name__)

#: Told of every index that was asked: which one, about what, and what it said. For plans that explain themselves.
IndexListener: TypeAlias = Callable[[IndexAt, Leaf, FileIndexResult], None]


def evaluate_container(
    container: bytes | FileIndexContainer,
    pred: Predicate,
    fields: Sequence[Field],
    *,
    rows: int | None = None,
    path: str | None = None,
    listener: IndexListener | None = None,
) -> FileIndexResult:
    """Evaluate which rows of a data file may be selected.

    container  the bytes (embedded or of the ``.index`` file), or one opened for reading parts
    pred       bound to `fields`: to the columns of the schema the file was written with (`lakeidx.predicate.bind`)
    fields     those columns
    rows       rows of the data file; with it, indexes over another number of rows are corrupt, and an answer of all
               rows is REMAIN
    path       named in errors, for bytes
    returns    REMAIN, SKIP, or a bitmap of physical row positions that is not empty
    errors     CorruptFileError when the head or a payload that is needed is damaged, UnsupportedError for a newer
               container: read the file without its index and say so. What goes unnoticed is said in
               `lakeidx.file_index.container`.

    Only indexes of columns the predicate names are read; types that are not known are skipped.
    """
    if isinstance(container, bytes):
        container = FileIndexContainer.from_bytes(container, path)
    result = _Evaluation(container, {f.name: f for f in fields}, rows, listener).test(pred)
    if isinstance(result, BitMap):
        if not result:
            return Verdict.SKIP
        if rows is not None and len(result) == rows:
            return Verdict.REMAIN
    return result


class _Evaluation:
    """One walk over a predicate; payloads are read once per column."""

    def __init__(
        self,
        container: FileIndexContainer,
        fields: Mapping[str, Field],
        rows: int | None,
        listener: IndexListener | None,
    ) -> None:
        self._container, self._fields, self._rows = container, fields, rows
        self._listener = listener
        self._readers: dict[IndexAt, FileIndexReader | None] = {}

    def test(self, pred: Predicate) -> FileIndexResult:
        if isinstance(pred, Constant):
            return Verdict.REMAIN if pred.value else Verdict.SKIP
        if isinstance(pred, And):
            result: FileIndexResult = Verdict.REMAIN
            for child in pred.children:
                result = intersect(result, self.test(child))
                if _is_none(result):
                    return Verdict.SKIP
            return result
        if isinstance(pred, Or):
            united: FileIndexResult = Verdict.SKIP
            for child in pred.children:
                united = unite(united, self.test(child))
                if united is Verdict.REMAIN:
                    break
            return united
        assert isinstance(pred, Leaf)
        return self._test_leaf(pred)

    def _test_leaf(self, leaf: Leaf) -> FileIndexResult:
        if is_impossible(leaf):
            return Verdict.SKIP
        t = reference_type(leaf, self._fields)
        leaf = both_zeros(leaf, t)
        result: FileIndexResult = Verdict.REMAIN
        for entry in self._container.indexes_of(leaf.column):
            if entry.is_empty:
                said: FileIndexResult = _empty_index(leaf)
            else:
                reader = self._reader(entry, t)
                if reader is None:
                    continue
                said = reader.select(leaf)
            if self._listener is not None:
                self._listener(entry, leaf, said)
            result = intersect(result, said)
            if _is_none(result):
                return Verdict.SKIP
        return result

    def _reader(self, entry: IndexAt, t: DataType) -> FileIndexReader | None:
        if entry not in self._readers:
            self._readers[entry] = self._open(entry, t)
        return self._readers[entry]

    def _open(self, entry: IndexAt, t: DataType) -> FileIndexReader | None:
        try:
            indexer = find_file_index(entry.type)
            if indexer is None:
                return None
            indexer.check(t, {})
        except InvalidInputError as e:  # a broken plug-in, or an index of another type than the column now has
            _log.warning("%s: ignoring the %s index of %s: %s", self._container.path, entry.type, entry.column, e)
            return None
        payload = self._container.payload(entry)
        return indexer.create_reader(t, payload, rows=self._rows, path=self._container.path)


def _is_none(result: FileIndexResult) -> bool:
    return result is Verdict.SKIP or (isinstance(result, BitMap) and not result)


def _empty_index(leaf: Leaf) -> Verdict:
    """Evaluate the index of a file without rows, with Java's caution."""
    if isinstance(leaf, Compare):
        return Verdict.REMAIN if leaf.op is Op.NE else Verdict.SKIP
    if isinstance(leaf, IsNull):
        return Verdict.SKIP if leaf.negated else Verdict.REMAIN
    assert isinstance(leaf, (In, Match))
    return Verdict.REMAIN if leaf.negated else Verdict.SKIP


def both_zeros(leaf: Leaf, t: DataType) -> Leaf:
    """Rewrite the leaf for indexes of FLOAT and DOUBLE, which distinguish -0.0 from 0.0 (and order it below) while predicates do
    not.
    """
    if t.root not in (Root.FLOAT, Root.DOUBLE):
        return leaf
    if isinstance(leaf, Compare) and leaf.value == 0:
        if leaf.op in (Op.EQ, Op.NE):
            return In(leaf.column, (-0.0, 0.0), negated=leaf.op is Op.NE, map_key=leaf.map_key)
        return replace(leaf, value=-0.0 if leaf.op in (Op.LT, Op.GE) else 0.0)
    if isinstance(leaf, In) and any(v == 0 for v in leaf.values):
        kept: tuple[Any, ...] = tuple(v for v in leaf.values if v != 0)
        return replace(leaf, values=(*kept, -0.0, 0.0))
    return leaf
