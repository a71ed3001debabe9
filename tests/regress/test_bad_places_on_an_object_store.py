"""A place on an object store that cannot hold a table is one line that says what to do, at once, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeidx import Table
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError, UnavailableError, UnsupportedError
from lakeidx.storage import open_store
from tests.kit.object_server import ObjectServer, object_server

SPEC = {"fields": [{"name": "k", "type": "INT"}], "primaryKeys": ["k"], "options": {"bucket": "1"}}


@pytest.fixture
def server() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


def refused(error: type[LakeIdxError], says: str, uri: str, options: dict[str, Any] | None = None) -> None:
    with pytest.raises(error, match=says) as caught:
        Table.create(uri, SPEC, options)
    assert "\n" not in str(caught.value)
    with pytest.raises(error, match=says):
        Table.open(uri, options)


def test_a_table_where_a_file_is(server: ObjectServer, tmp_path: Path) -> None:
    server.objects["d.db/t"] = (b"a file", 0, 1)
    (tmp_path / "d.db").mkdir()
    (tmp_path / "d.db" / "t").write_text("a file")
    for place, options in (("s3://b/d.db/t", server.options), (f"{tmp_path}/d.db/t", None)):
        with pytest.raises(InvalidInputError, match="a file has this name: a table needs a directory"):
            Table.create(place, SPEC, options)
        with pytest.raises(NotFoundError):
            Table.open(place, options)
    assert list(server.objects) == ["d.db/t"]


@pytest.mark.parametrize(
    ("status", "code", "error", "says"),
    [
        (403, "ExpiredToken", InvalidInputError, "the credentials have expired: give new ones"),
        (403, "AccessDenied", InvalidInputError, "access denied"),
        (403, "RequestTimeTooSkewed", InvalidInputError, "the clock of this machine is wrong.*set the clock"),
        (404, "NoSuchBucket", NotFoundError, "there is no such bucket: make it, or mend the URI"),
        (400, "AuthorizationHeaderMalformed", InvalidInputError, "set storage option region"),
        (301, "PermanentRedirect", InvalidInputError, "set storage option region"),
    ],
)
def test_what_the_store_says(
    server: ObjectServer, status: int, code: str, error: type[LakeIdxError], says: str
) -> None:
    server.act, server.code = (lambda number, kind, key: status), code
    refused(error, says, "s3://b/d.db/t", server.options)
    assert not server.objects


def test_no_credentials_no_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_PROFILE",
        "AWS_ENDPOINT_URL",
        "AZURE_STORAGE_ACCOUNT_NAME",
    ):
        monkeypatch.delenv(name, raising=False)
    refused(UnsupportedError, "no store for ftp:// URIs", "ftp://b/d.db/t")
    refused(
        InvalidInputError, "no credentials: set those", "s3://b/d.db/t", {"metadata_endpoint": "http://127.0.0.1:9"}
    )
    refused(InvalidInputError, "Account must be specified", "az://c/d.db/t")
    refused(InvalidInputError, "belong together", "s3://b/d.db/t", {"key": "k"})
    refused(InvalidInputError, "gives no credentials", "s3://b/d.db/t", {"profile": "none"})


def test_a_bucket_of_one_name_in_two_clouds(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of one cloud asked the bucket of the other."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_BEARER_TOKEN"):
        monkeypatch.setenv(name, "x")
    options = {"endpoint_url": server.url, "max_attempts": 1}
    for scheme in ("s3", "gs"):
        assert open_store(f"{scheme}://b/x", options).put_if_absent(f"{scheme}://b/x/{scheme}", b"1")
    server.act = lambda number, kind, key: 503
    for scheme, name in (("s3", "S3"), ("gs", "GCS")):
        with pytest.raises(UnavailableError, match=f"Generic {name} error"):
            open_store(f"{scheme}://b/x", options).list(f"{scheme}://b/x")
