"""The key index our writer puts into a data file's footer: a filter over all record keys, and the smallest and largest one.

source   org.apache.hudi.avro.HoodieBloomFilterWriteSupport, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakeidx.codec.hudi.bloom import new_filter
from lakeidx.codec.hudi.hashes import java_order
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.hudi.footer import format_footer
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.key_index.keys.record_key import record_keys
from lakeidx.key_index.options import IndexOptions, index_options_of


def bloom_footer(schema: TableSchema) -> Callable[[], BloomFooterBuilder] | None:
    """Return a factory of one filter builder per file for `DataFileWriter`; None when the table's options switch filters off."""
    options = index_options_of(schema)
    if not options.hoodie_parquet_bloom_filter_enabled:
        return None
    return lambda: BloomFooterBuilder(schema.trimmed_primary_keys, options)


class BloomFooterBuilder:
    """Builds the footer entries of one file while it is written.

    key_names   trimmed primary key, in key order
    options     kind and size of the filter
    """

    def __init__(self, key_names: Sequence[str], options: IndexOptions) -> None:
        self._names = tuple(key_names)
        self._bloom = new_filter(
            options.hoodie_bloom_index_filter_type,
            num_entries=options.hoodie_index_bloom_num_entries,
            fpp=options.hoodie_index_bloom_fpp,
            max_entries=options.hoodie_bloom_index_filter_dynamic_max_entries,
        )
        # As (sort key in Java's order, text), so that ranges of parts can be joined.
        self._low: tuple[bytes, bytes] | None = None
        self._high: tuple[bytes, bytes] | None = None

    def add(self, table: pa.Table) -> None:
        """Add the next rows of the file; only the key columns are used."""
        if not table.num_rows:
            return
        keys = record_keys([table.column(n) for n in self._names], self._names)
        # An empty key, which Hudi does not have, goes into no filter; key_indexes look for it in the file itself.
        full = keys.lengths > 0
        self._bloom.add(keys if full.all() else RowBytes.from_arrow(keys.to_arrow().filter(pa.array(full))))
        ordered = java_order(keys).to_arrow()
        ends = pc.min_max(ordered.cast(pa.large_binary()))
        for end in (ends["min"], ends["max"]):
            at = pc.index(ordered, end.cast(ordered.type)).as_py()
            pair = (end.as_py(), keys[at])
            self._low = pair if self._low is None else min(self._low, pair)
            self._high = pair if self._high is None else max(self._high, pair)

    def finish(self) -> Mapping[str, str]:
        """Return the footer's entries."""
        low = self._low[1] if self._low else None
        high = self._high[1] if self._high else None
        entries = format_footer(self._bloom, min_key=low, max_key=high)
        return {k.decode("utf-8"): v.decode("utf-8") for k, v in entries.items()}
