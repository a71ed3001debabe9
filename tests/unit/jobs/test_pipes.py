"""Pipes is opened only when it was asked for, and talks as Dagster's side says."""

from __future__ import annotations

import sys

import dagster_pipes as dp
import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.jobs.pipes import job_pipes, pipes_asked, sent, transport


def test_nobody_asks_and_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_PIPES_CONTEXT", raising=False)
    monkeypatch.setitem(sys.modules, "dagster_pipes", None)
    assert not pipes_asked()
    with job_pipes() as pipes:
        assert pipes is None
        assert sent("pipeline") is None


def test_pipes_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["job", "--dagster-pipes-context", "x"])
    monkeypatch.setitem(sys.modules, "dagster_pipes", None)
    with pytest.raises(InvalidInputError, match=r"lakeidx\[pipes\]"), job_pipes():
        pass


def test_messages_go_where_dagster_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert transport({"path": "/c"}, {"path": "/m"}) == (None, None)
    loader, writer = transport({"data": {}}, {"bucket": "b", "key_prefix": "p"})
    assert (loader, type(writer)) == (None, dp.PipesS3MessageWriter)
    monkeypatch.setenv("LAKEIDX_PIPES_STORE", "volumes")
    loader, writer = transport({"path": "/c"}, {"path": "/m"})
    assert isinstance(loader, dp.PipesUnityCatalogVolumesContextLoader)
    assert isinstance(writer, dp.PipesUnityCatalogVolumesMessageWriter)
    monkeypatch.setattr(sys, "argv", ["job", "--pipes-store", "dbfs"])
    assert isinstance(transport({"path": "/c"}, {"path": "/m"})[1], dp.PipesDbfsMessageWriter)
    monkeypatch.setattr(sys, "argv", ["job"])
    monkeypatch.setenv("LAKEIDX_PIPES_STORE", "ftp")
    with pytest.raises(InvalidInputError, match="LAKEIDX_PIPES_STORE=ftp"):
        transport({}, {})
