"""The store of clouds against a server in this process: which requests it sends, and what it makes of answers that say more than
their status. What goes wrong with a request is in `tests/contract/test_store_faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import tenacity

from lakeidx.errors import CommitUnknownError, InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.storage.remote import store as remote
from lakeidx.storage.remote.store import RemoteStore
from tests.kit.object_server import ObjectServer, object_server

PATH = "s3://bucket/dir/snapshot-1"


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectServer]:
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setattr(remote, "RETRY_WAIT", tenacity.wait_none())
        yield server


@pytest.fixture
def server(running: ObjectServer) -> ObjectServer:
    running.reset()
    return running


@pytest.fixture
def store(server: ObjectServer) -> RemoteStore:
    return RemoteStore("s3://bucket/dir", {**server.options, "max_attempts": 3})


def heard(server: ObjectServer) -> list[tuple[str, Mapping[str, str]]]:
    """Address and headers of each request from now on."""
    found: list[tuple[str, Mapping[str, str]]] = []
    server.hear = lambda address, headers: found.append((address, headers))
    return found


CALLS: dict[str, Callable[[RemoteStore], Any]] = {
    "get": lambda s: s.get(PATH),
    "range": lambda s: s.get_range(PATH, 0, 5),
    "put": lambda s: s.put(PATH, b"1"),
    "create": lambda s: s.put_if_absent(PATH, b"1"),
    "delete": lambda s: s.delete(PATH),
    "size": lambda s: s.size(PATH),
}
WRONG: list[tuple[int, type[LakeIdxError], int]] = [
    (409, UnavailableError, 3), (429, UnavailableError, 3), (503, UnavailableError, 3), (400, InvalidInputError, 1),
    (403, InvalidInputError, 1), (404, NotFoundError, 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("answer", "error", "requests"), WRONG)
def test_what_may_pass_is_asked_again_and_a_refusal_is_not(
    server: ObjectServer, store: RemoteStore, name: str, answer: int, error: type[LakeIdxError], requests: int
) -> None:
    server.act = lambda number, kind, key: answer
    if (name, answer) == ("delete", 404):
        CALLS[name](store)
        return
    if name == "create" and answer in (429, 503):
        # Trying again could meet our own file and take it for another's.
        error, requests = CommitUnknownError, 1
    with pytest.raises(error) as caught:
        CALLS[name](store)
    assert server.acts.total() == requests
    assert caught.value.path == PATH
    assert "the-secret" not in str(caught.value)


def test_a_server_that_does_not_listen_is_unavailable() -> None:
    store = RemoteStore(
        "s3://bucket/x", {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s", "max_attempts": 2}
    )
    for call in (lambda: store.put_if_absent(PATH, b"1"), lambda: store.get(PATH), lambda: store.list("s3://bucket/x")):
        with pytest.raises(UnavailableError):
            call()


def test_delete_reports_what_stayed(server: ObjectServer, store: RemoteStore) -> None:
    server.stays = {"dir/a": "AccessDenied"}
    with pytest.raises(InvalidInputError, match=r"access denied: .*dir/a.*as told") as caught:
        store.delete_many(["s3://bucket/dir/a", "s3://bucket/dir/b"])
    assert caught.value.path == "s3://bucket/dir/a"


def test_a_store_that_says_of_a_missing_file_that_it_cannot_be_deleted(
    server: ObjectServer, store: RemoteStore
) -> None:
    server.stays = {"dir/b": "NoSuchKey"}
    store.delete("s3://bucket/dir/b")
    store.delete_many(["s3://bucket/dir/b"])


def test_deletes_go_by_the_thousand(server: ObjectServer, store: RemoteStore) -> None:
    """The server refuses more at a time, as S3 does."""
    store.delete_many(f"s3://bucket/dir/{n}" for n in range(2500))
    assert server.acts == {("delete", "pass"): 3}


def test_near_ranges_are_one_request_and_long_ones_several(server: ObjectServer, store: RemoteStore) -> None:
    data = bytes(range(256)) * (80 << 10)
    server.objects["dir/snapshot-1"] = (data, 0, 1)
    requests = heard(server)
    ranges = [
        (700_000, 5),
        (0, 10),
        (5, 20),
        (400_000, 0),
        (3, 500_000),
        (20_000_000, 100),
        (20_971_500, 20),
        (20_971_520, 9),
    ]
    wanted = [data[o : o + n] for o, n in ranges]
    assert store.get_ranges(PATH, ranges) == wanted
    assert sorted(headers["range"] for _, headers in requests) == [
        "bytes=0-700004",
        "bytes=20000000-20000099",
        "bytes=20971500-20971528",
    ]
    requests.clear()
    assert store.get(PATH) == data
    assert ["range" not in headers for _, headers in requests].count(True) == 1
    assert len(requests) == 4


def test_other_uris_are_refused() -> None:
    for uri in ("s3://", "s3:///x", "/x", "ftp://b/x"):
        with pytest.raises(InvalidInputError):
            RemoteStore(uri)
    with pytest.raises(InvalidInputError):
        RemoteStore("s3://b/x").get("/local/path")
    with pytest.raises(InvalidInputError, match=r"expected s3://bucket/"):
        RemoteStore("s3://b/x").get("gs://b/x")


def test_secrets_do_not_show() -> None:
    store = RemoteStore("s3://b/x", {"key": "the-key", "secret": "the-secret", "endpoint_url": "http://127.0.0.1:9"})
    for text in (repr(store), str(store), store.place, repr(store._options)):
        assert "the-secret" not in text
        assert "the-key" not in text
    assert store.place == "s3:http://127.0.0.1:9/b"


def test_requests_of_who_is_nobody_are_not_signed(server: ObjectServer, store: RemoteStore) -> None:
    store.put(PATH, b"hello")
    requests = heard(server)
    RemoteStore("s3://bucket/dir", {"endpoint_url": server.url, "anon": True}).get(PATH)
    store.get(PATH)
    assert ["authorization" in headers for _, headers in requests] == [False, True]


def test_a_proxy_gets_the_requests(server: ObjectServer, store: RemoteStore) -> None:
    """It is asked for the store's whole address."""
    store.put(PATH, b"hello")
    requests = heard(server)
    options = {"endpoint_url": "http://store.example.com", "key": "k", "secret": "s", "proxy_url": server.url}
    assert RemoteStore("s3://bucket/dir", options).get(PATH) == b"hello"
    assert [address for address, _ in requests] == ["http://store.example.com/bucket/dir/snapshot-1"]
