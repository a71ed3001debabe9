"""Look keys up in a data file, reading only the row groups or positions that may match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.codec.values import arrow_to_internal
from lakeidx.data.read_data_file import read_data_file
from lakeidx.data.rows import take_rows
from lakeidx.errors import CorruptFileError
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.lookup.build import lookup_keys
from lakeidx.lookup.point.answers import take_row_bytes
from lakeidx.lookup.versions import Versions
from lakeidx.predicate import BoundPredicate, In, Values
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.scan.prune import keys_may_match
from lakeidx.table.view import decode_partition_dict
from lakeidx.types import Root

Int64s = npt.NDArray[np.int64]


class DataFileLookup:
    """One data file of a bucket.

    deleted    positions that its deletion vector deletes; None without one
    was_read   True once the file itself was needed: key statistics may already say no
    """

    def __init__(
        self,
        metadata: TableMetadata,
        schema: TableSchema,
        partition: bytes,
        entry: ManifestEntry,
        deleted: Int64s | None,
    ) -> None:
        self.was_read = False
        self._metadata = metadata
        self._schema = schema
        self._entry = entry
        self._deleted = deleted
        self._path = metadata.paths.data_file(
            decode_partition_dict(partition, schema),
            entry.bucket,
            entry.file.file_name,
            external_path=entry.file.external_path,
        )

    def rows_of(self, keys: pa.Table, encoded: RowBytes, rows: Int64s) -> Versions | None:
        """Read rows of the keys rows[...], from the row groups that may hold them; None when there are none."""
        schema = self._schema
        first = schema.trimmed_primary_keys[0]
        wanted = pc.unique(keys.column(first).take(pa.array(rows)))
        # Of internal values, as binding makes them: no literal is to be cast.
        values = Values.of(arrow_to_internal(wanted, schema.field(first).type))
        predicate = BoundPredicate(In(first, values), schema.fields)
        if not keys_may_match(self._entry.file, predicate, schema):
            return None
        asked = take_row_bytes(encoded, rows).to_arrow()
        found = []
        # The first key column is read first; of floats, a predicate and the keys' bytes may differ on -0.0 and NaN.
        exact = schema.field(first).type.root not in (Root.FLOAT, Root.DOUBLE)
        for batch in self._read(predicate=predicate, deletion_vector=self._deleted, filter_rows=exact):
            at = pc.index_in(asked, value_set=lookup_keys(batch, schema).to_arrow())
            mine = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
            if len(mine):
                places = at.drop_null().to_numpy().astype(np.int64)
                found.append(Versions(rows[mine], take_rows(batch, places)))
        if not found:
            return None
        return Versions(np.concatenate([v.asked for v in found]), pa.concat_tables([v.kv for v in found]))

    def rows_at(self, positions: Int64s, encoded: RowBytes, rows: Int64s) -> Versions | None:
        """Read rows of the keys rows[...], which are at these positions; None when all of them are deleted.

        errors   CorruptFileError when another key is at a position
        """
        if self._deleted is not None:
            alive = np.flatnonzero(~np.isin(positions, self._deleted))
            positions, rows = positions[alive], rows[alive]
        if not len(rows):
            return None
        kv = self._kv_at(positions, encoded, rows)
        if kv is None:
            raise CorruptFileError("the key at the position in its lookup file is another one", path=self._path)
        return Versions(rows, kv)

    def rows_guessed_at(self, positions: Int64s, keys: pa.Table, encoded: RowBytes, rows: Int64s) -> Versions | None:
        """Read rows of the keys rows[...], which are at these positions if nothing is damaged; None when all of them are deleted.

        Nothing is taken for deleted by a position alone: where another key is at one, the keys are searched.
        """
        kv = self._kv_at(positions, encoded, rows)
        if kv is None:
            return self.rows_of(keys, encoded, rows)
        if self._deleted is None:
            return Versions(rows, kv)
        alive = np.flatnonzero(~np.isin(positions, self._deleted))
        return Versions(rows[alive], take_rows(kv, alive)) if len(alive) else None

    def _kv_at(self, positions: Int64s, encoded: RowBytes, rows: Int64s) -> pa.Table | None:
        """Read the rows at positions; None when one of them is not that of its key."""
        selection, order = np.unique(positions, return_inverse=True)
        kv = take_rows(pa.concat_tables(self._read(selection=selection)), order)
        asked = take_row_bytes(encoded, rows).to_arrow()
        return kv if lookup_keys(kv, self._schema).to_arrow().equals(asked) else None

    def _read(self, **choice: Any) -> Iterator[pa.Table]:
        self.was_read = True
        file = self._entry.file
        then = self._metadata.load_schema(file.schema_id)
        return read_data_file(self._metadata.store, self._path, file, then, self._schema, **choice)
