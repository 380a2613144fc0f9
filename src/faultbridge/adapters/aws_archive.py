"""What keeping the record for years takes, on AWS or on whatever the endpoint variables point at."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.adapters.aws import AwsPorts

if TYPE_CHECKING:
    from collections.abc import Callable

    from faultbridge.ports import Clock, Table
    from faultbridge.ports.archive import Archive, ArchiveSink, Vault


class AwsArchivePorts:
    """The ports of the archive, beside the others of one deployment."""

    def __init__(self, ports: AwsPorts) -> None:
        """Share the clients, the table and the clock."""
        self._ports = ports

    @property
    def clock(self) -> Clock:
        """Tell the time."""
        return self._ports.clock

    @property
    def table(self) -> Table:
        """Reach the one table."""
        return self._ports.table

    @cached_property
    def archive(self) -> Archive:
        """Reach the archive."""
        from faultbridge.adapters.s3 import S3Objects

        return S3Objects(self._ports.clients, self._ports.settings.archive_bucket)

    @cached_property
    def vault(self) -> Vault:
        """Reach the anchors."""
        from faultbridge.adapters.vault import LockedObjects

        return LockedObjects(self._ports.clients, self._ports.settings.vault_bucket)

    @cached_property
    def sink(self) -> ArchiveSink:
        """Reach the delivery stream, or put objects where there is none."""
        stream = self._ports.settings.archive_stream
        if not stream:
            from faultbridge.archive.write import ObjectSink

            return ObjectSink(self.archive)
        from faultbridge.adapters.firehose import FirehoseSink

        return FirehoseSink(self._ports.clients, stream)

    @cached_property
    def token_secret(self) -> Callable[[], bytes]:
        """Reach the secret that page tokens are signed with."""
        from faultbridge.adapters.secrets import StackSecret

        return StackSecret(self._ports.clients, self._ports.settings.token_secret)
