"""Read the recorded entries of clusters for a back-test, from a stack or from an archive copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import CLUSTER_VARIABLE
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.archive_copy import ArchiveOption, archived_entries, open_folder
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.config import ClusterConfig, Mode, RepairOwner

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """The recorded history that the options select: the cluster, the time range and the archive copy."""

    cluster: str | None
    since: str | None
    until: str | None
    archive: Path | None

    @property
    def asked(self) -> bool:
        """Return whether the options select recorded history: --since, --until or --archive was given.

        The option --cluster alone selects no history.
        """
        return any((self.since, self.until, self.archive))

    def read(self, session: Session) -> Iterator[tuple[ClusterConfig, list[Document]]]:
        """Yield the configuration and the recorded entries of each selected cluster.

        The entries are in the order of recording. The configuration is changed so that a back-test plans repairs: mode
        `act`, repair owner `provider` or `faultbridge`, no maintenance. For an archive copy, all other settings are
        defaults.
        """
        from faultbridge.ledger.timeline import TimelineQuery

        now = datetime.now(UTC) if self.archive else session.now()
        since, until = parse_time(self.since, now), parse_time(self.until, now, "--until")
        for config in self._clusters(session):
            query = TimelineQuery(config.cluster, since=since, until=until)
            lines = archived_entries(self.archive, query) if self.archive else session.timeline.entries(query)
            acting = replace(config, mode=Mode.ACT, repair_owner=_owner(config), maintenance_until=None)
            yield acting, [line.event for line in lines]

    def _clusters(self, session: Session) -> list[ClusterConfig]:
        if self.archive is not None:
            from faultbridge.archive.read import ReadArchive

            names = [self.cluster] if self.cluster else ReadArchive(open_folder(self.archive)).clusters()
            return [ClusterConfig(name) for name in names]
        if self.cluster is not None:
            return [session.directory.cluster(self.cluster).config]
        return [view.config for view in session.directory.clusters()]


def history_options(
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="CLUSTER", envvar=CLUSTER_VARIABLE, help="Only this cluster. Default: all."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Begin of the record to use. {PAST_HELP}")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help=f"End of the record to use. {PAST_HELP}")
    ] = None,
    archive: ArchiveOption = None,
) -> History:
    """Return the recorded history that the command line options select."""
    return History(cluster, since, until, archive)


def _owner(config: ClusterConfig) -> RepairOwner:
    provider = config.repair_owner is RepairOwner.PROVIDER
    return RepairOwner.PROVIDER if provider else RepairOwner.FAULTBRIDGE
