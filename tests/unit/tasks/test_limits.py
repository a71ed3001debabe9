"""Processors and memory that a control group grants, from made-up file systems of both versions."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from lakeidx.tasks.cgroups import cgroup_bytes, cgroup_cores
from lakeidx.tasks.limits import available_bytes, available_cores


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "200000 100000\n"}, 2),
        # A part of a processor needs a thread of its own.
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 2),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "25000 100000\n"}, 1),
        # The limit of a group above counts, too.
        ({"proc/self/cgroup": "0::/pod/box\n", "sys/fs/cgroup/pod/cpu.max": "300000 100000\n",
          "sys/fs/cgroup/pod/box/cpu.max": "800000 100000\n"}, 3),
        # The path as it is outside of the container; inside, its group is what is mounted.
        ({"proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/box\n0::/\n", "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "500000\n",
          "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000\n"}, 5),
        ({"proc/self/cgroup": "3:cpu,cpuacct:/\n2:cpuset:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
          "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)  # fmt: skip
def test_what_control_groups_grant(tmp_path: Path, files: dict[str, str], cores: int | None) -> None:
    assert cgroup_cores(made(tmp_path, files)) == cores


def test_a_grant_above_the_affinity_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    for granted, cores in ((None, 6), (2, 2), (64, 6)):
        monkeypatch.setattr("lakeidx.tasks.limits.cgroup_cores", lambda _, granted=granted: granted)
        assert available_cores() == cores


@pytest.mark.parametrize(
    ("files", "granted"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        ({"proc/self/cgroup": "0::/pod/box\n", "sys/fs/cgroup/pod/memory.max": "5000\n",
          "sys/fs/cgroup/pod/box/memory.max": "max\n"}, 5000),
        ({"proc/self/cgroup": "9:memory:/box\n", "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "7000\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 7000),
    ],
)  # fmt: skip
def test_memory_that_control_groups_grant(tmp_path: Path, files: dict[str, str], granted: int | None) -> None:
    assert cgroup_bytes(made(tmp_path, files)) == granted


def test_memory_is_that_of_the_machine_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 100}.__getitem__)
    for granted, found in ((None, 409_600), (1000, 1000), (1 << 60, 409_600)):
        monkeypatch.setattr("lakeidx.tasks.limits.cgroup_bytes", lambda _, granted=granted: granted)
        assert available_bytes() == found


def test_a_limit_of_the_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark sets it for `spark.executor.pyspark.memory`."""
    whole = available_bytes()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (7 << 20, 8 << 20))
    assert available_bytes() == 7 << 20
    monkeypatch.setattr("lakeidx.tasks.limits.cgroup_bytes", lambda _: 5 << 20)
    assert available_bytes() == 5 << 20
    monkeypatch.undo()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert available_bytes() == whole
