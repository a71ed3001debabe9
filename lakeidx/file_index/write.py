"""Building the file indexes of one data file beside the file itself.

source   org.apache.paimon.io.DataFileIndexWriter, release 1.4.2
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.errors import InvalidInputError
from lakeidx.file_index.options import IndexedColumn, index_type, indexed_columns
from lakeidx.format.schema.table_schema import TableSchema
from lakeidx.types import to_arrow

if TYPE_CHECKING:
    from lakeidx.file_index.kinds.types import FileIndexWriter

INDEX_SUFFIX = ".index"

_log = logging.getLogger(__name__)


class FileIndexParts(NamedTuple):
    """Place of the container of one data file.

    embedded    bytes for the manifest entry, when small enough
    side_files  otherwise (suffix to the data file's name, bytes) of the file to write beside it
    """

    embedded: bytes | None
    side_files: list[tuple[str, bytes]]


@dataclass(slots=True)
class _Maintainer:
    """Feeds the index writers of one column or map entry."""

    reference: str
    source: str
    map_key: str | None
    arrow_type: pa.DataType
    writers: dict[str, FileIndexWriter]

    def add(self, table: pa.Table) -> None:
        column = table.column(self.source)
        if self.map_key is not None:
            column = pc.map_lookup(column, self.map_key, "first").cast(self.arrow_type)
        for writer in self.writers.values():
            writer.add(column)


class DataFileIndexWriter:
    """One maintainer per configured column; gets the rows of a data file in their order, then returns the container.

    schema     the table's
    indexes    what to build; `from_options` takes it from the table's options
    threshold  bytes up to which the container goes into the manifest
    errors     InvalidInputError when a column does not exist or cannot be indexed, or an option is bad
    """

    def __init__(self, schema: TableSchema, indexes: Sequence[IndexedColumn], *, threshold: int) -> None:
        from lakeidx.file_index.registry import file_index_of

        self._threshold = threshold
        self._rows = 0
        self._maintainers: dict[str, _Maintainer] = {}
        for indexed in indexes:
            t = index_type(indexed, schema.fields_by_name)
            writer = file_index_of(indexed.index).create_writer(t, indexed.options)
            maintainer = self._maintainers.get(indexed.reference)
            if maintainer is None:
                maintainer = _Maintainer(indexed.reference, indexed.source, indexed.map_key, to_arrow(t), {})
                self._maintainers[indexed.reference] = maintainer
            maintainer.writers[indexed.index] = writer

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that `add` needs."""
        return tuple(dict.fromkeys(m.source for m in self._maintainers.values()))

    def add(self, table: pa.Table) -> None:
        """Add the next rows of the data file.

        table    holds at least `columns`, in the Arrow types of the schema (or dictionaries of them)
        errors   InvalidInputError when a column is missing
        """
        missing = [c for c in self.columns if c not in table.column_names]
        if missing:
            raise InvalidInputError(f"the file index needs columns {', '.join(missing)}")
        self._rows += table.num_rows
        for maintainer in self._maintainers.values():
            maintainer.add(table)

    def finish(self) -> FileIndexParts:
        """Return the container, embedded or as a side file; neither when no index could be built.

        An index that cannot hold the column's values (see `FileIndexWriter.finish`) is left out with a warning: a file
        without an index is read whole, and writing continues.
        """
        from lakeidx.file_index.container import encode_index_container

        built: dict[str, dict[str, bytes | None]] = {}
        for reference, maintainer in self._maintainers.items():
            for index, writer in maintainer.writers.items():
                # Java marks the entry of a map column in a file without rows as an empty index.
                empty = maintainer.map_key is not None and self._rows == 0
                payload = None if empty else writer.finish()
                if payload is None and not empty:
                    _log.warning(
                        "column %s: its values cannot be kept in a %s index; the file has none", reference, index
                    )
                    continue
                built.setdefault(reference, {})[index] = payload
        if not built:
            return FileIndexParts(None, [])
        container = encode_index_container(built)
        if len(container) > self._threshold:
            return FileIndexParts(None, [(INDEX_SUFFIX, container)])
        return FileIndexParts(container, [])


def index_builder(schema: TableSchema) -> Callable[[], DataFileIndexWriter] | None:
    """Return what `lakeidx.data.write_data_file.DataFileWriter` calls for each new data file; None without configured indexes.

    errors   InvalidInputError as `DataFileIndexWriter`
    """
    indexes = indexed_columns(schema.options)
    if not indexes:
        return None
    threshold = schema.table_options.file_index_in_manifest_threshold
    return lambda: DataFileIndexWriter(schema, indexes, threshold=threshold)
