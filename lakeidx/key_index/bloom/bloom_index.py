"""bloom and global-bloom: filters in data file footers select the files that may have a key; their key columns decide.

The steps, Hudi's: affected partitions; their files; candidate files per key by key ranges; each file's filter asked; what it lets
through verified by reading the key columns, row groups pruned; the matches joined back to the batch. The global form looks at all
partitions, whatever the rows' own are, in every mode (Hudi searches only the incoming partitions when ranges are off, and loses
keys by it).

Filters come from the footers that lakeidx's writer leaves (`lakeidx.key_index.bloom.footer`), or from the metadata cache of the
snapshot. A file without a filter (Java wrote it, say) has its keys read.

source   org.apache.hudi.index.bloom.{HoodieBloomIndex,HoodieGlobalBloomIndex,SparkHoodieBloomIndexHelper}, release
         1.0.2

The metadata cache: filters and ranges of all live files in one compact file per snapshot, instead of one footer each.

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
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeidx.codec.containers.checksum import crc32
from lakeidx.codec.hudi.bloom import BloomFilter
from lakeidx.errors import CorruptFileError, NotFoundError, UnsupportedError
from lakeidx.format.hudi.footer import KeyFooter
from lakeidx.key_index.joined import AskedKeys, FileJoiner
from lakeidx.key_index.keys.file_ranges import file_slots
from lakeidx.key_index.keys.ranges import Candidates, find_candidates
from lakeidx.key_index.keys.sets import KeySet
from lakeidx.key_index.locate import match_file
from lakeidx.key_index.locations import Int64s, KeyBatch, KeyLocations, LiveFile, Matches
from lakeidx.key_index.metrics import IndexMetrics
from lakeidx.key_index.port import IndexContext
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join
from lakeidx.tasks.runner import LocalRunner


@dataclass(frozen=True)
class BloomKeyIndex(FileJoiner):
    """Filters first, keys after.

    cache   where filters are taken from; None: from the files' footers
    """

    is_global: bool = False
    moves_keys: bool = False
    cache: FilterCache | None = field(default=None, repr=False)

    narrows_files = True

    def threads(self, context: IndexContext) -> LocalRunner:
        """Return as many threads as Hudi's option says."""
        wanted = context.options.hoodie_bloom_index_parallelism
        return LocalRunner(wanted) if wanted else context.pool

    def tag(self, batch: KeyBatch, context: IndexContext) -> KeyLocations:
        """Locate the keys of the batch; with a metadata cache, bring that to the snapshot first.

        errors   CorruptFileError, UnsupportedError for a filter that cannot be read, if ``index.bad-filter`` says so
        """
        if not context.options.hoodie_bloom_index_use_metadata or not len(batch):
            return super().tag(batch, context)
        cache = FilterCache.load(context.view.files(None), context)
        if cache.read:
            cache.save(context)
        return super(BloomKeyIndex, replace(self, cache=cache)).tag(batch, context)

    def candidates(self, batch: KeyBatch, files: Sequence[LiveFile], context: IndexContext) -> Candidates:
        """Return the keys whose range a file's is."""
        first = KeySet(batch.codes, None if self.is_global else batch.partition).first
        distinct = np.flatnonzero(first == np.arange(len(batch)))
        orders: list[Int64s] = []
        starts, stops, base = np.zeros(len(files), np.int64), np.zeros(len(files), np.int64), 0
        prune = context.options.hoodie_bloom_index_prune_by_ranges
        for rows, numbers in self._groups(batch, distinct, files):
            found = find_candidates(file_slots(batch, rows, [files[i] for i in numbers], prune=prune))
            orders.append(rows[found.order])
            starts[numbers], stops[numbers] = found.starts + base, found.stops + base
            base += len(rows)
        return Candidates(np.concatenate([np.zeros(0, np.int64), *orders]), starts, stops)

    def check_file(self, asked: AskedKeys, file: LiveFile, context: IndexContext) -> Matches:
        """Test a file's filter, and read the keys that pass it.

        errors   CorruptFileError, UnsupportedError for a filter that cannot be read, if ``index.bad-filter`` says so
        """
        metrics, opened, bloom, rows = IndexMetrics(), None, None, asked.rows
        if rows is None:
            rows = np.flatnonzero(asked.keys.first == np.arange(len(asked.batch)))
            metrics.pairs = len(rows)
        try:
            if self.cache is None:
                opened = context.reader.open(file)
                bloom = opened.footer().bloom_filter(file.path)
            else:
                bloom = self.cache.bloom_filter(file)
            metrics.files_without_filter += bloom is None
        except (CorruptFileError, UnsupportedError):
            if context.options.index_bad_filter == "fail":
                raise
            metrics.bad_filters += 1
        rows = rows if bloom is None else _probe(bloom, asked.batch, rows, metrics)
        if not len(rows):
            return _nothing(metrics)
        found = match_file(
            file,
            asked.number,
            asked.keys,
            context,
            partition=asked.partition,
            versions=self.is_global,
            wanted=asked.batch.codes.take(rows),
            asked=rows,
            opened=opened,
        )
        if bloom is not None:
            # A data file has each key once.
            metrics.false_positives += len(rows) - len(found.key)
        found.metrics.add(metrics)
        return found

    def _groups(self, batch: KeyBatch, distinct: Int64s, files: Sequence[LiveFile]) -> list[tuple[Int64s, Int64s]]:
        """Return (positions of keys, numbers of files) to be compared with each other: all, or partition by partition."""
        if self.is_global:
            return [(distinct, np.arange(len(files)))]
        by_partition: dict[bytes, list[int]] = {}
        for i, file in enumerate(files):
            by_partition.setdefault(file.partition, []).append(i)
        order = distinct[np.argsort(batch.partition[distinct], kind="stable")]
        edges = np.searchsorted(batch.partition[order], np.arange(len(batch.partitions) + 1))
        return [
            (order[edges[p] : edges[p + 1]], np.array(by_partition[partition], np.int64))
            for p, partition in enumerate(batch.partitions)
            if partition in by_partition
        ]


def _probe(bloom: BloomFilter, batch: KeyBatch, rows: Int64s, metrics: IndexMetrics) -> Int64s:
    """Return the rows whose keys pass a filter."""
    metrics.files_probed += 1
    texts = batch.record_keys
    # Hudi has no empty keys and its filters take none: such a key is looked for in the file itself.
    maybe: npt.NDArray[np.bool_] = texts.offsets[rows] == texts.offsets[rows + 1]
    maybe[~maybe] = bloom.test(texts, rows[~maybe], batch.filter_hashes)
    kept: Int64s = rows[maybe]
    metrics.filter_hits += len(kept)
    return kept


def _nothing(metrics: IndexMetrics) -> Matches:
    none = np.zeros(0, np.int64)
    return Matches(none, none, none, none.astype(bool), metrics)


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
