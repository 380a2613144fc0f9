"""Collect the logs of an instance through SSM, or read a few lines of them.

For a bundle, the instance uploads its logs to a presigned S3 URL.

The Lambda function signs the URL with its own permission, so the instance needs no permission. The URL is valid for one
key and 15 minutes. Nodes have no permission on the key prefix, so no node can read or overwrite the logs of another
node.
"""

from __future__ import annotations

import shlex
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, translated
from faultbridge.adapters.ec2 import commands
from faultbridge.model.errors import Rejected
from faultbridge.model.retry import Retry
from faultbridge.model.storage.wire.message import UNPACK
from faultbridge.record.ports.compute import Bundle, BundleState, HostOutput

SECONDS = 300
SIGNED_SECONDS = 900
PREFIX = "bundles"
URL = "FAULTBRIDGE_BUNDLE_URL="
KERNEL_LINES = 20_000
REASON_CHARACTERS = 300
MISSING = frozenset({"404", "NoSuchKey", "NotFound"})

READ_SCRIPT = (
    "export LC_ALL=C TZ=UTC",
    "pack() { gzip -9c | base64 -w0; echo; }",
    "printf 'kernel-log '",
    # The first line of the buffer shows since when it is complete, unless `tail` removes it with older lines.
    "timeout 5 dmesg --time-format iso | sed -n -e 1p -e '/NVRM/p' -e '/nvidia-nvswitch/p' | tail -n 200 | pack",
    "printf 'nvidia-smi '",
    "timeout 12 nvidia-smi -q -x | pack",
)
"""The shell script of `read`. Packed, its output for eight GPUs is half as long as SSM's answer may be."""


class SsmLogCollector:
    """A Collector that collects logs from instances with a reachable SSM agent."""

    def __init__(self, compute: Clients, storage: Clients, bucket: str) -> None:
        """Store the clients of the account of the instances (`compute`) and of the bucket (`storage`)."""
        self._ssm = compute.ssm
        self._s3 = storage.s3
        self._bucket = bucket

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Start the collection once per token, and return the state of the bundle."""
        key = f"{PREFIX}/{instance_id}/{token}.tar.gz"
        place, command_token = f"s3://{self._bucket}/{key}", f"{token} bundle"
        with translated(f"collecting the logs of {instance_id}"):
            try:
                sent = commands.find(self._ssm, instance_id, command_token) or self._send(
                    instance_id, command_token, key
                )
            except ClientError as error:
                if code_of(error) == "InvalidInstanceId":
                    return Bundle(BundleState.FAILED, place, "the SSM agent does not respond")
                raise
            found = commands.invocation(self._ssm, instance_id, sent)
            if found is None or commands.is_running(found):
                return Bundle(BundleState.RUNNING, place)
            if found["Status"] == "Success":
                return self._stored(key, place)
        stderr = str(found.get("StandardErrorContent", "")).strip()
        reason = f"the command ended as {commands.details_of(found) or found['Status']}: {stderr}".rstrip(": ")
        return Bundle(BundleState.FAILED, place, reason[:REASON_CHARACTERS])

    def read(self, instance_id: str, token: str) -> HostOutput | None:
        """Send `READ_SCRIPT` once per token, and return its output; None while it runs."""
        with translated(f"reading the kernel log of {instance_id}"):
            try:
                sent = commands.find(self._ssm, instance_id, token) or commands.send(
                    self._ssm, instance_id, token, READ_SCRIPT, seconds=20, delivery_seconds=30, retry=Retry(1)
                )
            except ClientError as error:
                if code_of(error) == "InvalidInstanceId":
                    return HostOutput()
                raise
            found = commands.invocation(self._ssm, instance_id, sent)
            if found is None or commands.is_running(found):
                return None
            if found["Status"] != "Success":
                return HostOutput()
            (command,) = self._ssm.list_commands(CommandId=sent)["Commands"]
        return _host_output(command["RequestedDateTime"].astimezone(UTC), found)

    def _stored(self, key: str, place: str) -> Bundle:
        """Return KEPT if the object exists and is not empty: a command can succeed without an upload."""
        try:
            size = self._s3.head_object(Bucket=self._bucket, Key=key)["ContentLength"]
        except ClientError as error:
            if code_of(error) not in MISSING:
                raise
            size = 0
        if size == 0:
            return Bundle(BundleState.FAILED, place, "the command succeeded, but the bucket has no bundle")
        return Bundle(BundleState.KEPT, place)

    def _send(self, instance_id: str, command_token: str, key: str) -> str:
        lines = script(self.presigned_url(key))
        # One attempt here, because this client itself retries a throttled call.
        return commands.send(self._ssm, instance_id, command_token, lines, seconds=SECONDS, retry=Retry(1))

    def presigned_url(self, key: str) -> str:
        """Return a URL that accepts uploads to one S3 key for 15 minutes."""
        url: str = self._s3.generate_presigned_url(
            "put_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=SIGNED_SECONDS
        )
        return url


def _host_output(at: datetime, found: Mapping[str, Any]) -> HostOutput:
    lines = str(found.get("StandardOutputContent", "")).splitlines()
    parts = {name: _unpacked(packed) for name, _, packed in (line.partition(" ") for line in lines)}
    kernel_log = parts.get("kernel-log", b"")
    try:
        log_from = datetime.fromisoformat(kernel_log.partition(b" ")[0].decode())
    except ValueError:
        return HostOutput(at, nvidia_smi=parts.get("nvidia-smi", b""))
    return HostOutput(at, kernel_log, log_from, parts.get("nvidia-smi", b""))


def _unpacked(packed: str) -> bytes:
    try:
        return UNPACK["gzip+base64"](packed.strip())
    except (ValueError, zlib.error, Rejected):  # SSM truncated the output, or the tool is not installed
        return b""


def script(url: str) -> tuple[str, ...]:
    """Return the shell script that collects logs and uploads them; a missing program does not stop it."""
    return (
        "set -u",
        f"{URL}{shlex.quote(url)}",
        "folder=$(mktemp -d)",
        'trap \'rm -rf "$folder" "$folder.tar.gz"\' EXIT',
        'cd "$folder"',
        "timeout 120 nvidia-bug-report.sh --safe-mode --output-file nvidia-bug-report.log >/dev/null 2>&1",
        "timeout 30 nvidia-smi -q > nvidia-smi.txt 2>&1",
        "timeout 30 dcgmi health -c -j > dcgmi-health.json 2>&1",
        f"timeout 30 journalctl -k --no-pager -n {KERNEL_LINES} > kernel.log 2>&1 || dmesg -T > kernel.log 2>&1",
        # Outside the folder: tar warns when a folder changes while it is read.
        'timeout 30 tar -czf "$folder.tar.gz" .',
        f'code=$(curl -sS --max-time 60 -o /dev/null -w "%{{http_code}}" -T "$folder.tar.gz" "${URL.rstrip("=")}")',
        # curl counts a redirect as success, but the bundle is stored only with status 200.
        '[ "$code" = 200 ] || { echo "the upload was answered with status $code" >&2; exit 22; }',
    )
