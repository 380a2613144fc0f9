"""Raw records and evidence on S3."""

from __future__ import annotations

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients

MISSING = frozenset({"NoSuchKey", "404"})


class S3Objects:
    """An ObjectStore in one bucket."""

    def __init__(self, clients: Clients, bucket: str) -> None:
        self._clients = clients
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; the same key again is the same content again."""
        with translated(f"keeping s3://{self._bucket}/{key}"):
            self._clients.s3.put_object(Bucket=self._bucket, Key=key, Body=body)

    def get(self, key: str) -> bytes | None:
        """Read the bytes back, or None; without the right to list the bucket a missing key is Misconfigured."""
        with translated(f"reading s3://{self._bucket}/{key}"):
            try:
                answer = self._clients.s3.get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if code_of(error) in MISSING:
                    return None
                raise
            return answer["Body"].read()
