"""The payload of a file index: built from columns, queried by a condition."""

from __future__ import annotations

from typing import Any

from lakeidx.file_index.kinds.types import FileIndexer, FileIndexResult
from lakeidx.predicate import Leaf, Predicate
from lakeidx.types import parse_type


def build(indexer: FileIndexer, type_text: str, *columns: Any, **options: str) -> bytes:
    """Write the payload of columns one after another; underscores in names of options stand for hyphens."""
    writer = indexer.create_writer(parse_type(type_text), {k.replace("_", "-"): v for k, v in options.items()})
    for column in columns:
        writer.add(column)
    payload = writer.finish()
    assert payload is not None
    return payload


def ask(indexer: FileIndexer, type_text: str, payload: bytes, pred: Predicate) -> FileIndexResult:
    """Query a payload by one condition on its column."""
    assert isinstance(pred, Leaf)
    return indexer.create_reader(parse_type(type_text), payload, path="f").select(pred)
