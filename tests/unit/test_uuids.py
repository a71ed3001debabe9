"""UUIDs are compared with those of the standard library, which lakeidx does not make."""

from __future__ import annotations

import uuid
from unittest import mock

from lakeidx.storage.uuids import named_uuid, random_uuid


def test_a_random_one_is_that_of_the_standard_library_for_the_same_bytes() -> None:
    for raw in (bytes(16), b"\xff" * 16, bytes(range(16)), b"\x80" * 16):
        with mock.patch("os.urandom", return_value=raw):
            assert random_uuid() == str(uuid.UUID(bytes=raw, version=4))


def test_random_ones_differ() -> None:
    assert len({random_uuid() for _ in range(1000)}) == 1000


def test_a_named_one_is_that_of_the_standard_library() -> None:
    space = uuid.uuid4()
    for name in ("", "a", "/lake/t#batch", "ü\U0001f600"):
        assert named_uuid(space.bytes, name) == str(uuid.uuid5(space, name))
