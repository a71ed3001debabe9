"""Tables written by Hudi, for Python users."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from lakeidx.api.arrow_input import Rows, as_table
from lakeidx.key_index.hudi_table.table import HudiTagResult, find_record_keys
from lakeidx.key_index.hudi_table.timeline import open_hudi_table
from lakeidx.key_index.options import IndexOptions
from lakeidx.landing.key_rows import as_record_keys, read_record_keys
from lakeidx.storage import open_store
from lakeidx.storage.local import absolute


def tag_hudi_table(
    path: str,
    keys: str | pa.Array | pa.ChunkedArray | Rows,
    *,
    column: str | None = None,
    partitions: Collection[str] | None = None,
    bad_filter: str = "read-keys",
    storage_options: Mapping[str, Any] | None = None,
) -> HudiTagResult:
    """Find record keys in a copy-on-write table of Hudi, by the filters in its file footers.

    keys        whole record keys (an Arrow array of text), rows, or the path of a file with rows
    column      of rows: the column with whole record keys; default one of a usual name, or the table's record key fields
    partitions  look in these partition paths only
    bad_filter  what a filter that cannot be read does: ``read-keys`` of that file, or ``fail``
    errors      NotFoundError, UnsupportedError for another kind of table, CorruptFileError; InvalidInputError for nulls, or
                when no column holds keys
    """
    options = IndexOptions({"index.bad-filter": bad_filter})
    store = open_store(path, storage_options)
    if isinstance(keys, (pa.Array, pa.ChunkedArray)):
        wanted = keys
    else:
        fields = open_hudi_table(store, path).record_key_fields
        if isinstance(keys, str):
            wanted = read_record_keys(absolute(keys), fields, column)
        else:
            wanted = as_record_keys(as_table(keys), fields, column)
    return find_record_keys(store, path, wanted, partitions=partitions, options=options)
