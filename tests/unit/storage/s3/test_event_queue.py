"""The queue's client against a local SQS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakeidx.errors import InvalidInputError, NotFoundError, UnavailableError
from lakeidx.storage.s3.event_queue import EventQueue
from tests.kit.sqs_server import SqsServer, sqs_server


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SqsServer]:
    # Another service's endpoint is not the queue's.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ENDPOINT_URL_SQS", raising=False)
    with sqs_server() as server:
        yield server


@pytest.mark.slow
def test_messages_are_received_in_bulk_up_to_a_number_and_stay_until_they_are_deleted(server: SqsServer) -> None:
    sent = [f"message {i}" for i in range(23)]
    server.send(*sent)
    queue = EventQueue(server.queue, server.storage_options)
    first = queue.receive(12)
    rest = queue.receive(100)
    assert (len(first), len(rest)) == (12, 11)
    assert sorted(m.body for m in first + rest) == sorted(sent)
    assert queue.receive(10) == []
    assert len({m.id for m in first + rest}) == 23
    assert queue.delete([m.receipt for m in first]) == []
    assert sorted(server.bodies()) == sorted(m.body for m in rest)
    server.show_again()
    again = queue.receive(100)
    assert {m.id for m in again} == {m.id for m in rest}
    # What was deleted before is no error; a receipt of no message is named.
    failed = queue.delete([first[0].receipt, *(m.receipt for m in again), "nonsense"])
    assert [f.partition(":")[0] for f in failed] == ["ReceiptHandleIsInvalid"]
    assert server.bodies() == []


def test_errors_are_of_the_kind_that_says_what_to_do(server: SqsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFoundError, match=r"/other: there is no such queue: landing\.events\.url names it"):
        EventQueue(server.queue.replace("/landing", "/other"), server.storage_options).receive(1)
    closed = {**server.storage_options, "max_attempts": 1}
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9/1/q: the queue did not answer"):
        EventQueue("http://127.0.0.1:9/1/q", closed).receive(1)
    with pytest.raises(InvalidInputError, match="unknown storage option 'colour'"):
        EventQueue(server.queue, {"colour": "red"})
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(InvalidInputError, match="access denied"):
        EventQueue(server.queue).receive(1)


@pytest.mark.parametrize(
    ("url", "given", "endpoint", "region"),
    [
        ("https://sqs.eu-west-1.amazonaws.com/1/q", {}, "https://sqs.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://sqs.us-gov-west-1.amazonaws.com/1/q", {"region": "eu-west-1"}, None, "us-gov-west-1"),
        ("https://sqs.cn-north-1.amazonaws.com.cn/1/q", {}, "https://sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("https://vpce-1.sqs.us-east-2.vpce.amazonaws.com/1/q", {}, None, "us-east-2"),
        ("http://localhost:4566/000000000000/q", {"region": "eu-west-3"}, "http://localhost:4566", "eu-west-3"),
        ("http://localhost:4566/000000000000/q", {"endpoint_url": "http://s3:9000"}, None, "us-east-1"),
    ],
)
def test_the_url_says_whom_to_ask_and_where(
    url: str, given: dict[str, str], endpoint: str | None, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    client = EventQueue(url, {"key": "k", "secret": "s", **given})._connect()
    assert client.meta.region_name == region
    assert client.meta.endpoint_url == (endpoint or url.removesuffix("/1/q").removesuffix("/000000000000/q"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", "http://queue:1")
    assert EventQueue(url, {"key": "k", "secret": "s", **given})._connect().meta.endpoint_url == "http://queue:1"
