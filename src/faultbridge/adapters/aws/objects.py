"""Store objects in S3: raw records, evidence, the archive, and anchors under Object Lock."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, status_of, translated
from faultbridge.model.errors import Conflict, Rejected

MISSING = frozenset({"NoSuchKey", "404"})
EXISTS = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})


class S3Objects:
    """An ObjectStore and an Archive in one S3 bucket; objects larger than `max_bytes` are not read."""

    def __init__(self, clients: Clients, bucket: str, max_bytes: int | None = None) -> None:
        self._clients = clients
        self._bucket = bucket
        self._max_bytes = max_bytes

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes under the key."""
        with translated(f"storing s3://{self._bucket}/{key}"):
            self._clients.s3.put_object(Bucket=self._bucket, Key=key, Body=body)

    def get(self, key: str) -> bytes | None:
        """Return the bytes of the key, or None if the key does not exist.

        Raises Rejected `too_large` if the object has more than `max_bytes`. Without the permission to list the bucket,
        S3 reports a missing key as access denied; the call then raises Misconfigured.
        """
        with translated(f"reading s3://{self._bucket}/{key}"):
            try:
                answer = self._clients.s3.get_object(Bucket=self._bucket, Key=key)
            except ClientError as error:
                if code_of(error) in MISSING:
                    return None
                raise
            size = answer["ContentLength"]
            if self._max_bytes is not None and size > self._max_bytes:
                answer["Body"].close()
                raise Rejected("too_large", f"{key} has {size} bytes; at most {self._max_bytes}")
            return answer["Body"].read()

    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key in the bucket that starts with `prefix`, in alphabetical order."""
        pages = self._clients.s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        with translated(f"listing s3://{self._bucket}/{prefix}"):
            for page in pages:
                yield from (found["Key"] for found in page.get("Contents", []))


class LockedObjects:
    """A Vault in one S3 bucket, whose objects are protected by Object Lock.

    The default retention of the bucket locks each stored version. A later version can hide the first version, but the
    first version stays locked, and `get` reads it.
    """

    def __init__(self, clients: Clients, bucket: str) -> None:
        self._clients = clients
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        """Store the bytes under the key; raises Conflict if the key has a stored version."""
        if self._first_version(key) is not None:
            raise Conflict(f"s3://{self._bucket}/{key} exists already")
        with translated(f"storing s3://{self._bucket}/{key}"):
            try:
                # Object Lock requires a checksum. The archive uses SHA-256 everywhere else, so it is used here too.
                self._clients.s3.put_object(
                    Bucket=self._bucket, Key=key, Body=body, IfNoneMatch="*", ChecksumAlgorithm="SHA256"
                )
            except ClientError as error:
                if code_of(error) in EXISTS or status_of(error) == HTTPStatus.PRECONDITION_FAILED:
                    raise Conflict(f"s3://{self._bucket}/{key} exists already") from None
                raise

    def get(self, key: str) -> bytes | None:
        """Return the bytes of the first stored version of the key, or None if there is none.

        Later versions and delete markers are ignored.
        """
        version = self._first_version(key)
        if version is None:
            return None
        with translated(f"reading s3://{self._bucket}/{key}"):
            answer = self._clients.s3.get_object(Bucket=self._bucket, Key=key, VersionId=version)
            return answer["Body"].read()

    def list(self, prefix: str) -> Iterator[str]:
        """Yield every key that starts with `prefix` and has a stored version, in alphabetical order."""
        seen = ""
        pages = self._clients.s3.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=prefix)
        with translated(f"listing s3://{self._bucket}/{prefix}"):
            for page in pages:
                for found in page.get("Versions", []):
                    if found["Key"] != seen:
                        seen = found["Key"]
                        yield seen

    def _first_version(self, key: str) -> str | None:
        first: str | None = None
        pages = self._clients.s3.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key)
        with translated(f"listing the versions of s3://{self._bucket}/{key}"):
            for page in pages:
                for found in page.get("Versions", []):
                    if found["Key"] > key:
                        return first
                    if found["Key"] == key:
                        first = found["VersionId"]  # S3 lists the newest version first
        return first
