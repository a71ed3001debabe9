"""Machines of a cluster for tests: network namespaces with an address each, or, where none may be made, all of them this machine.

Needs Linux, root and `ip` (iproute2). A process of one machine cannot reach another's loopback, so what listens on the wrong
address, or tells others an address of its own only, fails as it would between real machines. Files are shared.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakeidx.testing.limits import HANGS_SECONDS

LOOPBACK = "127.0.0.1"
_MARK = "lakeidx"


class NoNamespaces(Exception):
    """Namespaces cannot be made here."""


@dataclass
class Network:
    """Machines by name.

    addresses   of each machine; `here` is where this process is reached by them
    """

    here: str = LOOPBACK
    addresses: dict[str, str] = field(default_factory=dict)
    bridge: str | None = None

    @property
    def is_apart(self) -> bool:
        """True when machines have addresses of their own."""
        return self.bridge is not None

    def address(self, machine: str) -> str:
        """Where a machine is reached by the others."""
        return self.addresses.get(machine, LOOPBACK)

    def command(self, machine: str, argv: Sequence[str]) -> list[str]:
        """The command that runs another on a machine."""
        return ["ip", "netns", "exec", f"{self.bridge}-{machine}", *argv] if self.is_apart else list(argv)

    def close(self) -> None:
        """Take all away; processes on the machines should have ended."""
        if self.bridge is not None:
            for machine in self.addresses:
                _try_ip(f"netns delete {self.bridge}-{machine}")
            for number in range(len(self.addresses)):
                # With its namespace it goes only after a while.
                _try_ip(f"link delete {_link(number)}")
            _try_ip(f"link delete {self.bridge}")
            self.bridge = None


def make_network(machines: Sequence[str]) -> Network:
    """Give each machine a namespace with a link to a bridge; NoNamespaces with the reason where that cannot be."""
    if shutil.which("ip") is None:
        raise NoNamespaces("no program 'ip'")
    _remove_dead()
    bridge = f"{_MARK}{os.getpid()}"[:15]
    subnet = f"10.{64 + os.getpid() // 256 % 64}.{os.getpid() % 256}"
    network = Network(f"{subnet}.1", {m: f"{subnet}.{i}" for i, m in enumerate(machines, 2)}, bridge)
    try:
        _ip(f"link add {bridge} type bridge")
        _ip(f"address add {network.here}/24 dev {bridge}")
        _ip(f"link set {bridge} up")
        for number, (machine, address) in enumerate(network.addresses.items()):
            name, link = f"{bridge}-{machine}", _link(number)
            _ip(f"netns add {name}")
            _ip(f"link add {link} type veth peer name eth0 netns {name}")
            _ip(f"link set {link} master {bridge} up")
            _ip(f"-n {name} address add {address}/24 dev eth0")
            _ip(f"-n {name} link set eth0 up")
            _ip(f"-n {name} link set lo up")
    except NoNamespaces:
        network.close()
        raise
    return network


def _link(number: int) -> str:
    return f"lx{os.getpid()}n{number}"


def _ip(command: str) -> str:
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    if done.returncode:
        raise NoNamespaces(f"ip {command}: {done.stderr.strip()}")
    return done.stdout


def _try_ip(command: str) -> None:
    with contextlib.suppress(NoNamespaces):
        _ip(command)


def _remove_dead() -> None:
    """Remove what test runs left behind that were killed."""
    names = [line.split()[0] for line in _ip("netns list").splitlines() if line.startswith(_MARK)]
    gone = {
        m[1] for n in names if (m := re.fullmatch(rf"({_MARK}(\d+))-.*", n)) and not os.path.exists(f"/proc/{m[2]}")
    }
    for name in (n for n in names if n.partition("-")[0] in gone):
        _try_ip(f"netns delete {name}")
    for bridge in gone:
        _try_ip(f"link delete {bridge}")
