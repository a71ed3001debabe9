"""Lookup files that are stored: all of a table, and those that Java has put beside data files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from lakeidx.format.data_file import DataFileMeta
from lakeidx.format.file_names import NameKind, parse_file_name
from lakeidx.format.lookup.hash_store import CONTEXT_SUFFIX
from lakeidx.format.manifest import ManifestEntry
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.lookup.listing import LISTING_NAME, LookupPlaces, StoredLookup, read_listing
from lakeidx.lookup.store import StoreType
from lakeidx.lookup.value_rows import Processor
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import join, parent_of
from lakeidx.table.metadata import TableMetadata
from lakeidx.table.view import decode_partition_dict
from lakeidx.tasks.in_parallel import in_parallel, parallel_walk

_BESIDE = re.compile(r"(?P<data>.+)\.(?P<size>\d+)\.(?P<processor>[a-z-]+)\.v1\.lookup")


def lookup_file_beside(file: DataFileMeta, path: str, newest_schema: int) -> StoredLookup | None:
    """Return the lookup file that Java has put beside a data file (``lookup.remote-file.enabled``); None without a usable one.

    path            of the data file
    newest_schema   id of the table's newest schema: rows in values are of the schema that Java's writer had, which is known only
                    where the data file is of the newest one
    source          org.apache.paimon.mergetree.lookup.RemoteLookupFileManager, release 1.4.2
    """
    for name in file.extra_files:
        found = _BESIDE.fullmatch(name)
        if found is None or found["data"] != file.file_name or found["processor"] not in set(Processor):
            continue
        processor = Processor(found["processor"])
        if processor.has_rows and file.schema_id != newest_schema:
            continue
        return StoredLookup(
            data_file=file.file_name,
            path=join(parent_of(path), name),
            schema_id=file.schema_id,
            processor=processor,
            store_type=StoreType.SORT,
            size=int(found["size"]),
            entries=file.row_count,
            checksum=None,
        )
    return None


#: Partition bytes and bucket.
Place = tuple[bytes, int]


@dataclass(slots=True)
class _Bucket:
    """The names in one bucket's directory of lookup files.

    files     lookup files by name of the data file; there may be two, made by other options
    names     all names
    """

    listing: FileInfo | None = None
    files: dict[str, list[FileInfo]] = field(default_factory=dict)
    names: dict[str, FileInfo] = field(default_factory=dict)

    def names_suffice(self) -> bool:
        """Return True when names determine the listing: it was written last, and no data file has two lookup files."""
        if self.listing is None:
            return False
        newest = self.listing.mtime_ms
        return all(
            len(found) == 1 and found[0].mtime_ms <= newest and found[0].size == _size_in(found[0].name)
            for found in self.files.values()
        )


class StoredFiles:
    """The lookup files of a table, as stored.

    found   all files below the lookup directory
    """

    def __init__(self, metadata: TableMetadata, schema: TableSchema) -> None:
        self._store, self._schema = metadata.store, schema
        self.places = LookupPlaces(metadata.paths)
        self.found = parallel_walk(metadata.store, self.places.root)
        self._buckets: dict[str, _Bucket] = {}
        for file in self.found:
            folder = file.path[len(self.places.root) + 1 :].rpartition("/")[0]
            bucket = self._buckets.setdefault(folder, _Bucket())
            bucket.names[file.name] = file
            if file.name == LISTING_NAME:
                bucket.listing = file
            elif (name := parse_file_name(file.name)).kind is NameKind.LOOKUP and name.label is not None:
                bucket.files.setdefault(name.label, []).append(file)

    def folder(self, place: Place) -> str:
        """Return the directory of a bucket's lookup files, below the lookup directory."""
        partition = decode_partition_dict(place[0], self._schema)
        return self.places.bucket_dir(partition, place[1])

    def serving(self, live: Iterable[ManifestEntry], processor: Processor, store_type: StoreType) -> set[str]:
        """Return the names of the data files that have a listed lookup file of that kind.

        errors   CorruptFileError for a damaged listing
        """
        by_place: dict[Place, list[str]] = {}
        for entry in live:
            by_place.setdefault((entry.partition, entry.bucket), []).append(entry.file.file_name)
        folders = {place: self.folder(place) for place in by_place}
        known = {place: self._buckets[f] for place, f in folders.items() if f in self._buckets}
        doubtful = [place for place, bucket in known.items() if not bucket.names_suffice()]
        read = in_parallel(lambda p: read_listing(self._store, self.listing(folders[p])), doubtful)
        listed = dict(zip(doubtful, read, strict=True))
        out: set[str] = set()
        for place, bucket in known.items():
            for name in by_place[place]:
                if place in listed:
                    stored = listed[place].get(name)
                    serves = stored is not None and self._is_there(stored, bucket, processor, store_type)
                else:
                    serves = name in bucket.files and _is_named(
                        bucket, bucket.files[name][0].name, processor, store_type
                    )
                if serves:
                    out.add(name)
        return out

    def listing(self, folder: str) -> str:
        """Return the path of the listing in a bucket's directory."""
        return self.places.full(f"{folder}/{LISTING_NAME}")

    def has(self, folder: str, data_file: str) -> bool:
        """Return True when a data file had a lookup file of any kind."""
        bucket = self._buckets.get(folder)
        return bucket is not None and data_file in bucket.files

    def _is_there(self, stored: StoredLookup, bucket: _Bucket, processor: Processor, store_type: StoreType) -> bool:
        """Return True for a listed file of that kind that exists with the listed size: others may have been removed."""
        if stored.processor != processor or stored.store_type != store_type:
            return False
        info = bucket.names.get(stored.path.rpartition("/")[2])
        sides = all(s.rpartition("/")[2] in bucket.names for s in stored.side_files)
        return info is not None and info.size == stored.size and sides


def _is_named(bucket: _Bucket, name: str, processor: Processor, store_type: StoreType) -> bool:
    """Return True when a lookup file's name, and whether it has a context, match that kind."""
    has_context = f"{name}{CONTEXT_SUFFIX}" in bucket.names
    return name.split(".")[-3] == processor and has_context == (store_type is StoreType.HASH)


def _size_in(name: str) -> int:
    return int(name.split(".")[-4])
