"""Ports for servers that tests start."""

from __future__ import annotations

import random
import socket

#: Below what systems give to connections: such a port may be one's own end of a connection before the server listens.
_NUMBERS = range(10_240, 32_000)


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Choose ports of an address that nobody has now, at random, since other tests choose at the same time."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_NUMBERS, len(_NUMBERS)):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"{address} has only {len(found)} free ports from {_NUMBERS.start} to {_NUMBERS.stop - 1}")
