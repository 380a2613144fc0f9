"""A log bundle through SSM: the instance packs its logs and puts them under a signed address of the bucket.

The address is signed with the right of our function, so the instance needs none of its own; it is good for one key and
a quarter of an hour.
"""

from __future__ import annotations

import shlex

from botocore.exceptions import ClientError

from faultbridge.adapters import ssm_commands
from faultbridge.adapters.aws_errors import code_of, translated
from faultbridge.adapters.clients import Clients
from faultbridge.adapters.ssm_commands import RUNNING, UNFINISHED
from faultbridge.ports import Bundle, BundleState

SECONDS = 300
SIGNED_SECONDS = 900
PREFIX = "raw/bundles"
URL = "FAULTBRIDGE_BUNDLE_URL="
KERNEL_LINES = 20_000
REASON_CHARACTERS = 300


class SsmCollector:
    """A Collector for instances whose SSM agent answers."""

    def __init__(self, clients: Clients, bucket: str) -> None:
        self._clients = clients
        self._bucket = bucket

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Send the script, unless one was sent with this token, and read how it stands."""
        key = f"{PREFIX}/{instance_id}/{token}.tar.gz"
        place, named = f"s3://{self._bucket}/{key}", f"{token} bundle"
        with translated(f"collecting the logs of {instance_id}"):
            try:
                sent = ssm_commands.find(self._clients.ssm, instance_id, named) or self._send(instance_id, named, key)
            except ClientError as error:
                if code_of(error) == "InvalidInstanceId":
                    return Bundle(BundleState.FAILED, place, "the agent does not answer")
                raise
            found = ssm_commands.invocation(self._clients.ssm, instance_id, sent)
        if found is None or (found["Status"] in RUNNING and ssm_commands.details_of(found) not in UNFINISHED):
            return Bundle(BundleState.RUNNING, place)
        if found["Status"] == "Success":
            return Bundle(BundleState.KEPT, place)
        words = str(found.get("StandardErrorContent", "")).strip()
        reason = f"the command ended as {ssm_commands.details_of(found) or found['Status']}: {words}".rstrip(": ")
        return Bundle(BundleState.FAILED, place, reason[:REASON_CHARACTERS])

    def _send(self, instance_id: str, named: str, key: str) -> str:
        url = self._clients.s3.generate_presigned_url(
            "put_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=SIGNED_SECONDS
        )
        return ssm_commands.send(self._clients.ssm, instance_id, named, script(url), seconds=SECONDS)


def script(url: str) -> tuple[str, ...]:
    """Return the lines of the script; what a host does not have is left out of its bundle."""
    return (
        "set -u",
        f"{URL}{shlex.quote(url)}",
        "folder=$(mktemp -d)",
        "trap 'rm -rf \"$folder\"' EXIT",
        'cd "$folder"',
        "timeout 120 nvidia-bug-report.sh --safe-mode --output-file nvidia-bug-report.log >/dev/null 2>&1",
        "timeout 30 nvidia-smi -q > nvidia-smi.txt 2>&1",
        "timeout 30 dcgmi health -c -j > dcgmi-health.json 2>&1",
        f"timeout 30 journalctl -k --no-pager -n {KERNEL_LINES} > kernel.log 2>&1 || dmesg -T > kernel.log 2>&1",
        "timeout 30 tar -czf bundle.tar.gz --exclude bundle.tar.gz .",
        f'curl -fsS --max-time 60 -T bundle.tar.gz "${URL.rstrip("=")}"',
    )
