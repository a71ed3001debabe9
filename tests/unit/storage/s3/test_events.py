"""Messages of S3, MinIO, EventBridge and SNS, and what is none of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeidx.errors import InvalidInputError
from lakeidx.storage.s3.events import created_objects

# As AWS documents it, shortened: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
FROM_AWS = """{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"us-west-2",
"eventTime":"1970-01-01T00:00:00.000Z","eventName":"ObjectCreated:Put","userIdentity":{"principalId":"AIDAJDPLRKLG7UEXAMPLE"},
"s3":{"s3SchemaVersion":"1.0","configurationId":"testConfigRule","bucket":{"name":"amzn-s3-demo-bucket",
"arn":"arn:aws:s3:::amzn-s3-demo-bucket"},"object":{"key":"landing/red+flower%2B%C3%A9.jpg","size":1024,
"eTag":"d41d8cd98f00b204e9800998ecf8427e","sequencer":"0055AED6DCD90281E5"}}}]}"""
# As MinIO sends it, shortened.
FROM_MINIO = """{"EventName":"s3:ObjectCreated:CompleteMultipartUpload","Key":"lake/in/a.csv","Records":[{"eventSource":"minio:s3",
"eventName":"s3:ObjectCreated:CompleteMultipartUpload","s3":{"bucket":{"name":"lake"},"object":{"key":"in%2Fa.csv"}}}]}"""
# As AWS documents it, whole but for the key: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
FROM_EVENT_BRIDGE = """{"version":"0","id":"17793124-05d4-b198-2fde-7ededc63b103","detail-type":"Object Created","source":"aws.s3",
"account":"111122223333","time":"2021-11-12T00:00:00Z","region":"ca-central-1","resources":["arn:aws:s3:::amzn-s3-demo-bucket1"],
"detail":{"version":"0","bucket":{"name":"amzn-s3-demo-bucket1"},"object":{"key":"landing/50%+é 1.csv","size":5,
"etag":"b1946ac92492d2347c6235b4d2611184","version-id":"IYV3p45BT0ac8hjHg1houSdS1a.Mro8e","sequencer":"617f08299329d189"},
"request-id":"N4N7GDK58NMKJ12R","requester":"123456789012","source-ip-address":"1.2.3.4","reason":"PutObject"}}"""
TEST_EVENT = '{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2014-10-13T15:57:02.089Z","Bucket":"b"}'


def record(key: Any, event: str = "ObjectCreated:Put", bucket: Any = "b") -> dict[str, Any]:
    return {"eventName": event, "s3": {"bucket": {"name": bucket}, "object": {"key": key}}}


def body(*records: Any) -> str:
    return json.dumps({"Records": records})


def bridged(bucket: Any, key: Any) -> str:
    detail = {"bucket": {"name": bucket}, "object": {"key": key}}
    return json.dumps({"source": "aws.s3", "detail-type": "Object Created", "detail": detail})


@pytest.mark.parametrize("wrapped", [False, True])
def test_keys_are_decoded_whoever_sends_the_message(wrapped: bool) -> None:
    def sent(text: str) -> str:
        return json.dumps({"Type": "Notification", "TopicArn": "arn:t", "Message": text}) if wrapped else text

    assert created_objects(sent(FROM_AWS)) == [("amzn-s3-demo-bucket", "landing/red flower+é.jpg")]
    assert created_objects(sent(FROM_MINIO)) == [("lake", "in/a.csv")]
    assert created_objects(sent(FROM_EVENT_BRIDGE)) == [("amzn-s3-demo-bucket1", "landing/50%+é 1.csv")]
    assert created_objects(sent(FROM_EVENT_BRIDGE.replace("Object Created", "Object Deleted"))) == []
    assert created_objects(sent(TEST_EVENT)) == []


def test_a_message_may_have_many_records_of_all_kinds() -> None:
    kinds = ("ObjectCreated:Copy", "ObjectRemoved:Delete", "s3:ObjectCreated:Post", "ObjectRestore:Completed")
    found = created_objects(body(*(record(f"k{i}", kind) for i, kind in enumerate(kinds))))
    assert [o.key for o in found] == ["k0", "k2"]
    assert created_objects(body()) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not a JSON object"),
        ('"text"', "not a JSON object"),
        ("{}", "no list 'Records'"),
        ('{"Records": {}}', "no list 'Records'"),
        ('{"Message": "hello"}', "not JSON"),
        ('{"Message": {"Records": []}}', "no list 'Records'"),
        (body(record("a"), {}), "record 2 lacks eventName"),
        (body("a"), "record 1 lacks eventName"),
        (body({**record("a"), "s3": None}), "record 1 lacks eventName"),
        (body(record(7)), "is empty or not text"),
        (body(record("")), "is empty or not text"),
        (body(record("a", bucket=None)), "is empty or not text"),
        ('{"source": "aws.s3", "detail-type": "Object Created"}', "lacks detail.bucket.name"),
        (bridged("b", 7), "detail.object.key that is empty or not text"),
        (bridged("", "k"), "detail.object.key that is empty or not text"),
        (json.dumps({**json.loads(bridged("b", "k")), "source": "my.app"}), "no list 'Records'"),
        (body(record("%ff")), "key of record 1 is not UTF-8: '%ff'"),
    ],
)
def test_what_is_no_event_says_why_in_one_line(text: str, says: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        created_objects(text)
    assert str(caught.value).startswith("no event notification of S3: ")
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
