"""Positions as checkpoints and consumer files hold them; `test_follow.py` has what becomes of them after a rollback."""

from __future__ import annotations

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.table.stream.position import Position


def test_positions_are_read_as_they_were_written() -> None:
    for position in (Position(0), Position(7, "a"), Position(7, "a", whole=True, units=3)):
        assert Position.from_json(position.to_json()) == position
    # Of checkpoints of earlier releases.
    assert Position.from_json({"snapshot": 4, "incremental": 1}) == Position(4)
    for bad in ({}, {"snapshot": "1"}, {"snapshot": True}, {"snapshot": 1, "units": -1}, {"snapshot": 1, "identity": 2},
                {"snapshot": 1, "whole": "yes"}):  # fmt: skip
        with pytest.raises(InvalidInputError, match="is not a stream position"):
            Position.from_json(bad)
