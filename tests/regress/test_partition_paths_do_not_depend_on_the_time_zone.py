"""A TIMESTAMP_LTZ partition column without legacy names gave directories that depend on the process's time zone."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeidx
from lakeidx.errors import InvalidInputError


def test_refused_at_create(tmp_path: Path) -> None:
    """One line; with legacy names (UTC) such a table can be made."""
    spec = {
        "fields": [{"name": "t", "type": "TIMESTAMP(3) WITH LOCAL TIME ZONE"}, {"name": "k", "type": "INT"}],
        "primaryKeys": ["t", "k"],
        "partitionKeys": ["t"],
        "options": {"bucket": "1"},
    }
    with pytest.raises(InvalidInputError, match="time zone of each process"):
        lakeidx.Table.create(
            f"{tmp_path}/d.db/t", {**spec, "options": {"bucket": "1", "partition.legacy-name": "false"}}
        )
    lakeidx.Table.create(f"{tmp_path}/d.db/t", spec)
