"""Disks of this machine and of others are told apart by the system's list of mounts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeidx.storage.mounts import device_of, is_remote

MOUNTS = """\
22 27 0:20 / /proc rw,nosuid shared:5 - proc proc rw
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
40 27 0:45 /export /mnt/lake\\040one rw,relatime - nfs4 server:/export rw,vers=4.2
41 27 0:46 / /mnt/bucket rw shared:9 master:2 - fuse.s3fs s3fs rw
42 27 0:47 / /mnt/ntfs rw - fuseblk /dev/sdb1 rw
43 27 0:48 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("major", "minor", "remote"),
    [(8, 1, False), (0, 45, True), (0, 46, True), (0, 47, False), (0, 48, False), (7, 7, False)],
)
def test_by_the_kind_of_file_system(tmp_path: Path, major: int, minor: int, remote: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert is_remote(os.makedev(major, minor), str(mounts)) is remote


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert not is_remote(os.makedev(0, 45), str(tmp_path / "none"))


def test_the_device_of_what_is_not_there_yet(tmp_path: Path) -> None:
    assert device_of(str(tmp_path / "a" / "b")) == os.stat(tmp_path).st_dev
    assert not is_remote(device_of("/proc"))
