"""Names of files in a table directory: drawing new ones, and telling what a name is.

====================================  =========================================================
directory                             names
====================================  =========================================================
schema                                ``schema-<id>`` (id from 0)
snapshot                              ``snapshot-<id>`` (from 1), ``LATEST``, ``EARLIEST``
changelog                             ``changelog-<id>``, ``LATEST``, ``EARLIEST``
manifest                              ``manifest-<uuid>-<n>``, ``manifest-list-<uuid>-<n>``,
                                      ``index-manifest-<uuid>-<n>``
index                                 ``index-<uuid>-<n>``, of which lakeidx makes the UUID of a HASH file end
                                      with the CRC-32 of its content
statistics                            ``stat-<uuid>-<n>``
tag, consumer                         ``tag-<name>``, ``consumer-<name>``
bucket-<n>, bucket-postpone           ``<prefix><uuid>-<n>.<format>``; beside it ``<name>.index`` and
                                      ``<name>.<size>.<processor>.v1.lookup``
anywhere                              ``.<name>.<uuid>.tmp``: a write that did not finish
====================================  =========================================================

source   org.apache.paimon.utils.FileStorePathFactory, org.apache.paimon.io.DataFilePathFactory, release 1.4.2
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

LATEST = "LATEST"
EARLIEST = "EARLIEST"
_EXTENSIONS = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst"}
_TEXT_FORMATS = frozenset({"csv", "json"})


class NameKind(StrEnum):
    """Kind of a file by its name."""

    SCHEMA = "schema"
    SNAPSHOT = "snapshot"
    CHANGELOG = "changelog"
    HINT = "hint"
    TAG = "tag"
    CONSUMER = "consumer"
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest list"
    INDEX_MANIFEST = "index manifest"
    INDEX = "index"
    STATISTICS = "statistics"
    DATA = "data"
    FILE_INDEX = "file index"
    LOOKUP = "lookup"
    TEMP = "temp"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FileName:
    """A file name, taken apart.

    number   id of schema, snapshot and changelog files; counter of those named by a UUID
    label    tag and consumer name; for temp files the name that was meant; for companions the data file's name; for
             data files the prefix
    """

    kind: NameKind
    number: int | None = None
    uuid: str | None = None
    label: str | None = None


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
#: Version and first digits of a UUID that ends with a checksum. Version 8 is for one's own use (RFC 9562); Java draws version 4.
_CHECKED = "81d8"
_CHECKED_NAME = re.compile(rf"index-[0-9a-f-]{{14}}{_CHECKED}[0-9a-f-]{{10}}(?P<crc>[0-9a-f]{{8}})-[0-9]+")
_TEMP = re.compile(rf"\.(?P<label>.+)\.{_UUID}\.tmp", re.DOTALL)
_NUMBERED = {
    "schema": re.compile(r"schema-(0|[1-9][0-9]{0,18})", re.ASCII),
    "snapshot": re.compile(r"snapshot-(0|[1-9][0-9]{0,18})", re.ASCII),
    "changelog": re.compile(r"changelog-(0|[1-9][0-9]{0,18})", re.ASCII),
}
_BY_UUID = re.compile(
    rf"(?P<kind>manifest-list|index-manifest|manifest|index|stat)-(?P<uuid>{_UUID})-(?P<n>\d+)", re.ASCII
)
_DATA = re.compile(rf"(?P<prefix>.*?)(?P<uuid>{_UUID})-(?P<n>\d+)\.(?P<rest>.+)", re.ASCII | re.DOTALL)
_LOOKUP = re.compile(r"(?P<data>.+)\.\d+\.[^.]+\.v\d+\.lookup", re.DOTALL)
_UUID_KINDS = {
    "manifest": NameKind.MANIFEST,
    "manifest-list": NameKind.MANIFEST_LIST,
    "index-manifest": NameKind.INDEX_MANIFEST,
    "index": NameKind.INDEX,
    "stat": NameKind.STATISTICS,
}


def parse_file_name(name: str) -> FileName:
    """Classify a file in a table directory by its last path part alone; kind OTHER when it is not one of the table's."""
    if m := _TEMP.fullmatch(name):
        return FileName(NameKind.TEMP, label=m["label"])
    if name in (LATEST, EARLIEST):
        return FileName(NameKind.HINT, label=name)
    for kind, pattern in _NUMBERED.items():
        if m := pattern.fullmatch(name):
            return FileName(NameKind(kind), int(m[1]))
    if m := _BY_UUID.fullmatch(name):
        return FileName(_UUID_KINDS[m["kind"]], int(m["n"]), m["uuid"])
    for prefix, kind in (("tag-", NameKind.TAG), ("consumer-", NameKind.CONSUMER)):
        if name.startswith(prefix) and len(name) > len(prefix):
            return FileName(kind, label=name[len(prefix) :])
    if m := _LOOKUP.fullmatch(name):
        return FileName(NameKind.LOOKUP, label=m["data"])
    if m := _DATA.fullmatch(name):
        if m["rest"].endswith(".index"):
            return FileName(NameKind.FILE_INDEX, int(m["n"]), m["uuid"], name.removesuffix(".index"))
        return FileName(NameKind.DATA, int(m["n"]), m["uuid"], m["prefix"])
    return FileName(NameKind.OTHER)


def checksum_in(name: str) -> int | None:
    """Return the CRC-32 that the name of an index file says its content has; None for names of other writers."""
    m = _CHECKED_NAME.fullmatch(name)
    return None if m is None else int(m["crc"], 16)


def numbered(name: str, kind: str) -> int | None:
    """Parse the id of ``schema-<id>``, ``snapshot-<id>`` or ``changelog-<id>``; None for any other name (temp files, hints)."""
    m = _NUMBERED[kind].fullmatch(name)
    return None if m is None else int(m[1])


def lookup_name(data_file_name: str, size: int, processor: str) -> str:
    """Name the remote lookup file of a data file, beside it."""
    return f"{data_file_name}.{size}.{processor}.v1.lookup"


class NewFileNames:
    """Fresh names of one writer or one commit: one UUID, and for each kind of file a counter from 0.

    Safe to share between threads. Data and changelog files share a counter, as in Paimon's writers; a writer of one
    (partition, bucket) has its own `NewFileNames`.
    """

    def __init__(self, uuid: str | None = None) -> None:
        self.uuid = uuid or str(uuid4())
        self._manifests = itertools.count()
        self._lists = itertools.count()
        self._index_manifests = itertools.count()
        self._indexes = itertools.count()
        self._data = itertools.count()

    def manifest_name(self) -> str:
        """Draw ``manifest-<uuid>-<n>``."""
        return f"manifest-{self.uuid}-{next(self._manifests)}"

    def manifest_list_name(self) -> str:
        """Draw ``manifest-list-<uuid>-<n>``."""
        return f"manifest-list-{self.uuid}-{next(self._lists)}"

    def index_manifest_name(self) -> str:
        """Draw ``index-manifest-<uuid>-<n>``."""
        return f"index-manifest-{self.uuid}-{next(self._index_manifests)}"

    def index_name(self, checksum: int | None = None) -> str:
        """Draw ``index-<uuid>-<n>``.

        checksum   CRC-32 of the file, which `checksum_in` finds in the name again, also when Java has written the manifest anew
        """
        uuid = self.uuid if checksum is None else f"{self.uuid[:14]}{_CHECKED}{self.uuid[18:28]}{checksum:08x}"
        return f"index-{uuid}-{next(self._indexes)}"

    def data_file(self, extension: str = "parquet", *, prefix: str = "data-") -> str:
        """Return ``<prefix><uuid>-<n>.<extension>``; also for changelog files, with their prefix.

        extension   see `data_file_extension`
        """
        return f"{prefix}{self.uuid}-{next(self._data)}.{extension}"


def data_file_extension(file_format: str, compression: str | None = None) -> str:
    """Return what follows the counter in a data file's name.

    compression   named when option ``file.suffix.include.compression`` is set, else None
    returns       ``parquet``; ``zst.parquet``; text formats the other way round: ``csv.gz``
    """
    if compression is None or compression.lower() == "none":
        return file_format
    short = _EXTENSIONS.get(compression.lower(), compression)
    return f"{file_format}.{short}" if file_format in _TEXT_FORMATS else f"{short}.{file_format}"
