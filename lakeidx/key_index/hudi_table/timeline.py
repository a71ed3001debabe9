"""Reading a Hudi table's properties, timeline and latest base files (timeline layouts 1 and 2, copy-on-write).

=========  ================================  ============================================
state      file name, layout 1 (`.hoodie/`)  file name, layout 2 (`.hoodie/timeline/`)
=========  ================================  ============================================
requested  <t>.<action>.requested            the same
inflight   <t>.<action>.inflight             the same (``commit``: just <t>.inflight)
completed  <t>.<action>                      <t>_<completion time>.<action>
=========  ================================  ============================================

Base files are named ``<file id>_<write token>_<t>.parquet`` with t the requested time in both layouts. A file counts
when its instant is completed, or older than every write instant the active timeline still has (archived instants are
completed ones). Hudi starts "older" at its completed instants; here inflight ones are examined, too, so that files
of a table's very first, unfinished commit are not taken for committed.

source   org.apache.hudi.common.table.timeline.{HoodieInstant,versioning.v1,versioning.v2},
         org.apache.hudi.common.table.view.AbstractTableFileSystemView, release 1.0.2

Java's ``.properties`` text: latin-1, ``\\`` escapes, ``=``, ``:`` or space between key and value, ``\\`` at line end continues.

source   java.util.Properties#load
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from lakeidx.codec.containers.avro import MAGIC as AVRO_MAGIC
from lakeidx.codec.containers.avro import decode_container
from lakeidx.codec.containers.checksum import crc32
from lakeidx.errors import CorruptFileError, NotFoundError, UnsupportedError
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.files import join, plain_name

_META_DIR = ".hoodie"
_NEWEST_TABLE_VERSION = 9
_PARTITION_MARKER = ".hoodie_partition_metadata"
_EXTERNAL = "_hudiext"
_INSTANT = re.compile(r"^(\d+)(?:_(\d+))?((?:\.\w+)+)$")
_BASE_FILE = re.compile(r"^([a-zA-Z0-9-]+)_([a-zA-Z0-9-]+)_(\d+)\.([a-zA-Z0-9]+)$")
# What a pending instant of these actions completes as.
_COMPLETES_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
_WRITES = frozenset({"commit", "deltacommit", "replacecommit"})


class InstantState(IntEnum):
    """States of an instant; the highest that has a file counts."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


@dataclass(frozen=True, slots=True)
class Instant:
    """One action of the timeline.

    time         requested time as written, compared as text
    action       under the name it completes as (compaction -> commit, clustering -> replacecommit)
    file_name    the file of its highest state
    """

    time: str
    action: str
    state: InstantState
    file_name: str


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One base file of a file group.

    partition   path of the partition below the table, "" when the table has none
    path        full path
    """

    partition: str
    file_id: str
    instant: str
    write_token: str
    name: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class HudiTable:
    """A table's properties, and the place of its timeline."""

    path: str
    properties: Mapping[str, str]
    timeline_dir: str
    version: int

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """Columns the record key is made of."""
        text = self.properties.get("hoodie.table.recordkey.fields", "")
        return tuple(f.strip() for f in text.split(",") if f.strip())

    @property
    def has_meta_columns(self) -> bool:
        """False when rows carry no ``_hoodie_*`` columns; then footers have no key index, either."""
        return self.properties.get("hoodie.populate.meta.fields", "true").lower() == "true"


def open_hudi_table(store: ObjectStore, path: str) -> HudiTable:
    """Read a table's properties.

    errors   NotFoundError when there is no Hudi table; UnsupportedError for a merge-on-read table, base files that
             are not Parquet, or a table version above 9
    """
    file = join(path, _META_DIR, "hoodie.properties")
    try:
        data = store.get(file)
    except NotFoundError as error:
        raise NotFoundError("there is no Hudi table: .hoodie/hoodie.properties is missing", path=path) from error
    properties = _checked(data, file)
    kind = properties.get("hoodie.table.type", "COPY_ON_WRITE")
    if kind != "COPY_ON_WRITE":
        raise UnsupportedError(f"a {kind} table has rows in log files, which are not read", path=path)
    base_format = properties.get("hoodie.table.base.file.format", "PARQUET")
    if base_format.upper() != "PARQUET":
        raise UnsupportedError(f"base files are {base_format}, only PARQUET is read", path=path)
    version = _number(properties.get("hoodie.table.version", "0"), file)
    if version > _NEWEST_TABLE_VERSION:
        raise UnsupportedError(f"table version {version} is newer than {_NEWEST_TABLE_VERSION}", path=path)
    default_layout = "2" if version >= 8 else "1"
    layout = _number(properties.get("hoodie.timeline.layout.version", default_layout), file)
    timeline = join(path, _META_DIR)
    if layout >= 2:
        folder = properties.get("hoodie.timeline.path", "timeline")
        try:
            plain_name(folder)
        except ValueError as error:
            raise CorruptFileError(f"hoodie.timeline.path: {error}", path=file) from error
        timeline = join(timeline, folder)
    return HudiTable(path.rstrip("/"), properties, timeline, version)


def _checked(data: bytes, path: str) -> dict[str, str]:
    """Parse a table's properties; the checksum in them is that of the table's name, as Hudi 0.11 and later write it."""
    properties = parse_properties(data, path)
    if not data.endswith(b"\n"):
        raise CorruptFileError("the last line does not end: the file was cut", path=path, offset=len(data))
    name = properties.get("hoodie.table.name")
    if name is None:
        raise CorruptFileError("the properties have no hoodie.table.name", path=path)
    told = properties.get("hoodie.table.checksum")
    found = crc32(f"{properties.get('hoodie.database.name', '')}.{name}".encode())
    if told is not None and told != str(found):
        raise CorruptFileError(
            f"the checksum of the table's name is {found}, hoodie.table.checksum says {told}", path=path
        )
    if told is not None and "hoodie.table.version" not in properties:
        raise CorruptFileError("the properties have no hoodie.table.version", path=path)
    return properties


def _number(text: str, path: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise CorruptFileError(f"{text!r} is not a number", path=path) from error


def read_timeline(store: ObjectStore, table: HudiTable) -> list[Instant]:
    """Read the active timeline, one entry per instant in its highest state, by time."""
    found: dict[tuple[str, str], Instant] = {}
    for info in store.list(table.timeline_dir):
        instant = None if info.is_dir else parse_instant(info.name)
        if instant is None:
            continue
        key = (instant.time, instant.action)
        if key not in found or found[key].state < instant.state:
            found[key] = instant
    return sorted(found.values(), key=lambda i: (i.time, i.action))


def parse_instant(name: str) -> Instant | None:
    """Parse an instant from its file name, None for files that are none."""
    match = _INSTANT.match(name)
    if match is None:
        return None
    time, completion, rest = match.groups()
    words = rest[1:].split(".")
    states = {"requested": InstantState.REQUESTED, "inflight": InstantState.INFLIGHT}
    if words[-1] in states and completion is None:
        state = states[words.pop()]
        # Only a commit's inflight file leaves its action out.
        action = words[0] if words else "commit"
    else:
        state, action = InstantState.COMPLETED, words[0]
    if len(words) > 1:
        return None
    return Instant(time, _COMPLETES_AS.get(action, action), state, name)


def latest_base_files(store: ObjectStore, table: HudiTable) -> list[BaseFile]:
    """Find the base file of every file group that the last completed instant shows, by partition and file id."""
    instants = [i for i in read_timeline(store, table) if i.action in _WRITES]
    completed = {i.time: i for i in instants if i.state is InstantState.COMPLETED}
    if not completed:
        return []
    last, start = max(completed), min(i.time for i in instants)
    replaced = _replaced_groups(store, table, completed.values())
    best: dict[tuple[str, str], list[BaseFile]] = {}
    for file in _list_base_files(store, table):
        if file.instant > last or not (file.instant in completed or file.instant < start):
            continue
        group = (file.partition, file.file_id)
        if group in replaced:
            continue
        held = best.setdefault(group, [])
        if held and held[0].instant < file.instant:
            held.clear()
        if not held or held[0].instant == file.instant:
            held.append(file)
    return [_of_one_attempt(store, table, completed, best[group]) for group in sorted(best)]


def _list_base_files(store: ObjectStore, table: HudiTable) -> list[BaseFile]:
    """List all base files in directories that are marked as partitions, whatever their instant."""
    root = table.path + "/"
    partitions: set[str] = set()
    files: list[tuple[str, FileInfo]] = []
    for info in store.walk(table.path):
        directory, _, name = info.path.removeprefix(root).rpartition("/")
        if directory.split("/")[0] == _META_DIR:
            continue
        if name in (_PARTITION_MARKER, _PARTITION_MARKER + ".parquet", _PARTITION_MARKER + ".orc"):
            partitions.add(directory)
        elif not name.startswith("."):
            files.append((directory, info))
    found = (_parse_base_file(directory, info) for directory, info in files if directory in partitions)
    return [f for f in found if f is not None]


def _parse_base_file(partition: str, info: FileInfo) -> BaseFile | None:
    """Parse a base file from its name, None for other files."""
    if info.name.endswith(_EXTERNAL):
        original, _, instant = info.name.removesuffix(_EXTERNAL).rpartition("_")
        return BaseFile(partition, original, instant, "", info.name, info.path, info.size) if original else None
    match = _BASE_FILE.match(info.name)
    if match is None or match[4] != "parquet":
        return None
    return BaseFile(partition, match[1], match[3], match[2], info.name, info.path, info.size)


def _replaced_groups(store: ObjectStore, table: HudiTable, completed: Iterable[Instant]) -> set[tuple[str, str]]:
    out: set[tuple[str, str]] = set()
    for instant in completed:
        if instant.action == "replacecommit":
            groups = _metadata(store, table, instant).get("partitionToReplaceFileIds") or {}
            out.update((partition, file_id) for partition, ids in groups.items() for file_id in ids)
    return out


def _of_one_attempt(
    store: ObjectStore, table: HudiTable, completed: Mapping[str, Instant], files: list[BaseFile]
) -> BaseFile:
    """Return the committed one of several files that retries of a task left."""
    if len(files) > 1 and files[0].instant in completed:
        stats = _metadata(store, table, completed[files[0].instant]).get("partitionToWriteStats") or {}
        listed = {s.get("path", "").rpartition("/")[2] for part in stats.values() for s in part}
        files = [f for f in files if f.name in listed] or files
    return max(files, key=lambda f: f.write_token)


def _metadata(store: ObjectStore, table: HudiTable, instant: Instant) -> dict[str, Any]:
    """Decode the content of a completed instant: Avro in layout 2, JSON in layout 1 and in tables that were upgraded."""
    path = join(table.timeline_dir, instant.file_name)
    data = store.get(path)
    if not data:
        return {}
    if data.startswith(AVRO_MAGIC):
        records = decode_container(data, path)
        return records[0] if records else {}
    try:
        found = json.loads(data)
    except ValueError as error:
        raise CorruptFileError(f"the instant's content is neither Avro nor JSON: {error}", path=path) from error
    if not isinstance(found, dict):
        raise CorruptFileError("the instant's content is not a record", path=path)
    return found


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANK = " \t\f"
_LINE = re.compile(r"\r\n|\r|\n")
#: Up to the first separator that no backslash stands before.
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*")


def parse_properties(data: bytes, path: str | None = None) -> dict[str, str]:
    """Read a properties file; a later value of a key wins.

    errors   CorruptFileError for a malformed ``\\uxxxx`` escape
    """
    out: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key = _KEY.match(line)[0]  # type: ignore[index]
        value = line[len(key) :].lstrip(_BLANK)
        if value[:1] in ("=", ":"):
            value = value[1:].lstrip(_BLANK)
        out[_unescape(key, path)] = _unescape(value, path)
    return out


def _logical_lines(text: str) -> list[str]:
    out: list[str] = []
    going_on = False
    for raw in _LINE.split(text):
        line = raw.lstrip(_BLANK)
        if not going_on and (not line or line[0] in "#!"):
            continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if continues:
            line = line[:-1]
        if going_on:
            out[-1] += line
        else:
            out.append(line)
        going_on = continues
    return out


def _unescape(text: str, path: str | None) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        if text[at] != "\\" or at + 1 == len(text):
            out.append(text[at])
            at += 1
            continue
        code = text[at + 1]
        if code == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise CorruptFileError(f"\\u{digits} is not a character escape", path=path)
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(code, code))
            at += 2
    # Two escapes may make one astral character.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
