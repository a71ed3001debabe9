"""Search for landing files: a listing of the folder, or the messages of an event queue.

With an asset that writes the files the folder is listed when the asset was materialized since the last look, and while files wait.

With a queue the folder is listed first, until all that lies there has its batch, and seldom from then on. A message is deleted by
the tick after the one that received it, once the cursor with what it has named was recorded; until then it may come again, and
names files that are seen. One that cannot be used is left to the queue, which has its own rule for such (a dead-letter queue).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from lakeidx.dagster.assets.landing import placed_files
from lakeidx.dagster.resources import StoreResource
from lakeidx.dagster.sensors.planning import MAX_BATCHES, LandingCursor
from lakeidx.errors import InvalidInputError
from lakeidx.pipeline_file.model import PipelineConfig
from lakeidx.pipeline_file.sections import EventsConfig
from lakeidx.storage.base import FileInfo
from lakeidx.storage.s3.event_queue import QueueMessage
from lakeidx.storage.s3.events import created_objects


@dataclass(slots=True)
class FoundFiles:
    """Result of one look for landing files.

    files      landing files by name: all there are, or with `whole` False those that wait and those that messages name
    unplaced   files that match the pattern and belong to no partition
    receipts   messages that may be deleted once what they name is recorded
    received   number of messages
    warnings   what is wrong with messages that stay in the queue, a line each; and with deletions
    """

    files: list[FileInfo]
    unplaced: list[FileInfo]
    whole: bool = True
    receipts: list[str] = field(default_factory=list)
    received: int = 0
    left: int = 0
    warnings: list[str] = field(default_factory=list)


def look(
    pipeline: PipelineConfig,
    stores: StoreResource,
    cursor: LandingCursor,
    now_ms: int,
    *,
    materialized: int | None = None,
) -> FoundFiles:
    """Find landing files; errors of the store and the queue as they are.

    materialized   newest materialization of the asset that writes the files; None = no asset says when there are new ones
    """
    events = pipeline.landing.events
    if materialized is not None and materialized == cursor.materialized and not cursor.waiting:
        return FoundFiles([], [], whole=False)
    if events is None:
        return FoundFiles(*placed_files(pipeline, stores))
    queue = stores.queue(events.url)
    warnings = [f"a message was not deleted and may come again: {why}" for why in queue.delete(cursor.receipts)]
    if not cursor.listed or now_ms - cursor.listed >= events.list_hours * 3_600_000:
        found = FoundFiles(*placed_files(pipeline, stores))
    else:
        # While many files wait for their batches, their messages wait in the queue.
        room = len(cursor.pending) < MAX_BATCHES * pipeline.landing.batching.max_files
        messages = queue.receive(events.max_messages) if room else []
        found = _named(pipeline, stores, events, cursor.pending, messages)
    found.warnings += warnings
    # Some stores list with milliseconds and return single objects without.
    found.files = [f._replace(mtime_ms=f.mtime_ms // 1000 * 1000) for f in found.files]
    return found


def remember_look(found: FoundFiles, after: LandingCursor, now_ms: int, *, all_taken: bool) -> None:
    """Record what the next tick needs to know of the queue.

    all_taken   False when there were more files than a tick starts runs for: a folder is listed again then, not remembered
    """
    after.receipts = found.receipts
    if found.whole:
        after.listed = now_ms if all_taken else 0
        after.pending = after.pending if all_taken else []


def _named(
    pipeline: PipelineConfig,
    stores: StoreResource,
    events: EventsConfig,
    pending: Sequence[FileInfo],
    messages: Sequence[QueueMessage],
) -> FoundFiles:
    """Find the files that messages name, as they are now; those that wait are known."""
    names: set[str] = set()
    receipts, warnings = [], []
    for message in messages:
        try:
            names |= landing_names(pipeline, message.body)
            receipts.append(message.receipt)
        except InvalidInputError as error:
            warnings.append(f"{events.url}: message {message.id} stays in the queue: {error.message}")
    placed, unplaced = placed_files(pipeline, stores, names)
    folder = f"{pipeline.landing.path.rstrip('/')}/"
    waiting = (f._replace(name=f.path.removeprefix(folder)) for f in pending)
    files = {f.name: f for f in (*waiting, *placed)}
    return FoundFiles(
        [f for _, f in sorted(files.items())],
        unplaced,
        whole=False,
        receipts=receipts,
        received=len(messages),
        left=len(warnings),
        warnings=warnings,
    )


def landing_names(pipeline: PipelineConfig, body: str) -> set[str]:
    """Return the names of files right in the landing folder that a message is about: landing files and their markers.

    errors   InvalidInputError for a message that is no S3 event, or one about an object outside the landing folder
    """
    landing = pipeline.landing
    bucket, _, folder = landing.path.partition("://")[2].partition("/")
    prefix = f"{folder.rstrip('/')}/" if folder.strip("/") else ""
    names = set()
    for found in created_objects(body):
        name = found.key.removeprefix(prefix)
        if found.bucket != bucket or not found.key.startswith(prefix) or ".." in name.split("/"):
            raise InvalidInputError(
                f"s3://{found.bucket}/{found.key} is not in {landing.path}: configure the bucket to send events of that folder only"
            )
        plain = name.removesuffix(landing.success_marker or "")
        if plain and ("/" not in name or "/" in landing.pattern) and fnmatchcase(plain, landing.pattern):
            names.add(name)
    return names
