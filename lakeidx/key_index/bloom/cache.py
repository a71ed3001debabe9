"""The metadata cache: filters and ranges of all live files in one compact file per snapshot, instead of one footer each.

File ``<index dir>/bloom-filters/snapshot-<id, 20 digits>.arrow``: Arrow IPC, zstd, one row per data file:

============  ======  =================================================================================================
column        type    content
============  ======  =================================================================================================
file_name     string  data file
type_code     string  as in the footer
filter        binary  the footer's Base64 text, null = the file has no filter
min_key       binary  record key range of the footer, null = none
max_key       binary
============  ======  =================================================================================================

The schema's metadata has ``crc32``, the checksum of all values (`_checksum`).

Data files never change, so an entry is right for ever and a cache of any snapshot serves any other: entries of files
that are gone are dropped, files that are new have their footers read. A cache that cannot be read is rebuilt.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.hudi.bloom import BloomFilter
from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.format.hudi.footer import KeyFooter
from lakeidx.key_index.locations import LiveFile
from lakeidx.key_index.port import IndexContext
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join

_log = logging.getLogger(__name__)
_FOLDER = "bloom-filters"
_PREFIX, _SUFFIX = "snapshot-", ".arrow"
_KEPT = 2
_CHECKSUM = b"crc32"
_SCHEMA = pa.schema(
    [
        pa.field("file_name", pa.string(), False),
        pa.field("type_code", pa.string(), False),
        pa.field("filter", pa.binary()),
        pa.field("min_key", pa.binary()),
        pa.field("max_key", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class FilterCache:
    """Footers of data files by file name.

    read    footers that had to be read, as no cache had them
    """

    footers: dict[str, KeyFooter]
    read: int

    @classmethod
    def load(cls, files: Sequence[LiveFile], context: IndexContext) -> FilterCache:
        """Load the footers of some files: from the newest cache, the rest from the files themselves."""
        held = _newest(context)
        missing = [f for f in files if f.meta.file_name not in held]
        read = context.pool.map(lambda file: context.reader.open(file).footer(), missing)
        found = {f.meta.file_name: held[f.meta.file_name] for f in files if f.meta.file_name in held}
        found.update((f.meta.file_name, footer) for f, footer in zip(missing, read, strict=True))
        return cls(found, len(missing))

    def bloom_filter(self, file: LiveFile) -> BloomFilter | None:
        """Parse a file's filter, None when it has none.

        errors   CorruptFileError, UnsupportedError when it cannot be read
        """
        return self.footers[file.meta.file_name].bloom_filter(file.path)

    def save(self, context: IndexContext) -> None:
        """Write the cache of the context's snapshot, and delete all but the newest."""
        snapshot_id = context.view.snapshot_id
        if snapshot_id is None:
            return
        folder = join(context.index_dir, _FOLDER)
        context.store.put(join(folder, f"{_PREFIX}{snapshot_id:020d}{_SUFFIX}"), _encode_cache(self.footers))
        for path in _caches(context.store, folder)[:-_KEPT]:
            context.store.delete(path)


def _encode_cache(footers: dict[str, KeyFooter]) -> bytes:
    """Encode a cache file."""
    rows = [
        {
            "file_name": name,
            "type_code": footer.type_code,
            "filter": footer.filter_text,
            "min_key": footer.min_key,
            "max_key": footer.max_key,
        }
        for name, footer in sorted(footers.items())
    ]
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    # Arrow has no checksum, and a filter that lost a bit would call a key new that is there.
    schema = _SCHEMA.with_metadata({_CHECKSUM: str(_checksum([tuple(r.values()) for r in rows])).encode()})
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema))
    found: bytes = sink.getvalue().to_pybytes()
    return found


def decode_cache(data: bytes, path: str | None = None) -> dict[str, KeyFooter]:
    """Decode the footers of a cache file.

    errors   CorruptFileError
    """
    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(f"not a cache of bloom filters: {error}", path=path) from error
    if table.schema != _SCHEMA or table.column("file_name").null_count or table.column("type_code").null_count:
        raise CorruptFileError("a cache of bloom filters has other columns", path=path)
    rows = list(zip(*(table.column(name).to_pylist() for name in _SCHEMA.names), strict=True))
    if (table.schema.metadata or {}).get(_CHECKSUM) != str(_checksum(rows)).encode():
        raise CorruptFileError("a cache of bloom filters does not match its checksum", path=path)
    return {
        name: KeyFooter(filter_text=text, type_code=code, min_key=low, max_key=high)
        for name, code, text, low, high in rows
    }


def _checksum(rows: Sequence[tuple[str | bytes | None, ...]]) -> int:
    """Return the CRC-32 of the lengths of all values, written as a list, and of the values, row by row."""
    values = [v.encode() if isinstance(v, str) else v for row in rows for v in row]
    lengths = [None if v is None else len(v) for v in values]
    return crc32(repr(lengths).encode(), *(v for v in values if v is not None))


def _newest(context: IndexContext) -> dict[str, KeyFooter]:
    for path in reversed(_caches(context.store, join(context.index_dir, _FOLDER))):
        try:
            return decode_cache(context.store.get(path), path)
        except NotFoundError:
            continue
        except CorruptFileError as error:
            _log.warning("ignoring the bloom filter cache and rebuilding it: %s", error)
    return {}


def _caches(store: ObjectStore, folder: str) -> list[str]:
    return [f.path for f in store.list(folder) if f.name.startswith(_PREFIX) and f.name.endswith(_SUFFIX)]
