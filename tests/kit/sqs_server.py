"""A queue server on loopback for tests: moto's SQS behind the standard library's HTTP server, so that a real client talks to it.

Use `sqs_server()`; it gives the URL of a fresh queue, and a client of botocore to send to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import botocore.session
from moto.core.request import Request
from moto.sqs.models import sqs_backends
from moto.sqs.responses import SQSResponse

from lakeidx.testing.limits import HANGS_SECONDS

#: moto keeps its queues by account and region.
_ACCOUNT, _REGION = "123456789012", "us-east-1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = f"http://{self.headers['Host']}{self.path}"
        request = Request.from_primitives("POST", url, self.headers, body)
        status, headers, answer = SQSResponse.dispatch(request, url, request.headers)
        data = answer.encode() if isinstance(answer, str) else answer
        self.send_response(int(status))
        for name, value in headers.items():
            if name.lower() not in ("content-length", "server", "date"):
                self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass(frozen=True, slots=True)
class SqsServer:
    """A server with one queue, whose messages stay hidden for an hour once they were received."""

    endpoint: str
    queue: str
    client: Any

    @property
    def storage_options(self) -> dict[str, str]:
        return {"key": "test", "secret": "test", "region": _REGION}

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.client.send_message(QueueUrl=self.queue, MessageBody=body)

    def show_again(self) -> None:
        """End the time in which received messages are hidden."""
        for message in self._messages():
            message.change_visibility(0)

    def bodies(self) -> list[str]:
        """All messages there are, hidden or not."""
        return [str(m.body) for m in self._messages()]

    def _messages(self) -> list[Any]:
        return list(sqs_backends[_ACCOUNT][_REGION].queues["landing"]._messages)


@contextmanager
def sqs_server(attributes: Mapping[str, str] | None = None) -> Iterator[SqsServer]:
    """A running server with an empty queue."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    client = botocore.session.Session().create_client(
        "sqs", endpoint_url=endpoint, region_name=_REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )
    try:
        made = {"VisibilityTimeout": "3600", **(attributes or {})}
        client.create_queue(QueueName="landing", Attributes=made)
        yield SqsServer(endpoint, f"{endpoint}/{_ACCOUNT}/landing", client)
    finally:
        client.close()
        server.shutdown()
        server.server_close()
        thread.join(HANGS_SECONDS)
        sqs_backends[_ACCOUNT][_REGION].reset()
