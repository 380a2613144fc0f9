"""Raw records, evidence and the archive on S3."""

from __future__ import annotations

from collections.abc import Iterator

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Rejected

MISSING = frozenset({"NoSuchKey", "404"})


class S3Objects:
    """An ObjectStore, and an Archive, in one bucket; with `most_bytes` nothing larger is read."""

    def __init__(self, clients: Clients, bucket: str, most_bytes: int | None = None) -> None:
        self._clients = clients
        self._bucket = bucket
        self._most_bytes = most_bytes

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; the same key again is the same content again."""
        with translated(f"keeping s3://{self._bucket}/{key}"):
            self._clients.s3.put_object(Bucket=self._bucket, Key=key, Body=body)

    def get(self, key: str) -> bytes | None:
        """Read the bytes back, or None; `too_large` before anything of a larger object is read.

        Without the right to list the bucket a missing key is Misconfigured.
        """
        with translated(f"reading s3://{self._bucket}/{key}"):
            try:
                answer = self._clients.s3.get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if code_of(error) in MISSING:
                    return None
                raise
            size = answer["ContentLength"]
            if self._most_bytes is not None and size > self._most_bytes:
                answer["Body"].close()
                raise Rejected("too_large", f"{key} has {size} bytes, more than {self._most_bytes}")
            return answer["Body"].read()

    def list(self, prefix: str) -> Iterator[str]:
        """List every key that begins so, in order."""
        pages = self._clients.s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        with translated(f"listing s3://{self._bucket}/{prefix}"):
            for page in pages:
                yield from (found["Key"] for found in page.get("Contents", []))
