"""Steps of a compaction: rewrite or upgrade, small files, deletes, changelog; and options by name."""

from __future__ import annotations

import dataclasses

import pytest

from lakeidx.compaction.options import compaction_options
from lakeidx.compaction.pick import OffPeak, PickReason
from lakeidx.compaction.plan import CompactionTask, Rewrite, Upgrade, plan_compaction
from lakeidx.errors import InvalidInputError
from lakeidx.format.data_file import DataFileMeta
from tests.kit.compaction_files import MB, a_file, schema_with

BIG = 100 * MB


def steps_of(task: CompactionTask | None) -> list[tuple[str, list[list[list[str]]] | str]]:
    """Steps by file names: ('rewrite', sections) or ('upgrade', name)."""
    assert task is not None
    out: list[tuple[str, list[list[list[str]]] | str]] = []
    for step in task.steps:
        if isinstance(step, Upgrade):
            out.append(("upgrade", step.file.file_name))
        else:
            out.append(("rewrite", [[[f.file_name for f in run] for run in section] for section in step.sections]))
    return out


def full(files: list[DataFileMeta], **options: str) -> CompactionTask | None:
    return plan_compaction(files, schema_with({k.replace("__", "."): v for k, v in options.items()}), full=True)


def test_nothing_to_do() -> None:
    assert full([]) is None
    assert full([a_file("top", 5)]) is None
    assert plan_compaction([a_file("a"), a_file("b")], schema_with(), full=False) is None
    assert plan_compaction([a_file("a")], schema_with(), full=False) is None
    five = [a_file(f"f{i}", sequence=i) for i in range(5)]
    assert plan_compaction(five, schema_with(), full=False) is not None


def test_a_lone_file_is_upgraded() -> None:
    task = full([a_file("only", 0, size=1)])
    assert steps_of(task) == [("upgrade", "only")]
    assert task is not None
    assert (task.output_level, task.rewrite_bytes, task.reason) == (5, 0, PickReason.FULL)


@pytest.mark.parametrize("deletes", [1, None])
def test_a_file_with_deletes_is_rewritten_into_the_top_level(deletes: int | None) -> None:
    task = full([a_file("only", 0, size=BIG, deletes=deletes)])
    assert steps_of(task) == [("rewrite", [[["only"]]])]
    assert task is not None
    assert isinstance(task.steps[0], Rewrite)
    assert task.steps[0].drop_delete


def test_deletes_may_be_upgraded_below_the_top_level() -> None:
    files = [a_file("new", 0, size=BIG, sequence=9, deletes=3), a_file("top", 5, size=50 * BIG)]
    task = plan_compaction(files, schema_with({"compaction.force-up-level-0": "true"}), full=False)
    assert steps_of(task) == [("upgrade", "new")]
    assert task is not None
    assert (task.output_level, task.reason) == (4, PickReason.LEVEL_0)


def test_deletes_stay_while_older_rows_are_above() -> None:
    new = [a_file(f"f{i}", 0, size=MB, sequence=i) for i in range(5)]
    below = plan_compaction([*new, a_file("top", 5, size=1000 * MB)], schema_with(), full=False)
    assert below is not None
    assert below.output_level == 4
    assert [s.drop_delete for s in below.steps if isinstance(s, Rewrite)] == [False]
    alone = plan_compaction(new, schema_with(), full=False)
    assert alone is not None
    assert [s.drop_delete for s in alone.steps if isinstance(s, Rewrite)] == [True]


def test_large_files_split_the_rewrite_and_stay_in_order() -> None:
    files = [
        a_file("s1", 0, 0, 9, sequence=1),
        a_file("s2", 0, 10, 19, sequence=2),
        a_file("L1", 0, 20, 29, size=BIG, sequence=3),
        a_file("s3", 0, 30, 39, sequence=4),
        a_file("L2", 0, 40, 49, size=BIG, sequence=5),
        a_file("x", 0, 50, 59, size=BIG, sequence=6),
        a_file("y", 5, 55, 65, size=BIG),
        a_file("s4", 0, 70, 79, sequence=7),
    ]
    assert steps_of(full(files)) == [
        ("rewrite", [[["s1"]], [["s2"]]]),
        ("upgrade", "L1"),
        ("upgrade", "s3"),
        ("upgrade", "L2"),
        ("rewrite", [[["x"], ["y"]], [["s4"]]]),
    ]


def test_files_at_the_output_level_already_are_left_alone() -> None:
    files = [a_file("new", 0, 100, 109, size=BIG, sequence=5), a_file("top", 5, 0, 9, size=BIG)]
    task = full(files)
    assert steps_of(task) == [("upgrade", "new")]
    assert task is not None
    assert [f.file_name for f in task.files] == ["new"]


def test_small_is_below_seven_tenths_of_the_target_in_whole_bytes() -> None:
    # 1003 / 10 * 7 in whole numbers.
    assert compaction_options(schema_with({"target-file-size": "1003"})).small_file_bytes == 700
    target = {"target-file-size": "1003"}
    files = [a_file("a", 0, 0, 9, size=700, sequence=1), a_file("b", 0, 20, 29, size=700, sequence=2)]
    assert steps_of(plan_compaction(files, schema_with(target), full=True)) == [("upgrade", "a"), ("upgrade", "b")]
    files[1] = dataclasses.replace(files[1], file_size=699)
    files[0] = dataclasses.replace(files[0], file_size=699)
    assert steps_of(plan_compaction(files, schema_with(target), full=True)) == [("rewrite", [[["a"]], [["b"]]])]


def test_a_forced_rewrite_takes_files_of_the_top_level() -> None:
    files = [a_file("a", 5, 0, 9, size=BIG), a_file("b", 5, 10, 19, size=BIG)]
    task = plan_compaction(files, schema_with({"compaction.force-rewrite-all-files": "true"}), full=True)
    assert steps_of(task) == [("rewrite", [[["a"]]]), ("rewrite", [[["b"]]])]
    marked = plan_compaction(files, schema_with(), full=True, must_rewrite={"b"})
    assert steps_of(marked) == [("rewrite", [[["b"]]])]
    files.append(a_file("new", 0, 20, 29, size=BIG, sequence=9))
    marked = plan_compaction(files, schema_with(), full=True, must_rewrite={"b"})
    assert steps_of(marked) == [("rewrite", [[["b"]]]), ("upgrade", "new")]


@pytest.mark.parametrize(
    ("options", "level", "deletes", "expected"),
    [
        ({"changelog-producer": "lookup"}, 5, 0, ("upgrade", True)),
        ({"changelog-producer": "lookup"}, 4, 0, ("upgrade", True)),
        ({"changelog-producer": "lookup", "sequence.field": "v"}, 4, 0, ("rewrite", True)),
        ({"changelog-producer": "lookup", "merge-engine": "partial-update"}, 4, 0, ("rewrite", True)),
        ({"changelog-producer": "lookup", "merge-engine": "partial-update"}, 5, 0, ("upgrade", True)),
        ({"changelog-producer": "lookup", "file.format.per.level": "0:avro"}, 4, 0, ("rewrite", True)),
        ({"merge-engine": "first-row"}, 4, 0, ("rewrite", False)),
        ({"merge-engine": "first-row"}, 5, 0, ("upgrade", False)),
        ({"deletion-vectors.enabled": "true"}, 4, 0, ("upgrade", False)),
        ({"deletion-vectors.enabled": "true"}, 4, 2, ("rewrite", False)),
        ({"changelog-producer": "full-compaction", "compaction.force-up-level-0": "true"}, 4, 0, ("upgrade", False)),
        ({"changelog-producer": "full-compaction", "compaction.force-up-level-0": "true"}, 5, 0, ("upgrade", True)),
        ({"compaction.force-up-level-0": "true"}, 4, 0, ("upgrade", False)),
    ],
)
def test_upgrades_of_tables_with_lookup_or_changelog(
    options: dict[str, str], level: int, deletes: int, expected: tuple[str, bool]
) -> None:
    files = [a_file("new", 0, sequence=9, deletes=deletes)]
    if level == 4:
        files.append(a_file("top", 5, size=1000 * MB))
    task = plan_compaction(files, schema_with(options), full=False)
    assert task is not None
    assert task.output_level == level
    (step,) = task.steps
    assert ("upgrade" if isinstance(step, Upgrade) else "rewrite", step.changelog) == expected
    if isinstance(step, Rewrite):
        assert step.drop_delete == ("deletion-vectors.enabled" in options)


@pytest.mark.parametrize(
    ("options", "level", "expected"),
    [
        ({"changelog-producer": "lookup"}, 4, True),
        ({"deletion-vectors.enabled": "true"}, 4, True),
        ({"deletion-vectors.enabled": "true"}, 5, True),
        ({"merge-engine": "first-row"}, 4, True),
        ({"force-lookup": "true"}, 4, True),
        ({"changelog-producer": "full-compaction", "force-lookup": "true"}, 4, True),
        ({"compaction.force-up-level-0": "true"}, 4, False),
    ],
)
def test_keys_of_level_0_are_looked_up_where_the_table_says(
    options: dict[str, str], level: int, expected: bool
) -> None:
    files = [a_file("new", 0, sequence=9)] + ([a_file("top", 5, size=1000 * MB)] if level == 4 else [])
    task = plan_compaction(files, schema_with(options), full=False)
    assert task is not None
    assert (task.output_level, [s.lookup for s in task.steps]) == (level, [expected])
    above_0 = [a_file("a", 3, size=MB), a_file("b", 5)]
    rewritten = plan_compaction(above_0, schema_with(options), full=True)
    assert rewritten is not None
    assert [s.lookup for s in rewritten.steps] == [False]


@pytest.mark.parametrize(
    ("producer", "with_level_0", "expected"),
    [("lookup", True, True), ("lookup", False, False), ("full-compaction", True, True), ("none", True, False)],
)
def test_rewrites_make_changelog_where_the_producer_says(producer: str, with_level_0: bool, expected: bool) -> None:
    files = [a_file("a", 0 if with_level_0 else 3, sequence=5), a_file("b", 4)]
    task = plan_compaction(files, schema_with({"changelog-producer": producer}), full=True)
    assert task is not None
    assert [s.changelog for s in task.steps] == [expected]


def test_early_full_compaction_by_the_age_of_the_top_level() -> None:
    options = schema_with({"compaction.optimization-interval": "1 h"})
    files = [a_file("new", 0, sequence=9), a_file("top", 5)]
    made = files[1].creation_epoch_ms
    assert made is not None
    assert plan_compaction(files, options, full=False, now_ms=made + 3_600_000) is None
    task = plan_compaction(files, options, full=False, now_ms=made + 3_600_001)
    assert task is not None
    assert task.reason is PickReason.FULL_INTERVAL


def test_options_by_their_names() -> None:
    options = compaction_options(
        schema_with(
            {
                "num-sorted-run.compaction-trigger": "3",
                "compaction.max-size-amplification-percent": "50",
                "compaction.size-ratio": "7",
                "compaction.total-size-threshold": "1 mb",
                "compaction.incremental-size-threshold": "2 kb",
                "compaction.offpeak.start.hour": "22",
                "compaction.offpeak.end.hour": "4",
                "compaction.offpeak-ratio": "40",
                "file.format.per.level": "0:avro,5:orc",
            }
        )
    )
    pick = options.pick
    assert (pick.run_trigger, pick.max_size_amplification_percent, pick.size_ratio_percent) == (3, 50, 7)
    assert (pick.total_size_threshold, pick.incremental_size_threshold) == (1 << 20, 2048)
    assert pick.off_peak == OffPeak(start_hour=22, end_hour=4, ratio_percent=40)
    assert options.table.max_levels == 4
    assert [options.file_format_of(level) for level in (0, 1, 5)] == ["avro", "parquet", "orc"]
    defaults = compaction_options(schema_with())
    assert (defaults.table.max_levels, defaults.target_file_bytes, defaults.pick.off_peak) == (6, 128 * MB, None)
    assert not defaults.must_empty_level_0


@pytest.mark.parametrize("hours", [("-1", "5"), ("5", "-1"), ("5", "5")])
def test_hours_that_mean_no_off_peak_time(hours: tuple[str, str]) -> None:
    options = {"compaction.offpeak.start.hour": hours[0], "compaction.offpeak.end.hour": hours[1]}
    assert compaction_options(schema_with(options)).pick.off_peak is None


def test_a_level_that_is_no_number() -> None:
    with pytest.raises(InvalidInputError, match=r"'file\.format\.per\.level': 'top' is not a level"):
        compaction_options(schema_with({"file.format.per.level": "top:avro"}))
