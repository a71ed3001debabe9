"""Interface of a file index type, and the results of evaluating one.

A new type is one module with an object that fits `FileIndexer`, and one registration
(`lakeidx.file_index.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyroaring import BitMap

from lakeidx.predicate.tree import Leaf
from lakeidx.types import DataType


class Verdict(Enum):
    """An answer for a whole file."""

    REMAIN = "remain"
    """Some row may be selected; nothing is known about which."""
    SKIP = "skip"
    """Surely no row is selected."""


FileIndexResult: TypeAlias = Verdict | BitMap
"""A verdict, or the physical rows of the file that may be selected (an empty bitmap means the same as SKIP)."""


class FileIndexWriter(Protocol):
    """Builds the payload of one index over one column of one data file."""

    def add(self, column: pa.Array | pa.ChunkedArray) -> None:
        """Add the next rows of the column, in file order; Arrow type as `lakeidx.types.to_arrow`, nulls included."""
        ...

    def finish(self) -> bytes | None:
        """Return the payload; None when the values cannot be indexed in this format, so that the file does without."""
        ...


class FileIndexReader(Protocol):
    """Answers tests of one column from a payload."""

    def select(self, leaf: Leaf) -> FileIndexResult:
        """Select rows that may pass the leaf; REMAIN for kinds of test that the index cannot answer.

        leaf     bound: literals are internal values of the column's type
        errors   CorruptFileError when the payload turns out to be damaged
        """
        ...


class FileIndexer(Protocol):
    """One index type."""

    @property
    def name(self) -> str:
        """The type's name in options and containers, e.g. ``bloom-filter``."""
        ...

    @property
    def options(self) -> frozenset[str]:
        """Names of the options a column can have: ``file-index.<name>.<column>.<option>``."""
        ...

    def check(self, t: DataType, options: Mapping[str, str]) -> None:
        """Refuse a column type or option value that cannot be indexed, with InvalidInputError."""
        ...

    def create_writer(self, t: DataType, options: Mapping[str, str]) -> FileIndexWriter:
        """Make a writer for one column of one data file."""
        ...

    def create_reader(
        self, t: DataType, payload: bytes | memoryview, *, rows: int | None = None, path: str | None = None
    ) -> FileIndexReader:
        """Make a reader of a payload.

        rows     rows of the data file, when known: a payload over another number of rows is corrupt
        path     named in errors
        errors   CorruptFileError when the payload's head is damaged
        """
        ...


def intersect(left: FileIndexResult, right: FileIndexResult) -> FileIndexResult:
    """Intersect two results: rows that may pass both tests."""
    if left is Verdict.SKIP or right is Verdict.SKIP:
        return Verdict.SKIP
    if left is Verdict.REMAIN or right is Verdict.REMAIN:
        return right if left is Verdict.REMAIN else left
    assert isinstance(left, BitMap)
    assert isinstance(right, BitMap)
    return left & right


def unite(left: FileIndexResult, right: FileIndexResult) -> FileIndexResult:
    """Unite two results: rows that may pass either test."""
    if left is Verdict.REMAIN or right is Verdict.REMAIN:
        return Verdict.REMAIN
    if left is Verdict.SKIP or right is Verdict.SKIP:
        return right if left is Verdict.SKIP else left
    assert isinstance(left, BitMap)
    assert isinstance(right, BitMap)
    return left | right
