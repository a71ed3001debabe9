"""Paths of lookup files, and listings of the data files they belong to: one per bucket, so that a reader loads those of its
buckets.

Inside the table's directory, in a tree of their own that has the shape of the table's::

    <table>/lookup/<partition>/bucket-<n>/listing.json
    <table>/lookup/<partition>/bucket-<n>/<data file>.<size>.<processor>.v1.lookup      Paimon's name of a remote lookup file
    <table>/lookup/<partition>/bucket-<n>/<data file>.<size>.<processor>.v1.lookup.context   (hash stores)

Not beside the data files: Paimon's orphan cleaning removes what it does not know from bucket directories, but enters no
directory called ``lookup``. Ours knows the names: a lookup file belongs to its data file and goes with it. A listing refers to data
files by name, which is never used twice; so it is right for every snapshot and branch, only perhaps incomplete.

Listings are JSON: ``{"version": 2, "files": [{...}]}``, written whole, after the files that they name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lakeidx.codec.containers.checksum import seal, unseal
from lakeidx.errors import CorruptFileError, InvalidInputError, NotFoundError
from lakeidx.format.paths import TablePaths
from lakeidx.lookup.store import StoreType, parse_store_type
from lakeidx.lookup.value_rows import Processor
from lakeidx.storage.base import ObjectStore
from lakeidx.storage.files import join, plain_name

_LOOKUP_DIR = "lookup"
_VERSION = 2
LISTING_NAME = "listing.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLookup:
    """A lookup file in the table's store.

    data_file    name of the data file it was made of
    path         below the lookup directory, `side_files` the same; a whole path for a file that Java has put beside the data file
    schema_id    schema of the rows in its values
    size, entries, checksum   see `lookup.store.LookupFile`; a file of Java has no checksum
    """

    data_file: str
    path: str
    schema_id: int
    processor: Processor
    store_type: StoreType
    size: int
    entries: int
    checksum: int | None
    side_files: tuple[str, ...] = ()


class LookupPlaces:
    """Names of one table's lookup files and listings."""

    def __init__(self, paths: TablePaths) -> None:
        self._paths = paths
        self.root = join(paths.root, _LOOKUP_DIR)

    def bucket_dir(self, partition: Mapping[str, Any], bucket: int) -> str:
        """Return the directory of a bucket's lookup files, below `root`."""
        return self._paths.bucket_dir(partition, bucket)[len(self._paths.root.rstrip("/")) + 1 :]

    def listing(self, partition: Mapping[str, Any], bucket: int) -> str:
        """Return the path of a bucket's listing."""
        return join(self.root, self.bucket_dir(partition, bucket), LISTING_NAME)

    def full(self, relative: str) -> str:
        """Return the whole path of a lookup file; one that is whole stays as it is."""
        return relative if relative.startswith("/") or "://" in relative else join(self.root, relative)


def encode_listing(files: Mapping[str, StoredLookup]) -> bytes:
    """Encode a listing as JSON.

    files   by name of the data file
    """
    rows = [asdict(f) for _, f in sorted(files.items())]
    return seal(json.dumps({"version": _VERSION, "files": rows}, indent=1).encode())


def decode_listing(data: bytes, path: str | None = None) -> dict[str, StoredLookup]:
    """Decode a listing: lookup files by name of their data file.

    errors   CorruptFileError for anything else
    """
    try:
        raw = json.loads(unseal(data, path))
        if raw["version"] != _VERSION:
            raise CorruptFileError(f"a lookup listing of version {raw['version']}", path=path)
        files = [_stored(f) for f in raw["files"]]
        return {f.data_file: f for f in files}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, InvalidInputError) as error:
        raise CorruptFileError(f"not a lookup listing: {error}", path=path) from error


def _stored(raw: Mapping[str, Any]) -> StoredLookup:
    # Paths stay inside the lookup directory whatever a listing says.
    names = [str(raw["path"]), *map(str, raw["side_files"])]
    for part in (p for n in names for p in n.split("/")):
        plain_name(part)
    return StoredLookup(
        data_file=str(raw["data_file"]),
        path=names[0],
        schema_id=int(raw["schema_id"]),
        processor=Processor(raw["processor"]),
        store_type=parse_store_type(str(raw["store_type"])),
        size=int(raw["size"]),
        entries=int(raw["entries"]),
        checksum=int(raw["checksum"]),
        side_files=tuple(names[1:]),
    )


def read_listing(store: ObjectStore, path: str) -> dict[str, StoredLookup]:
    """Load the listing of a bucket; empty without one."""
    try:
        return decode_listing(store.get(path), path)
    except NotFoundError:
        return {}


def write_listing(store: ObjectStore, path: str, files: Mapping[str, StoredLookup]) -> None:
    """Write the listing of a bucket."""
    store.put(path, encode_listing(files))
