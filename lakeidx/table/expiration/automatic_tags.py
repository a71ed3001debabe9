"""Tags that a table makes by itself: one per period of process time or watermark, or one per day of batches.

A tag is named after the period that is over: the first snapshot of July 19th, 00:00 (plus ``tag.creation-delay``) or later makes
the tag ``2023-07-18``. What has to be made is found from the tags and snapshots that are there, so it does not matter which program
made the last one.

source   org.apache.paimon.tag.TagAutoCreation, TagBatchCreation, TagPeriodHandler, TagTimeExtractor, release 1.4.2. One
         difference: with ``tag.automatic-creation`` = batch, Java counts every tag against ``tag.num-retained-max`` and deletes
         tags of users; as the option's description promises, only automatic tags count here
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakeidx.errors import InvalidInputError, NotFoundError
from lakeidx.format.schema.schema_file import TableSchema
from lakeidx.format.snapshot import Snapshot
from lakeidx.options.table_options import TableOptions
from lakeidx.table.history import load_tag, tag_names
from lakeidx.table.metadata import TableMetadata

log = logging.getLogger(__name__)

_DAY, _HOUR, _MINUTE = "%Y-%m-%d", "%Y-%m-%d %H", "%Y%m%d%H%M"
_FORMATS = {
    ("daily", "with_dashes"): _DAY,
    ("daily", "without_dashes"): "%Y%m%d",
    ("daily", "without_dashes_and_spaces"): "%Y%m%d",
    ("hourly", "with_dashes"): _HOUR,
    ("hourly", "without_dashes"): "%Y%m%d %H",
    ("hourly", "without_dashes_and_spaces"): "%Y%m%d%H",
}
_PERIODS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}
_EPOCH = datetime(1970, 1, 1)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_NO_WATERMARK = -(1 << 63)
_BATCH_PREFIX = "batch-write-"

Time = Callable[[Snapshot], datetime | None]
"""A snapshot's time as wall clock of the tags' zone; None when it has none."""


@dataclass(frozen=True, slots=True)
class TagPeriod:
    """Length and name of a period.

    daily   names may continue after a blank, as those of hourly tags do
    """

    length: timedelta
    format: str
    daily: bool = False

    def time_of(self, name: str) -> datetime | None:
        """Return the start of the period a tag is named after; None for a tag that is not automatic."""
        if self.daily:
            name = name.split(" ")[0]
        try:
            time = datetime.strptime(name, self.format)
        except ValueError:
            return None
        # strptime takes "2023-7-8", too.
        return time if time.strftime(self.format) == name else None

    def name_of(self, start: datetime) -> str:
        """Return the name of the tag of a period."""
        return start.strftime(self.format)

    def before(self, time: datetime) -> datetime:
        """Return the start of the last period that is over at a time."""
        return time - (time - _EPOCH) % self.length - self.length


def period_of(options: TableOptions) -> TagPeriod:
    """Return the period that a table's options request.

    errors   InvalidInputError when the delay is not shorter than the period
    """
    name = options.tag_creation_period
    if options.tag_creation_period_duration is not None:
        period = TagPeriod(timedelta(milliseconds=options.tag_creation_period_duration), _MINUTE)
    elif name == "two-hours":
        period = TagPeriod(_PERIODS[name], _HOUR)
    else:
        period = TagPeriod(_PERIODS[name], _FORMATS[name, options.tag_period_formatter], name == "daily")
    if timedelta(milliseconds=options.tag_creation_delay) >= period.length:
        raise InvalidInputError("option 'tag.creation-delay' must be shorter than the tags' period")
    return period


def zone_of(name: str | None, option: str) -> tzinfo | None:
    """Return a time zone as Java names it: ``Europe/Berlin``, ``UTC``, ``GMT+8``, ``+05:30``; None for that of this process.

    errors   InvalidInputError naming the option
    """
    if name is None:
        return None
    if name == "Z":
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        delta = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(delta if offset[1] == "+" else -delta)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInputError(f"option '{option}': unknown time zone {name!r}") from None


def _wall_clock(epoch_ms: int, zone: tzinfo | None) -> datetime:
    at = datetime.fromtimestamp(epoch_ms // 1000, UTC).astimezone(zone).replace(tzinfo=None)
    return at + timedelta(milliseconds=epoch_ms % 1000)


def _time_of(options: TableOptions) -> Time:
    if options.tag_automatic_creation == "process-time":
        zone = zone_of(options.sink_process_time_zone, "sink.process-time-zone")
        return lambda snapshot: _wall_clock(snapshot.time_millis, zone)
    of_watermark = zone_of(options.sink_watermark_time_zone, "sink.watermark-time-zone")
    return lambda s: None if s.watermark in (None, _NO_WATERMARK) else _wall_clock(int(s.watermark or 0), of_watermark)


def plan_tags(
    times: Iterable[tuple[int, datetime | None]],
    period: TagPeriod,
    *,
    newest: datetime | None,
    delay: timedelta = timedelta(),
    complete: bool = False,
) -> Iterator[tuple[int, str]]:
    """Plan which snapshots get a tag, and its name.

    times      id and time of the snapshots after the newest tag's, ascending
    newest     start of the newest tag's period; None without a tag
    complete   a tag for every period that was missed, not for the last one alone
    """
    due = None if newest is None else newest + period.length
    for snapshot_id, time in times:
        if time is None or (due is not None and time - delay < due + period.length):
            continue
        start = due if complete and due is not None else period.before(time)
        yield snapshot_id, period.name_of(start)
        due = start + period.length


def make_automatic_tags(metadata: TableMetadata, schema: TableSchema) -> list[str]:
    """Make the tags that are due, and drop automatic ones beyond ``tag.num-retained-max``; nothing for a write-only table.

    Called after a batch was committed and after a compaction; calling it again changes nothing.
    returns  names of the tags that were made
    errors   InvalidInputError for options that cannot be; UnavailableError, then call again
    """
    options = schema.table_options
    if options.write_only or options.tag_automatic_creation in ("none", "batch"):
        return []
    period, time_of = period_of(options), _time_of(options)
    latest = metadata.latest_snapshot()
    if latest is None:
        return []
    known = {n: t for n in tag_names(metadata) if (t := period.time_of(n)) is not None}
    newest = max(known, key=lambda n: known[n], default=None)
    since = None if newest is None else known[newest]
    delay = timedelta(milliseconds=options.tag_creation_delay)
    at = time_of(latest)
    # Times do not go back along the chain: when the newest snapshot makes no tag, none before it does.
    if at is None or (since is not None and at - delay < since + 2 * period.length):
        return []
    first = metadata.earliest_snapshot_id() or latest.id
    if newest is not None:
        first = max(first, load_tag(metadata, newest).id + 1)
    made = []
    planned = plan_tags(
        _times(metadata, range(first, latest.id + 1), time_of),
        period,
        newest=since,
        delay=delay,
        complete=options.tag_automatic_completion,
    )
    for snapshot_id, name in planned:
        if _make(metadata, schema, snapshot_id, name):
            made.append(name)
        _drop_oldest(metadata, schema, lambda n: period.time_of(n) is not None)
    return made


def make_batch_tag(metadata: TableMetadata, schema: TableSchema) -> str | None:
    """Tag the newest snapshot with its day, replacing an earlier tag of that name (``tag.automatic-creation`` = batch).

    Called after a batch was committed.
    returns  the tag's name; None for other tables
    """
    options = schema.table_options
    if options.write_only or options.tag_automatic_creation != "batch":
        return None
    latest = metadata.latest_snapshot()
    if latest is None:
        return None
    day = _wall_clock(latest.time_millis, zone_of(options.sink_process_time_zone, "sink.process-time-zone"))
    name = options.tag_batch_customized_name or f"{_BATCH_PREFIX}{day.strftime(_DAY)}"
    if name in tag_names(metadata):
        tagged = load_tag(metadata, name)
        if (tagged.id, tagged.uuid) == (latest.id, latest.uuid):
            return name
        from lakeidx.table.expiration.tags import delete_tag

        delete_tag(metadata, schema, name)
    _make(metadata, schema, latest.id, name)
    daily = TagPeriod(_PERIODS["daily"], _BATCH_PREFIX + _DAY)
    _drop_oldest(metadata, schema, lambda n: n == name or daily.time_of(n) is not None)
    return name


def _times(metadata: TableMetadata, ids: Iterable[int], time_of: Time) -> Iterator[tuple[int, datetime | None]]:
    for snapshot_id in ids:
        try:
            yield snapshot_id, time_of(metadata.load_snapshot(snapshot_id))
        except NotFoundError:
            continue


def _make(metadata: TableMetadata, schema: TableSchema, snapshot_id: int, name: str) -> bool:
    from lakeidx.table.expiration.tags import put_tag

    try:
        tag = put_tag(
            metadata, name, metadata.load_snapshot(snapshot_id), schema.table_options.tag_default_time_retained
        )
    except NotFoundError as error:
        log.warning("tag %r of snapshot %d was not created: %s", name, snapshot_id, error)
        return False
    if tag is not None:
        log.info("created tag %r of snapshot %d", name, snapshot_id)
    return tag is not None


def _drop_oldest(metadata: TableMetadata, schema: TableSchema, is_automatic: Callable[[str], bool]) -> None:
    most = schema.table_options.tag_num_retained_max
    if most is None or sum(map(is_automatic, tag_names(metadata))) <= most:
        return
    from lakeidx.table.expiration.read import read_tags
    from lakeidx.table.expiration.tags import delete_tag

    tags = {n: t for n, t in read_tags(metadata).items() if is_automatic(n)}
    oldest = sorted(tags, key=lambda n: (tags[n].snapshot.id, n))
    for name in oldest[: len(oldest) - most]:
        delete_tag(metadata, schema, name)
        log.info("deleted tag %r: tag.num-retained-max is %d", name, most)
