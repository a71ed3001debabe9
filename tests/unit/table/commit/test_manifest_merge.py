"""What is merged with what is compared with a model that looks at one manifest after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeidx.format.data_file import EMPTY_STATS
from lakeidx.format.manifest_list import ManifestFileMeta
from lakeidx.table.commit.manifest_write import _runs_to_merge, _wants_full_merge

SIZES = st.lists(st.integers(0, 60), max_size=12)


def manifests(sizes: list[int], deleted: list[int]) -> list[ManifestFileMeta]:
    return [
        ManifestFileMeta(
            file_name=f"manifest-{i}",
            file_size=size,
            num_added_files=1,
            num_deleted_files=deleted[i % len(deleted)],
            partition_stats=EMPTY_STATS,
            schema_id=0,
        )
        for i, size in enumerate(sizes)
    ]


@given(SIZES, st.integers(1, 100), st.integers(1, 8))
def test_a_run_that_reaches_the_target_is_merged_and_a_rest_when_it_is_long(
    sizes: list[int], target: int, least: int
) -> None:
    metas = manifests(sizes, [0])
    runs, run = list[tuple[list[ManifestFileMeta], bool]](), list[ManifestFileMeta]()
    for meta in metas:
        run.append(meta)
        if sum(m.file_size for m in run) >= target:
            runs.append((run, len(run) > 1))
            run = []
    if run:
        runs.append((run, len(run) >= least))
    assert list(_runs_to_merge(metas, target_bytes=target, min_count=least)) == runs


@given(SIZES, st.lists(st.integers(0, 1), min_size=1, max_size=4), st.integers(1, 100), st.integers(1, 200))
def test_all_are_rewritten_when_those_that_change_are_large_together(
    sizes: list[int], deleted: list[int], target: int, threshold: int
) -> None:
    metas = manifests(sizes, deleted)
    changing = [m.file_size for m in metas if m.num_deleted_files or m.file_size < target]
    wanted = len(changing) > 1 and sum(changing) >= threshold
    assert _wants_full_merge(metas, target_bytes=target, threshold_bytes=threshold) == wanted
