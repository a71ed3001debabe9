"""Options about what is kept, and how long: snapshots, changelogs, consumers, tags and partitions.

source   org.apache.paimon.CoreOptions, release 1.4.2 (keys, types, defaults, fallback keys)
"""

from __future__ import annotations

from lakeidx.options.descriptors import (
    INT_MAX,
    boolean,
    choice,
    duration,
    integer,
    opt_duration,
    opt_integer,
    opt_text,
    text,
)


class RetentionOptions:
    """Part of `lakeidx.options.table_options.TableOptions`."""

    snapshot_num_retained_min = integer(
        "snapshot.num-retained.min", 10, "Minimum number of snapshots to retain.", least=1
    )
    snapshot_num_retained_max = integer(
        "snapshot.num-retained.max", INT_MAX, "Maximum number of snapshots to retain.", least=1
    )
    snapshot_time_retained = duration("snapshot.time-retained", "1 h", "Age up to which snapshots are retained.")
    snapshot_expire_execution_mode = choice(
        "snapshot.expire.execution-mode", "sync async", "Expire within the commit or beside."
    )
    snapshot_expire_limit = integer("snapshot.expire.limit", 50, "Snapshots expired at once.", least=1)
    snapshot_clean_empty_directories = boolean(
        "snapshot.clean-empty-directories",
        False,
        "Remove empty directories.",
        "snapshot.expire.clean-empty-directories",
    )
    changelog_num_retained_min = opt_integer("changelog.num-retained.min", "As for snapshots.", least=1)
    changelog_num_retained_max = opt_integer("changelog.num-retained.max", "As for snapshots.", least=1)
    changelog_time_retained = opt_duration("changelog.time-retained", "As for snapshots.")
    consumer_id = opt_text("consumer-id", "Consumer whose progress is recorded.")
    consumer_expiration_time = opt_duration("consumer.expiration-time", "Unused consumers are dropped after.")
    consumer_mode = choice("consumer.mode", "exactly-once at-least-once", "How a consumer's progress is recorded.")
    consumer_changelog_only = boolean(
        "consumer.changelog-only", False, "Consumers keep changelogs, not snapshots, where changelogs live longer."
    )
    consumer_ignore_progress = boolean("consumer.ignore-progress", False, "Start without the consumer's progress.")
    tag_automatic_creation = choice(
        "tag.automatic-creation", "none process-time watermark batch", "When tags are made."
    )
    tag_creation_period = choice("tag.creation-period", "daily hourly two-hours", "How often tags are made.")
    tag_creation_period_duration = opt_duration(
        "tag.creation-period-duration", "Any other period; overrides tag.creation-period. Names are yyyyMMddHHmm."
    )
    tag_creation_delay = duration("tag.creation-delay", "0 ms", "Wait after the period's end.")
    tag_period_formatter = choice(
        "tag.period-formatter", "with_dashes without_dashes without_dashes_and_spaces", "Tag names."
    )
    tag_num_retained_max = opt_integer("tag.num-retained-max", "Maximum number of automatic tags to retain.", least=1)
    tag_default_time_retained = opt_duration("tag.default-time-retained", "Retention of tags made without one.")
    tag_time_expire_enabled = boolean("tag.time-expire-enabled", True, "Drop tags past their retention.")
    tag_automatic_completion = boolean("tag.automatic-completion", False, "Make tags that were missed.")
    tag_batch_customized_name = opt_text("tag.batch.customized-name", "Name of tags of batch commits.")
    tag_create_success_file = boolean(
        "tag.create-success-file", False, "A file tag/tag-success-file/<name>_SUCCESS beside every automatic tag."
    )
    sink_process_time_zone = opt_text(
        "sink.process-time-zone", "Zone of process-time and batch tags; default: that of the process."
    )
    sink_watermark_time_zone = text("sink.watermark-time-zone", "UTC", "Zone of watermark tags.")
    partition_expiration_strategy = choice(
        "partition.expiration-strategy", "values-time update-time", "What a partition's age is."
    )
    partition_expiration_time = opt_duration("partition.expiration-time", "Partitions older than this are dropped.")
    partition_expiration_check_interval = duration("partition.expiration-check-interval", "1 h", "Time between checks.")
    partition_expiration_max_num = integer("partition.expiration-max-num", 100, "Partitions dropped at once.", least=1)
    partition_timestamp_formatter = opt_text("partition.timestamp-formatter", "How a partition's time is written.")
    partition_timestamp_pattern = opt_text("partition.timestamp-pattern", "Columns a partition's time is parsed from.")
