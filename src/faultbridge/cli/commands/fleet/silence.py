"""`faultbridge silence`: holds the pages of a cluster that match, lists silences, and ends them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from faultbridge.cli.commands.options import AnyClusterOption, ClusterOption, ReasonOption
from faultbridge.cli.declare import Argument, BadParameter, Option, command
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time, short_time
from faultbridge.cli.stack.command import ChangingSession, StackSession, WaitOption, show_awaited
from faultbridge.model.cluster import silences
from faultbridge.model.times import EPOCH
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.documents import Silence, shared
from faultbridge.serve.wiring.services import wire_controls

SILENCES: Columns = {
    **fields("SILENCE=id", "CLUSTER"),
    "HOLDS PAGES OF": lambda one: one.scope,
    "FROM": lambda one: short_time(one.since),
    "UNTIL": lambda one: short_time(one.until),
    **fields("BY", "REASON"),
}


class ListedSilence(Silence, frozen=True, kw_only=True):
    """A silence with its cluster, and with its matchers as text."""

    cluster: str
    scope: str


def _listed(cluster: str, one: silences.Silence) -> ListedSilence:
    return shared(ListedSilence, one, cluster=cluster)


def _pattern(what: str) -> Option:
    return Option("PATTERN", f"Only pages about {what}; * matches any text.")


@command(
    "silence add",
    "--cluster train-a --node gpu-7 --until 2h \\",
    "    --reason 'RMA 123'",
    "--cluster train-a --rack 'r-*' --until 1d \\",
    "    --reason 'power work'",
)
def add_silence(
    session: ChangingSession,
    cluster: ClusterOption,
    until: Annotated[str, Option("TIME", f"End, at most 30 days from now: {FUTURE_HELP}.")],
    reason: ReasonOption = "",
    since: Annotated[str | None, Option("--from TIME", f"Start: {FUTURE_HELP}. Default: now.")] = None,
    group: Annotated[str | None, _pattern("nodes of this instance group")] = None,
    rack: Annotated[str | None, _pattern("nodes of this failure domain, such as a rack")] = None,
    node: Annotated[str | None, _pattern("this node")] = None,
    mode: Annotated[str | None, _pattern("this failure mode")] = None,
) -> None:
    """Hold the pages of a cluster that match until a time. Faults, events and repairs continue.

    Without a pattern, every page of the cluster is held. When the silence ends, one line says how many pages it held,
    and the pages that are still open are sent.
    """
    if not reason:
        raise BadParameter("no reason given: a silence needs --reason")
    now = session.now()
    end, start = parse_future_time(until, now), parse_future_time(since, now, "--from")
    wanted = silences.Silence(
        id="", by="", reason="", since=start or EPOCH, until=end or now, group=group, rack=rack, node=node, mode=mode
    )
    order = OperatorOrder(session.operator, reason)
    made = wire_controls(session.application).silence(cluster, order, wanted)
    session.show([_listed(cluster, made)], SILENCES)


@command("silence list", "", "--cluster train-a")
def list_silences(session: StackSession, cluster: AnyClusterOption = None, wait: WaitOption = 0) -> None:
    """List the silences that have not ended, the earliest start first."""

    def read() -> Iterator[ListedSilence]:
        for name in session.cluster_names(cluster):
            found = session.directory.cluster(name).control.silences.values()
            yield from (_listed(name, one) for one in sorted(found, key=lambda one: one.since))

    show_awaited(session, read, SILENCES, wait)


@command("silence end", "sil-abcdefghijkl --cluster train-a")
def end_silence(
    session: ChangingSession,
    silence: Annotated[str, Argument("ID", "Id of the silence.")],
    cluster: ClusterOption,
    reason: ReasonOption = "",
) -> None:
    """End a silence before its time. The pages that are still open are sent within a minute."""
    wire_controls(session.application).end_silence(cluster, silence, OperatorOrder(session.operator, reason))
    left = session.directory.cluster(cluster).control.silences.values()
    session.show([_listed(cluster, one) for one in left], SILENCES)
