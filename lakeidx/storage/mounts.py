"""Which disk a path is on, and whether that disk is another machine's."""

from __future__ import annotations

import os
from functools import lru_cache

#: File systems whose requests go over a network; those of users (``fuse.s3fs``, ``fuse.sshfs``) mostly do.
_REMOTE = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "fuse", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "smbfs"}
)
_MOUNTS = "/proc/self/mountinfo"


def device_of(path: str) -> int:
    """Return the device number of a path, or of the nearest directory above it that exists."""
    while True:
        try:
            return os.stat(path).st_dev
        except (OSError, ValueError):
            above = os.path.dirname(os.path.abspath(path))
            if above == path:
                raise
            path = above


@lru_cache(maxsize=64)
def is_remote(device: int, mounts: str = _MOUNTS) -> bool:
    """Return True when a device is a file system of the network; False also where the system does not say (all but Linux)."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                # 36 35 98:0 /root /mnt rw,noatime master:1 - nfs4 server:/export rw
                place, _, system = line.partition(" - ")
                if place.split()[2:3] == [wanted]:
                    name = system.split()[0]
                    return name in _REMOTE or name.startswith("fuse.")
    except OSError:
        pass
    return False
