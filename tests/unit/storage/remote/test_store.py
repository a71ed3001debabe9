"""The store of clouds against a scripted HTTP server: what it makes of every answer, and of none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import tenacity

from lakeidx.errors import CommitUnknownError, InvalidInputError, LakeIdxError, NotFoundError, UnavailableError
from lakeidx.storage.remote import store as remote
from lakeidx.storage.remote.store import RemoteStore
from lakeidx.testing.limits import HANGS_SECONDS

ERRORS = {
    400: "InvalidRequest", 403: "AccessDenied", 404: "NoSuchKey", 409: "ConditionalRequestConflict", 412: "PreconditionFailed",
    416: "InvalidRange", 429: "TooManyRequests", 500: "InternalError", 503: "SlowDown",
}  # fmt: skip


@dataclass
class Script:
    """Answers in order (the last one for ever), and the requests seen.

    An answer is a status, or "drop" (the connection is closed after the request was read), "cut" (the body ends early) or "hang".
    """

    answers: list[Any] = field(default_factory=lambda: [200])
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    body: bytes = b"hello"
    url: str = ""

    def next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    _stores: dict[float, RemoteStore] = field(default_factory=dict)

    def store(self, read_timeout: float = HANGS_SECONDS) -> RemoteStore:
        if read_timeout not in self._stores:
            options = {
                "endpoint_url": self.url,
                "key": "k",
                "secret": "the-secret",
                "max_attempts": 3,
                "read_timeout": read_timeout,
            }
            self._stores[read_timeout] = RemoteStore("s3://bucket/dir", options)
        return self._stores[read_timeout]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.script.requests.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
        answer = self.script.next()
        if answer == "drop":
            self.close_connection = True
            self.connection.close()
            return
        if answer == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
            return
        if answer == "hang":
            time.sleep(1)
            self.close_connection = True
            return
        body = self.script.body if answer in (200, 206) and self.command in ("GET", "POST") else b""
        part = self.headers.get("Range")
        if part and answer == 200:
            start, _, last = part.removeprefix("bytes=").partition("-")
            answer, whole = 206, len(body)
            body = body[int(start) : int(last) + 1]
        if answer >= 400 and self.command != "HEAD":
            code = ERRORS[answer]
            body = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>as told</Message></Error>'.encode()
        self.send_response(answer)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")
        if answer == 206:
            self.send_header("Content-Range", f"bytes {start}-{int(start) + len(body) - 1}/{whole}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer

    def log_message(self, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@pytest.fixture(scope="module")
def running() -> Iterator[Script]:
    """One server and few stores for all tests."""
    script = Script()
    handler = type("ScriptHandler", (Handler,), {"script": script})
    server = Server(("127.0.0.1", 0), handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        patch.setattr(remote, "RETRY_WAIT", tenacity.wait_none())
        yield script
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def script(running: Script) -> Script:
    running.answers, running.requests, running.body = [200], [], b"hello"
    return running


PATH = "s3://bucket/dir/snapshot-1"


def test_a_conditional_put_asks_for_absence(script: Script) -> None:
    assert script.store().put_if_absent(PATH, b"data")
    command, path, headers, body = script.requests[0]
    assert (command, path, body) == ("PUT", "/bucket/dir/snapshot-1", b"data")
    assert headers["if-none-match"] == "*"


def test_a_plain_put_does_not(script: Script) -> None:
    script.store().put(PATH, b"data")
    assert "if-none-match" not in script.requests[0][2]


def test_412_means_it_is_there(script: Script) -> None:
    script.answers = [412]
    assert not script.store().put_if_absent(PATH, b"data")
    assert len(script.requests) == 1


@pytest.mark.slow
def test_409_is_tried_again(script: Script) -> None:
    script.answers = [409, 409, 200]
    assert script.store().put_if_absent(PATH, b"data")
    assert len(script.requests) == 3
    script.answers, script.requests[:] = [409, 412], []
    assert not script.store().put_if_absent(PATH, b"data")
    script.answers, script.requests[:] = [409], []
    with pytest.raises(UnavailableError):
        script.store().put_if_absent(PATH, b"data")
    assert len(script.requests) == 3


@pytest.mark.slow
@pytest.mark.parametrize("answer", [500, 503, "drop", "hang"])
def test_an_unclear_answer_to_a_conditional_put_is_said_so(script: Script, answer: Any) -> None:
    """Trying again could meet our own file and take it for another's."""
    script.answers = [answer, 412]
    with pytest.raises(CommitUnknownError) as caught:
        script.store(0.4 if answer == "hang" else HANGS_SECONDS).put_if_absent(PATH, b"data")
    assert caught.value.path == PATH
    # On a slow machine the server may read the request after the client has given it up.
    end = time.monotonic() + HANGS_SECONDS
    while not script.requests and time.monotonic() < end:
        time.sleep(0.01)
    assert len(script.requests) == 1


def test_a_server_that_does_not_listen_is_unavailable() -> None:
    store = RemoteStore(
        "s3://bucket/x", {"endpoint_url": "http://127.0.0.1:9", "key": "k", "secret": "s", "max_attempts": 2}
    )
    for call in (lambda: store.put_if_absent(PATH, b"1"), lambda: store.get(PATH), lambda: store.list("s3://bucket/x")):
        with pytest.raises(UnavailableError):
            call()


CALLS: list[Callable[[RemoteStore], Any]] = [
    lambda s: s.get(PATH),
    lambda s: s.get_range(PATH, 0, 5),
    lambda s: s.put(PATH, b"1"),
    lambda s: s.delete(PATH),
    lambda s: s.size(PATH),
]
DELETED = b'<?xml version="1.0"?><DeleteResult><Deleted><Key>dir/a</Key></Deleted></DeleteResult>'


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("answer", [500, 503, 429, "drop"])
def test_other_requests_are_repeated(script: Script, call: Callable[[RemoteStore], Any], answer: Any) -> None:
    script.answers = [answer, answer, 200]
    if call is CALLS[3]:
        script.body = DELETED
    call(script.store())
    assert len(script.requests) == 3
    script.answers, script.requests[:] = [answer], []
    with pytest.raises(UnavailableError) as caught:
        call(script.store())
    assert caught.value.path == PATH
    assert len(script.requests) == 3


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("answer", "error"), [(403, InvalidInputError), (404, NotFoundError), (400, InvalidInputError)]
)
def test_refusals_are_not_repeated(
    script: Script, call: Callable[[RemoteStore], Any], answer: int, error: type[LakeIdxError]
) -> None:
    script.answers = [answer]
    if (call, answer) == (CALLS[3], 404):
        script.store().delete(PATH)
        return
    with pytest.raises(error) as caught:
        call(script.store())
    assert len(script.requests) == 1
    assert "the-secret" not in str(caught.value)


@pytest.mark.slow
def test_a_hanging_read_times_out(script: Script) -> None:
    script.answers = ["hang", 200]
    assert script.store(0.4).get(PATH) == b"hello"


@pytest.mark.parametrize(
    "call",
    [lambda s: s.get(PATH), lambda s: s.get_range(PATH, 0, 50), lambda s: s.get_ranges(PATH, [(0, 50), (50, 50)])],
)
def test_a_body_that_ends_early_is_read_again(script: Script, call: Callable[[RemoteStore], Any]) -> None:
    script.answers = ["cut", 200]
    assert b"hello" in (call(script.store()), *call(script.store()))
    script.answers = ["cut"]
    with pytest.raises(UnavailableError):
        call(script.store())


def test_get_is_one_request(script: Script) -> None:
    assert script.store().get(PATH) == b"hello"
    assert [r[0] for r in script.requests] == ["GET"]


def test_a_range_behind_the_end_is_empty(script: Script) -> None:
    script.answers = [416]
    assert script.store().get_range(PATH, 100, 5) == b""
    assert script.store().get_range(PATH, 100, 0) == b""


def test_delete_reports_what_stayed(script: Script) -> None:
    script.body = (
        b'<?xml version="1.0"?><DeleteResult><Deleted><Key>dir/b</Key></Deleted>'
        b"<Error><Key>dir/a</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    )
    with pytest.raises(InvalidInputError, match=r"access denied: .*dir/a.*no") as caught:
        script.store().delete_many(["s3://bucket/dir/a", "s3://bucket/dir/b"])
    assert caught.value.path == "s3://bucket/dir/a"


def test_a_store_that_says_of_a_missing_file_that_it_cannot_be_deleted(script: Script) -> None:
    error = b"<Error><Key>dir/b</Key><Code>NoSuchKey</Code><Message>no</Message></Error>"
    script.body = b'<?xml version="1.0"?><DeleteResult>' + error + b"</DeleteResult>"
    script.store().delete("s3://bucket/dir/b")
    script.store().delete_many(["s3://bucket/dir/b"])


def test_deletes_go_by_the_thousand(script: Script) -> None:
    script.body = DELETED
    script.store().delete_many(f"s3://bucket/dir/{n}" for n in range(2500))
    assert sorted(r[3].count(b"<Key>") for r in script.requests) == [500, 1000, 1000]


def test_near_ranges_are_one_request_and_long_ones_several(script: Script) -> None:
    script.body = bytes(range(256)) * (80 << 10)
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
    wanted = [script.body[o : o + n] for o, n in ranges]
    assert script.store().get_ranges(PATH, ranges) == wanted
    assert sorted(r[2]["range"] for r in script.requests) == [
        "bytes=0-700004",
        "bytes=20000000-20000099",
        "bytes=20971500-20971528",
    ]
    script.requests.clear()
    assert script.store().get(PATH) == script.body
    assert [r[2].get("range") is None for r in script.requests].count(True) == 1
    assert len(script.requests) == 4


def test_listings_follow_all_pages(script: Script) -> None:
    def page(keys: str, rest: str) -> bytes:
        inner = "".join(
            f"<Contents><Key>dir/{k}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
            for k in keys
        )
        return f'<?xml version="1.0"?><ListBucketResult><Name>bucket</Name>{inner}{rest}</ListBucketResult>'.encode()

    bodies = [
        page("ab", "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"),
        page("c", "<IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>dir/aa/</Prefix></CommonPrefixes>"),
    ]

    class Pages(list[Any]):
        def pop(self, at: Any = -1) -> Any:
            script.body = bodies.pop(0)
            return 200

        def __len__(self) -> int:
            return 2

    script.answers = Pages()
    found = script.store().list("s3://bucket/dir/")
    assert [(i.name, i.is_dir) for i in found] == [("a", False), ("aa", True), ("b", False), ("c", False)]
    assert found[0].mtime_ms == 1_767_225_600_000
    assert "continuation-token=t" in script.requests[1][1]


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


def test_requests_of_who_is_nobody_are_not_signed(script: Script) -> None:
    RemoteStore("s3://bucket/dir", {"endpoint_url": script.url, "anon": True}).get("s3://bucket/dir/a")
    script.store().get("s3://bucket/dir/a")
    assert ["authorization" in {n.lower() for n in headers} for _, _, headers, _ in script.requests] == [False, True]


def test_a_proxy_gets_the_requests(script: Script) -> None:
    """It is asked for the store's whole address."""
    options = {"endpoint_url": "http://store.example.com", "key": "k", "secret": "s", "proxy_url": script.url}
    assert RemoteStore("s3://bucket/dir", options).get("s3://bucket/dir/a") == script.body
    assert script.requests[0][1] == "http://store.example.com/bucket/dir/a"
