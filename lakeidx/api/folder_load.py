"""Load of a folder: each file goes into the table once, as a batch of its own, without anything that remembers it elsewhere.

What was loaded is written down beside the table's staging, where pipelines note it, too. A batch has its name from the file's name,
size and time, so two loads at once run the same batches, and each is committed once. A load that dies is finished by the next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any

from lakeidx.errors import (
    CorruptFileError,
    InvalidInputError,
    LakeIdxError,
    NotFoundError,
    RejectedRowsError,
    UnsupportedError,
)
from lakeidx.options.arguments import PathLike, path_text
from lakeidx.results import Result

if TYPE_CHECKING:
    from lakeidx.api.table import Table
    from lakeidx.batch.artifacts import SourceFile
    from lakeidx.landing.types import LandingOptions
    from lakeidx.options.limits import GivenLimits
    from lakeidx.storage.base import FileInfo, ObjectStore
    from lakeidx.tasks.runner import RunnerLike

log = logging.getLogger(__name__)

#: A file that changed this many seconds ago may still be written.
SETTLE_SECONDS = 2.0
#: Errors that may be the file's own; after others nothing more is tried.
_OF_A_FILE = (InvalidInputError, RejectedRowsError, CorruptFileError, NotFoundError, UnsupportedError)
#: Names of skipped files that are shown.
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """Outcome of a file of the folder.

    state   loaded, skipped or failed
    reason  why it was skipped, or failed
    batch, snapshots, rows, rejected, rejected_path   of the batch that loaded it
    """

    file: str
    state: str
    reason: str = ""
    batch: str | None = None
    snapshots: tuple[int, ...] = ()
    rows: int = 0
    rejected: int = 0
    rejected_path: str | None = None

    def __str__(self) -> str:
        if self.state != "loaded":
            return f"{self.state} {self.file}: {self.reason}"
        at = f", snapshot {self.snapshots[-1]}" if self.snapshots else ""
        bad = f", {self.rejected:,} rejected (all in {self.rejected_path})" if self.rejected else ""
        return f"loaded {self.file}: {self.rows:,} rows{at}{bad}"


@dataclass(frozen=True, slots=True, repr=False)
class LoadResult(Result):
    """Result of a load: every file of the folder, by name."""

    folder: str
    files: tuple[LoadedFile, ...] = field(default=())

    def of_state(self, state: str) -> tuple[LoadedFile, ...]:
        """Return the files that were loaded, skipped or failed."""
        return tuple(f for f in self.files if f.state == state)

    @property
    def rows(self) -> int:
        """Rows of the files that were loaded, rejected ones among them."""
        return sum(f.rows for f in self.files)

    @property
    def complete(self) -> bool:
        """True when no file failed."""
        return not self.of_state("failed")

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, and what became of each file."""
        counts = {state: len(self.of_state(state)) for state in ("loaded", "skipped", "failed")}
        return {"folder": self.folder, **counts, "rows": self.rows, "files": [asdict(f) for f in self.files]}

    def note(self) -> str:
        """Return the outcome in one sentence."""
        if not self.files:
            return f"there are no files in {self.folder}"
        done, failed = (_files(self.of_state(state)) for state in ("loaded", "failed"))
        said = f"{done} loaded, {self.rows:,} rows" if done else "no new file"
        return f"{self.folder}: {said}" + (f"; {failed} failed" if failed else "")

    def __str__(self) -> str:
        loaded, failed = map(self.of_state, ("loaded", "failed"))
        lines = [str(f) for f in (*loaded, *failed)]
        skipped = self.of_state("skipped")
        for reason in dict.fromkeys(f.reason for f in skipped):
            alike = [f for f in skipped if f.reason == reason]
            names = ", ".join(f.file for f in alike[:_SHOWN]) + (", ..." if len(alike) > _SHOWN else "")
            lines.append(f"skipped {_files(alike)}, {reason}: {names}")
        return "\n".join([*lines, self.note()])


def load_folder(
    table: Table,
    folder: PathLike,
    options: LandingOptions | None = None,
    *,
    pattern: str = "*",
    settle_seconds: float = SETTLE_SECONDS,
    strict: bool = False,
    max_rejected: str | int | None = None,
    limits: GivenLimits | None = None,
    runner: RunnerLike = None,
    progress: Callable[[int, int], None] | None = None,
) -> LoadResult:
    """Load the files of a folder that the table does not have yet, by name, each as one batch; those of folders in it are left.

    A file is known by its name, size and time, and by its content where that is cheap to tell: one that was only touched is
    not loaded again, one that was written anew is. After a rollback files whose rows it took are loaded again. Two loads at
    once load each file once. A file that cannot be loaded is reported, and the others are loaded.
    folder          local, or any URL that fsspec reads; `options` may have options of its store
    pattern         glob that names match, ``*.csv``
    settle_seconds  a file on a disk that changed in the last seconds may still be written: it is waited for once, and
                    skipped when it has changed meanwhile. Objects of stores are whole when they are there
    strict, max_rejected, limits, runner   as for `upsert_files`, for each file
    progress        called with the files that are done, and all that are new
    errors          NotFoundError for a folder that does not exist; UnavailableError and others that are no file's own
    """
    load = _FolderLoad(table, folder, options, pattern, settle_seconds)
    return load.run(strict=strict, max_rejected=max_rejected, limits=limits, runner=runner, progress=progress)


def watch_folder(
    table: Table,
    folder: PathLike,
    options: LandingOptions | None = None,
    *,
    pattern: str = "*",
    settle_seconds: float = SETTLE_SECONDS,
    every: float = 15.0,
    stop: Event | None = None,
    strict: bool = False,
    max_rejected: str | int | None = None,
    limits: GivenLimits | None = None,
    runner: RunnerLike = None,
) -> Iterator[LoadResult]:
    """Load a folder again and again: yield what each look has found new, at the first one all files.

    A file that failed is tried again when it changes, or by the next program.
    every   seconds between two looks
    stop    ends the loop before the next look
    others  as for `load_folder`
    """
    ended, load = stop or Event(), _FolderLoad(table, folder, options, pattern, settle_seconds)
    while not ended.is_set():
        result = load.run(strict=strict, max_rejected=max_rejected, limits=limits, runner=runner)
        if result.files or load.looks == 1:
            yield result
        ended.wait(every)


class _FolderLoad:
    """A folder that is loaded once, or again and again: then only files that changed since the last look are looked at."""

    def __init__(
        self, table: Table, folder: PathLike, options: LandingOptions | None, pattern: str, settle_seconds: float
    ) -> None:
        from lakeidx.landing.types import LandingOptions
        from lakeidx.storage.landing_folders import open_landing
        from lakeidx.storage.local import absolute

        self.table, self.pattern, self.settle_ms = table, pattern, int(settle_seconds * 1000)
        self.folder = absolute(path_text(folder, name="a folder"))
        self.options = options or LandingOptions()
        self.store: ObjectStore = open_landing(self.folder, None, self.options.storage_options)
        self.known: set[tuple[object, ...]] = set()
        self.looks = 0

    def run(
        self,
        *,
        strict: bool,
        max_rejected: str | int | None,
        limits: GivenLimits | None,
        runner: RunnerLike,
        progress: Callable[[int, int], None] | None = None,
    ) -> LoadResult:
        """Look once, and load what is new."""
        from lakeidx.batch.landed_files import as_source
        from lakeidx.tasks.in_parallel import in_parallel

        self.looks += 1
        listed = [f for f in self._list() if _identity(f) not in self.known]
        out = {f.name: LoadedFile(f.name, "skipped", why) for f in listed if (why := self._why_none(f))}
        files = [f for f in listed if f.name not in out]
        for file, batch_id in zip(files, in_parallel(self._loaded_by, [as_source(f) for f in files]), strict=True):
            if batch_id is not None:
                out[file.name] = LoadedFile(file.name, "skipped", "loaded before", batch_id)
        new = self._settled([f for f in files if f.name not in out], out)
        upsert, options = self.table.upsert_files, self.options
        load = partial(upsert, options=options, strict=strict, max_rejected=max_rejected, limits=limits)
        for number, file in enumerate(new):
            if progress is not None:
                progress(number, len(new))
            out[file.name] = self._load(file, partial(load, runner=runner))
        self.known |= {_identity(f) for f in listed if out[f.name].reason != _WRITING}
        return LoadResult(self.folder, tuple(out[f.name] for f in listed))

    def _list(self) -> list[FileInfo]:
        """List the folder; NotFoundError and InvalidInputError for what is none."""
        from lakeidx.landing.dms_files import file_order
        from lakeidx.storage.landing_folders import list_folder

        if "*" in self.folder and not self.store.exists(self.folder):
            raise InvalidInputError(
                "name the folder, and its files by a pattern, as --pattern '*.csv'", path=self.folder
            )
        order = file_order(self.options.format)
        return sorted(list_folder(self.store, self.folder), key=lambda f: order(f.name))

    def _why_none(self, file: FileInfo) -> str:
        """Return why an entry of the folder is no file to load, "" when it is one."""
        from lakeidx.batch.landed_files import leads_out
        from lakeidx.landing.read import ENDINGS, is_landing_file

        if file.is_dir:
            return "a folder: only files right in the folder are loaded"
        if file.name.startswith((".", "_")):
            return "names that begin with . or _ are those of programs at work"
        if not fnmatchcase(file.name, self.pattern):
            return f"not named {self.pattern}"
        if self.options.format is None and not is_landing_file(file.name):
            return f"of an unknown kind ({ENDINGS}; others need a format)"
        return "a link that leads out of the folder" if leads_out(self.folder, file) else ""

    def _settled(self, files: Sequence[FileInfo], out: dict[str, LoadedFile]) -> list[FileInfo]:
        """Wait once for files that may still be written; those that changed meanwhile are put into `out`."""
        from lakeidx.storage.landing_folders import in_objects

        if in_objects(self.folder) or not self.settle_ms:
            return list(files)
        age = min((time.time() * 1000 - f.mtime_ms for f in files), default=self.settle_ms)
        if 0 <= age < self.settle_ms:
            time.sleep((self.settle_ms - age) / 1000)
            now = {f.name: _identity(f) for f in self.store.list(self.folder)}
            for file in files:
                if now.get(file.name) != _identity(file):
                    out[file.name] = LoadedFile(file.name, "skipped", _WRITING)
        return [f for f in files if f.name not in out]

    def _loaded_by(self, source: SourceFile) -> str | None:
        """Find the batch by which the table has a file as it is; None when its rows are not in the table."""
        from lakeidx.batch.landed_files import committed_by, content_mark, last_committed, mark_committed
        from lakeidx.batch.stages.rerun import describe_sources, still_counts

        metadata, store, paths = self.table.metadata, self.table.store, self.table.metadata.paths
        batch_id = committed_by(store, paths, source)
        if batch_id is not None:
            return batch_id if still_counts(metadata, batch_id) else None
        batch_id, content = last_committed(store, paths, source.path) or ("", "")
        if not content:
            return None
        try:
            described = describe_sources(store, [source.path], self.options.storage_options)
        except NotFoundError:
            return None
        if content_mark(described[0]) != content or not still_counts(metadata, batch_id):
            return None
        mark_committed(store, paths, described, batch_id)
        return batch_id

    def _load(self, file: FileInfo, upsert: Callable[..., Any]) -> LoadedFile:
        """Load one file; an error of its own is what became of it."""
        from lakeidx.batch.landed_files import as_source, batch_id_of, mark_committed

        batch_id = batch_id_of([file.name], [as_source(file)])
        try:
            result = upsert([file.path], batch_id=batch_id)
        except _OF_A_FILE as error:
            if not _is_about(error, file):
                raise
            log.info("%s was not loaded: %s", file.path, error.message)
            return LoadedFile(file.name, "failed", error.message, batch_id)
        mark_committed(self.table.store, self.table.metadata.paths, result.ingest.sources, batch_id)
        if result.already:
            discarded = result.commit.discarded
            before = "loaded before, by a load that died or runs beside this one"
            why = "its batch was held and discarded" if discarded else before
            return LoadedFile(file.name, "skipped", why, batch_id)
        ingest = result.ingest
        return LoadedFile(
            file.name, "loaded", "", batch_id, result.snapshots, ingest.rows_in, ingest.rows_rejected, ingest.rejected_path
        )  # fmt: skip


_WRITING = "still written: the next load takes it"


def _files(some: Sequence[LoadedFile]) -> str:
    return f"{len(some)} {'file' if len(some) == 1 else 'files'}" if some else ""


def _identity(file: FileInfo) -> tuple[object, ...]:
    return file.name, file.size, file.mtime_ms, file.etag


def _is_about(error: LakeIdxError, file: FileInfo) -> bool:
    """Return False for an error that is about the table, or another place."""
    return error.path is None or error.path.startswith(file.path)
