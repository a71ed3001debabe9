"""An object store in this process, over HTTP, for tests: the XML protocol of S3 and of Google, as far as lakeidx's client sends it.

It keeps objects in memory and does to each request what a test tells it to. What it does not know it answers with 501.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

#: pass: answer · a status: answered before anything was done · unheard: the connection ends before anything was done · lost: done,
#: but the connection ends without an answer · unsure: done, answered with 500 · cut: the body ends early · short: a range has
#: fewer bytes than it says · silent: done, and then nothing for longer than a client waits
Act = Literal["pass", "unheard", "lost", "unsure", "cut", "short", "silent"] | int
#: Requests as a test names them.
KINDS = ("get", "head", "put", "create", "list", "delete", "start", "part", "complete", "abort")
SILENCE_SECONDS = 1.5
TOKEN = "a-token-of-tests"
_CODES = {409: "ConditionalRequestConflict", 412: "PreconditionFailed", 429: "TooManyRequests", 500: "InternalError",
          503: "SlowDown", 403: "ExpiredToken", 404: "NoSuchKey", 416: "InvalidRange", 501: "NotImplemented"}  # fmt: skip


@dataclass
class ObjectServer:
    """The server; `url` is its endpoint.

    act      called with (number of the request, kind, key); several requests run at a time
    acts     how often each thing was done, by kind
    page     keys of one page of a listing
    lag      seconds that pass before listings show an object
    code     what an answer that refuses says in its body; else what its status usually means
    stays    keys that are not deleted, and the code that an answer gives for each
    minio    as MinIO does: nothing can be put below an object
    hear     called with the address and the headers of each request
    at_once  the most requests that were answered at a time
    """

    act: Callable[[int, str, str], Act] = lambda number, kind, key: "pass"
    acts: Counter[tuple[str, Act]] = field(default_factory=Counter)
    page: int = 1000
    lag: float = 0
    minio: bool = False
    code: str = ""
    stays: Mapping[str, str] = field(default_factory=dict)
    hear: Callable[[str, Mapping[str, str]], None] = lambda address, headers: None
    under_way: int = 0
    at_once: int = 0
    token: str | None = None
    url: str = ""
    objects: dict[str, tuple[bytes, float, int]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def options(self) -> dict[str, Any]:
        """Storage options of S3."""
        return {"endpoint_url": self.url, "key": "k", "secret": "the-secret", "region": "us-east-1"}

    def reset(self) -> None:
        """Answer all requests, and forget what was done."""
        self.act, self.lag, self.page = (lambda number, kind, key: "pass"), 0, 1000
        self.hear, self.at_once, self.code = (lambda address, headers: None), 0, ""
        self.stays = {}
        with self.lock:
            self.acts.clear()
            self.objects.clear()
            self.uploads.clear()

    def put(self, key: str, data: bytes, absent: bool) -> tuple[int, dict[str, str]]:
        """Put an object; 412 when it had to be absent and is not."""
        with self.lock:
            above = (key[: at.start()] for at in re.finditer("/", key))
            if self.minio and any(name in self.objects for name in above):
                return 400, {}
            if absent and key in self.objects:
                return 412, {}
            number = next(self.numbers)
            self.objects[key] = (data, time.time(), number)
            return 200, {"ETag": etag(data), "x-goog-generation": str(number)}


def etag(data: bytes) -> str:
    """The mark of a content."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server_: ObjectServer

    def serve(self) -> None:
        here = self.server_
        with here.lock:
            here.under_way += 1
            here.at_once = max(here.at_once, here.under_way)
        try:
            self._serve()
        finally:
            with here.lock:
                here.under_way -= 1

    def _serve(self) -> None:
        self.server_.hear(self.path, {name.lower(): value for name, value in self.headers.items()})
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        kind = self._kind(key, query)
        with self.server_.lock:
            number = next(self.server_.numbers)
        act = self.server_.act(number, kind, key)
        with self.server_.lock:
            self.server_.acts[kind, act] += 1
        if self.server_.token and self.headers.get("Authorization") != f"Bearer {self.server_.token}":
            act = 401
        if isinstance(act, int):
            self._answer(act, {}, error(act, self.server_.code))
        elif act == "unheard":
            self._hang_up()
        else:
            status, headers, data = self._do(kind, key, query, body)
            if act == "silent":
                time.sleep(SILENCE_SECONDS)
            if act in ("lost", "silent"):
                self._hang_up()
            elif act == "unsure":
                self._answer(500, {}, error(500))
            elif act == "cut":
                self._answer(status, headers, data, sent=len(data) // 2)
                self._hang_up()
            elif act == "short" and status == 206:
                self._answer(status, headers, data[: len(data) // 2])
            else:
                self._answer(status, headers, data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve

    def _kind(self, key: str, query: dict[str, str]) -> str:
        if self.command == "GET":
            return "get" if key else "list"
        if self.command == "POST":
            return "delete" if "delete" in query else "start" if "uploads" in query else "complete"
        if self.command == "PUT" and "uploadId" in query:
            return "part"
        if self.command == "DELETE":
            return "abort" if "uploadId" in query else "delete"
        absent = self.headers.get("If-None-Match") == "*" or self.headers.get("x-goog-if-generation-match") == "0"
        return "head" if self.command == "HEAD" else "create" if absent else "put"

    def _do(self, kind: str, key: str, query: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        here = self.server_
        if kind in ("get", "head"):
            return self._read(key)
        if kind in ("put", "create"):
            return *here.put(key, body, kind == "create"), b""
        if kind == "list":
            return 200, {}, listing(here, query)
        with here.lock:
            if kind == "delete" and self.command == "POST":
                keys = [e.text or "" for e in ElementTree.fromstring(body).iter() if e.tag.endswith("Key")]
                if len(keys) > 1000:
                    return 400, {}, error(400, "MalformedXML")
                done = ""
                for each in keys:
                    key, code = escape(each), here.stays.get(each)
                    if code is None:
                        here.objects.pop(each, None)
                        done += f"<Deleted><Key>{key}</Key></Deleted>"
                    else:
                        done += f"<Error><Key>{key}</Key><Code>{code}</Code><Message>as told</Message></Error>"
                return 200, {}, f"<DeleteResult>{done}</DeleteResult>".encode()
            if kind == "delete":
                return (404, {}, error(404)) if here.objects.pop(key, None) is None else (204, {}, b"")
            if kind == "start":
                upload = str(next(here.numbers))
                here.uploads[upload] = {}
                return (
                    200,
                    {},
                    f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode(),
                )
            upload = query["uploadId"]
            if upload not in here.uploads:
                return 404, {}, error(404, "NoSuchUpload")
            if kind == "part":
                here.uploads[upload][int(query["partNumber"])] = body
                return 200, {"ETag": etag(body)}, b""
            parts = here.uploads.pop(upload)
            if kind == "abort":
                return 204, {}, b""
            _, headers = here.put(key, b"".join(parts[n] for n in sorted(parts)), False)
            mark = escape(headers["ETag"])
            return (
                200,
                headers,
                f"<CompleteMultipartUploadResult><ETag>{mark}</ETag></CompleteMultipartUploadResult>".encode(),
            )

    def _read(self, key: str) -> tuple[int, dict[str, str], bytes]:
        with self.server_.lock:
            found = self.server_.objects.get(key)
        if found is None:
            return 404, {}, error(404)
        data, when, number = found
        headers = {"ETag": etag(data), "Last-Modified": formatdate(when, usegmt=True), "x-goog-generation": str(number)}
        wanted = self.headers.get("Range")
        if wanted is None:
            return 200, headers, data
        start, _, last = wanted.removeprefix("bytes=").partition("-")
        first = int(start)
        if first >= len(data):
            return 416, {}, error(416)
        piece = data[first : int(last) + 1 if last else None]
        return 206, {**headers, "Content-Range": f"bytes {first}-{first + len(piece) - 1}/{len(data)}"}, piece

    def _answer(self, status: int, headers: dict[str, str], data: bytes, *, sent: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(data[:sent])

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def error(status: int, code: str = "") -> bytes:
    """The body of an answer that refuses."""
    said = f"<Code>{code or _CODES.get(status, 'Refused')}</Code><Message>as told</Message>"
    return f"<?xml version='1.0'?><Error>{said}</Error>".encode()


def listing(here: ObjectServer, query: dict[str, str]) -> bytes:
    """One page of a listing."""
    assert query.get("list-type") == "2", "only version 2 of listings is known"
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    after = query.get("continuation-token") or query.get("start-after") or ""
    with here.lock:
        shown_until = time.time() - here.lag
        found = {k: o for k, o in here.objects.items() if k.startswith(prefix) and o[1] <= shown_until}
    entries: dict[str, str] = {}
    for key in sorted(found):
        directory = (
            key[: key.index(delimiter, len(prefix)) + 1] if delimiter and delimiter in key[len(prefix) :] else ""
        )
        data, when, _ = found[key]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(when))
        entries[directory or key] = (
            f"<CommonPrefixes><Prefix>{escape(directory)}</Prefix></CommonPrefixes>"
            if directory
            else f"<Contents><Key>{escape(key)}</Key><LastModified>{stamp}</LastModified><ETag>{escape(etag(data))}</ETag>"
            f"<Size>{len(data)}</Size></Contents>"
        )
    names = [name for name in sorted(entries) if name > after]
    shown = names[: here.page]
    more = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if len(names) > len(shown) else ""
    whole = f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}{''.join(entries[name] for name in shown)}"
    return f"<?xml version='1.0'?><ListBucketResult><Name>b</Name>{whole}</ListBucketResult>".encode()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients hang up, as they may."""


@contextmanager
def object_server(token: str | None = None, tls: ssl.SSLContext | None = None) -> Iterator[ObjectServer]:
    """Run a server, over TLS where `tls` is given; `token`: every request must bear it."""
    server = ObjectServer(token=token)
    listener = _Listener(("127.0.0.1", 0), type("Handler", (_Handler,), {"server_": server}))
    if tls is not None:
        listener.socket = tls.wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    server.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.server_address[1]}"
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
