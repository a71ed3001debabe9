"""Make the bucket of a deployment, and show that the store keeps the promise that commits rest on. Does nothing the second time.

The bucket is that of LAKEIDX_WAREHOUSE; AWS_* say where and as whom. Waits for a server that is still starting.
"""

from __future__ import annotations

import os
import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from lakeidx.storage import open_store
from lakeidx.storage.probe import ensure_safe

_WAIT_SECONDS = 120


def main() -> int:
    """Make the bucket and probe it; return the exit code."""
    bucket = os.environ["LAKEIDX_WAREHOUSE"].removeprefix("s3://").split("/")[0]
    end = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            _make(bucket)
            break
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() > end:
                print(f"bucket {bucket}: {error}", file=sys.stderr)
                return 1
            time.sleep(1)
    ensure_safe(open_store(f"s3://{bucket}"), f"s3://{bucket}")
    print(f"bucket {bucket} is there, and of racing writers one wins")
    return 0


def _make(bucket: str) -> None:
    region = os.environ.get("AWS_REGION", "us-east-1")
    client = boto3.client("s3", region_name=region)
    # S3 refuses its oldest region as a constraint, and every other without one.
    where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        client.create_bucket(Bucket=bucket, **where)
    except (client.exceptions.BucketAlreadyOwnedByYou, client.exceptions.BucketAlreadyExists):
        return


if __name__ == "__main__":
    sys.exit(main())
