"""Anchors and sealed manifests in a bucket with Object Lock: nobody changes or deletes a version while it is locked.

A later version can be put over an object, the first one stays: that is the one which is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from botocore.exceptions import ClientError

from faultbridge.adapters.aws_errors import code_of, status_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Conflict

TAKEN = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})


class LockedObjects:
    """A Vault in one bucket, whose default retention locks each version as it is put."""

    def __init__(self, clients: Clients, bucket: str) -> None:
        self._clients = clients
        self._bucket = bucket

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; raises Conflict where something is kept already."""
        if self._first(key) is not None:
            raise Conflict(f"s3://{self._bucket}/{key} is kept already")
        with translated(f"locking s3://{self._bucket}/{key}"):
            try:
                # Object Lock asks for a checksum; SHA-256 is the one that the record speaks of everywhere else.
                self._clients.s3.put_object(
                    Bucket=self._bucket, Key=key, Body=body, IfNoneMatch="*", ChecksumAlgorithm="SHA256"
                )
            except ClientError as error:
                if code_of(error) in TAKEN or status_of(error) == HTTPStatus.PRECONDITION_FAILED:
                    raise Conflict(f"s3://{self._bucket}/{key} is kept already") from None
                raise

    def get(self, key: str) -> bytes | None:
        """Read the first version, or None; what was put over it or marked as deleted since does not matter."""
        version = self._first(key)
        if version is None:
            return None
        with translated(f"reading s3://{self._bucket}/{key}"):
            answer = self._clients.s3.get_object(Bucket=self._bucket, Key=key, VersionId=version)
            return answer["Body"].read()

    def list(self, prefix: str) -> Iterator[str]:
        """List every key that ever began so, in order."""
        seen = ""
        pages = self._clients.s3.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=prefix)
        with translated(f"listing s3://{self._bucket}/{prefix}"):
            for page in pages:
                for found in page.get("Versions", []):
                    if found["Key"] != seen:
                        seen = found["Key"]
                        yield seen

    def _first(self, key: str) -> str | None:
        first: str | None = None
        pages = self._clients.s3.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key)
        with translated(f"looking for s3://{self._bucket}/{key}"):
            for page in pages:
                for found in page.get("Versions", []):
                    if found["Key"] > key:
                        return first
                    if found["Key"] == key:
                        first = found["VersionId"]  # newest come first
        return first
