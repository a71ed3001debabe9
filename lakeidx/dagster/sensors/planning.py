"""Plan of the next batches from landing files, and what a sensor has to remember. Pure: no I/O, no clock.

A file is *seen* when a batch has taken it with that size and time; the same name with other content is a new file. It *waits*
until it has not changed for the settle time, counted from the later of its own time and the moment it was first noticed, for
copies keep old times; a time in the future does not count. Of files that are gone nothing is remembered, so the memory is as large
as the folder, 8 bytes a file; a folder without any file is taken for one that is not mounted.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakeidx.errors import InvalidInputError
from lakeidx.landing.dms_files import file_order
from lakeidx.pipeline_file.sections import LandingConfig
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import name_of

#: Batches of one tick.
MAX_BATCHES = 50
#: A file that is dated further ahead has a wrong time: clocks of machines differ less.
CLOCKS_DIFFER_MS = 60_000
_MARK_BYTES = 8
_VERSION = 2


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """Files for one run, by partition: keys in the order in which their first file comes."""

    keys: tuple[str, ...]
    files: tuple[FileInfo, ...]

    @property
    def run_key(self) -> str:
        """The same for the same files with the same content, at any time and in any process."""
        content = "\n".join(f"{f.path} {f.size} {f.mtime_ms}" for f in self.files)
        return f"{self.keys[0]}+{len(self.keys) - 1}@{hashlib.sha256(content.encode()).hexdigest()[:16]}"


@dataclass(slots=True)
class LandingCursor:
    """Memory of the landing sensor.

    seen      marks of files that batches have taken
    waiting   mark -> when it was first noticed, epoch ms
    unplaced  what the check of files without a partition said last, as a digest; empty for "none"

    Of an event queue besides:
    pending   files that messages have named and no batch has taken, since no listing names them again
    receipts  messages all of whose files are seen or pending: a cursor that comes back was recorded, so they may be deleted
    listed    when the folder was listed last, epoch ms

    Of an asset that writes the files:
    materialized  its newest materialization at the last listing, as Dagster numbers its events

    What grows with the folder (seen, waiting, pending, receipts) is in a file, its *marks*; the rest in Dagster's cursor, which
    names that file (`lakeidx.dagster.sensors.marks`). Cursors of releases up to 0.2 are whole.
    """

    seen: set[bytes] = field(default_factory=set)
    waiting: dict[bytes, int] = field(default_factory=dict)
    unplaced: str = ""
    pending: list[FileInfo] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    listed: int = 0
    materialized: int | None = None

    @classmethod
    def decode(cls, text: str | None, marks: Callable[[str], bytes | None]) -> LandingCursor:
        """Read a cursor; InvalidInputError when it is not one (reset it in the UI).

        marks   reads the file of marks of a name; None when it is lost: then the folder is looked at as for the first time
        """
        if not text:
            return cls()
        try:
            data = json.loads(text)
            if data["version"] not in (1, _VERSION):
                raise InvalidInputError(f"the sensor's cursor has version {data['version']}; reset it")
            kept = data if data["version"] == 1 else marks(str(data["marks"]))
            if kept is None:
                return cls(unplaced=str(data.get("unplaced", "")))
            found = kept if isinstance(kept, dict) else json.loads(kept)
            raw = base64.b64decode(found["seen"])
            seen = {raw[i : i + _MARK_BYTES] for i in range(0, len(raw), _MARK_BYTES)}
            waiting = {bytes.fromhex(mark): int(since) for mark, since in found["waiting"].items()}
            pending = [
                FileInfo(str(p), name_of(str(p)), int(n), int(at), False) for p, n, at in found.get("pending", ())
            ]
            receipts, listed = [str(r) for r in found.get("receipts", ())], int(data.get("listed", 0))
            materialized = int(data["materialized"]) if "materialized" in data else None
            return cls(seen, waiting, str(data.get("unplaced", "")), pending, receipts, listed, materialized)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(f"the sensor's cursor cannot be read, reset it: {error}") from error

    def encode(self, marks: str) -> str:
        """Return the cursor as text; `marks` names the file of what `encode_marks` returns."""
        data: dict[str, Any] = {"version": _VERSION, "marks": marks, "unplaced": self.unplaced}
        if self.listed:
            data["listed"] = self.listed
        if self.materialized is not None:
            data["materialized"] = self.materialized
        return json.dumps(data)

    def encode_marks(self) -> bytes:
        """Return what grows with the folder, as a JSON object."""
        seen = base64.b64encode(b"".join(sorted(self.seen))).decode()
        waiting = {mark.hex(): since for mark, since in sorted(self.waiting.items())}
        data: dict[str, Any] = {"seen": seen, "waiting": waiting}
        if self.pending or self.receipts:
            data |= {"pending": [(f.path, f.size, f.mtime_ms) for f in self.pending], "receipts": self.receipts}
        return json.dumps(data).encode()

    def unknown(self, files: Sequence[FileInfo]) -> list[FileInfo]:
        """Return the files that were not noticed before."""
        marks = zip(map(_mark_of, files), files, strict=True)
        return [f for m, f in marks if m not in self.seen and m not in self.waiting]

    def having_seen(self, files: Sequence[FileInfo]) -> LandingCursor:
        """Return the same memory in which some files are seen, too."""
        return replace(self, seen=self.seen.union(map(_mark_of, files))) if files else self


def _mark_of(file: FileInfo) -> bytes:
    """Return eight bytes that identify a file's name and content."""
    return hashlib.sha256(f"{file.name}\n{file.size}\n{file.mtime_ms}".encode()).digest()[:_MARK_BYTES]


def _time_of(file: FileInfo, now_ms: int) -> int:
    """Return when a file was written; 0 for one that is dated in the future, of which only is known when it was noticed."""
    return 0 if file.mtime_ms > now_ms + CLOCKS_DIFFER_MS else file.mtime_ms


def plan_batches(
    files: Sequence[FileInfo],
    cursor: LandingCursor,
    config: LandingConfig,
    key_of: Callable[[str], str | None],
    *,
    now_ms: int,
    max_batches: int = MAX_BATCHES,
    whole: bool = True,
) -> tuple[list[PlannedBatch], LandingCursor]:
    """Return the batches that are ready, and the cursor after they were started.

    files         all landing files there are now, by name (with a success marker: those that have theirs)
    whole         False: only some of them, so what was seen stays seen
    key_of        partition of a file name, None for files that are none of the pipeline's
    max_batches   batches of one tick; what is left waits for the next
    """
    marks = {_mark_of(f): f for f in files if key_of(f.name) is not None}
    seen = {m for m in cursor.seen if m in marks} if whole and files else set(cursor.seen)
    after = LandingCursor(seen, unplaced=cursor.unplaced, listed=cursor.listed, materialized=cursor.materialized)
    fresh = {m: f for m, f in marks.items() if m not in after.seen}
    after.waiting = {m: cursor.waiting.get(m, now_ms) for m in fresh}
    # An event comes when its object is whole.
    settle_ms = 0 if config.success_marker or config.events else config.settle_seconds * 1000
    ready = [f for m, f in fresh.items() if now_ms - max(after.waiting[m], _time_of(f, now_ms)) >= settle_ms]
    batches: list[PlannedBatch] = []
    order = file_order(config.format)
    for group in _cut(sorted(ready, key=lambda f: order(f.name)), config, now_ms):
        if len(batches) == max_batches:
            break
        keys = dict.fromkeys(k for k in (key_of(f.name) for f in group) if k is not None)
        batches.append(PlannedBatch(tuple(keys), tuple(group)))
        for file in group:
            mark = _mark_of(file)
            after.seen.add(mark)
            after.waiting.pop(mark, None)
    if config.events is not None:
        after.pending = [f for m, f in fresh.items() if m in after.waiting]
    return batches, after


def _cut(files: Iterable[FileInfo], config: LandingConfig, now_ms: int) -> list[list[FileInfo]]:
    """Group files; the last group may still be open and is kept back unless it is old enough, or no age is requested."""
    limits = config.batching
    groups: list[list[FileInfo]] = []
    group: list[FileInfo] = []
    size = 0
    for file in files:
        if group and limits.max_bytes is not None and size + file.size > limits.max_bytes:
            groups.append(group)
            group, size = [], 0
        group.append(file)
        size += file.size
        if len(group) >= limits.max_files or (limits.max_bytes is not None and size >= limits.max_bytes):
            groups.append(group)
            group, size = [], 0
    if group and (
        limits.max_age_seconds is None
        or now_ms - min(_time_of(f, now_ms) for f in group) >= limits.max_age_seconds * 1000
    ):
        groups.append(group)
    return groups
