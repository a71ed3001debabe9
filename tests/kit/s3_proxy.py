"""A proxy before an object store's server that answers 503, loses answers, or says nothing, as told."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

from lakeidx.testing.limits import HANGS_SECONDS

#: pass: hand on · busy: 503 before anything was done · lost: done, but the connection ends without an answer · silent: done,
#: and then nothing for longer than a client waits
Act = Literal["pass", "busy", "lost", "silent"]
SILENCE_SECONDS = 4.0
_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection"}
_BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'


@dataclass
class FaultyProxy:
    """The proxy's address, and what it does to each request.

    server the address of the server behind it
    act    called with (number of the request, method, path); several requests run at a time
    acts   how often each thing was done
    """

    server: str
    act: Callable[[int, str, str], Act] = lambda number, method, path: "pass"
    acts: Counter[str] = field(default_factory=Counter)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _requests: int = 0

    def choose(self, method: str, path: str) -> Act:
        """What to do with the next request."""
        with self._lock:
            self._requests += 1
            chosen = self.act(self._requests, method, path)
            self.acts[chosen] += 1
            return chosen


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def relay(self) -> None:
        body = self._body()
        act = self.proxy.choose(self.command, self.path)
        if act == "busy":
            self._answer(503, {}, b"" if self.command == "HEAD" else _BUSY)
            return
        status, headers, data = self._ask(body)
        if act != "pass":
            if act == "silent":
                time.sleep(SILENCE_SECONDS)
            self.close_connection = True
            self.connection.close()
            return
        self._answer(status, headers, data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        where = urlsplit(self.proxy.server)
        # The host header stays: the request's signature covers it.
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP | {"expect", "content-length"}}
        if self.command in ("PUT", "POST"):
            headers["Content-Length"] = str(len(body))
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=HANGS_SECONDS)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, {k: v for k, v in answer.getheaders() if k.lower() not in _HOP}, data
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD" or "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = relay

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@contextmanager
def faulty_proxy(server: str) -> Iterator[FaultyProxy]:
    """A running proxy; give its `url` to clients as the endpoint."""
    proxy = FaultyProxy(server)
    handler = type("Handler", (_Handler,), {"proxy": proxy})
    listener = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    proxy.url = f"http://127.0.0.1:{listener.server_address[1]}"
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
