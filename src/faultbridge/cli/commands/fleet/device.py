"""`faultbridge device`: shows the history of a GPU across nodes, and GPUs with repeated faults."""

from __future__ import annotations

from typing import Annotated

from faultbridge.cli.commands.options import ClusterOption
from faultbridge.cli.declare import Argument, Option, command
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.render.times import PAST_HELP, parse_time, short_time
from faultbridge.cli.stack.command import StackSession
from faultbridge.model.errors import UnknownName
from faultbridge.repair.registry.hardware_documents import offender_document

HISTORY: Columns = {
    "TIME (UTC)": lambda one: short_time(one.at),
    "NODE": lambda one: f"{one.cluster}/{one.node}",
    **fields("INSTANCE=instance_id", "SLOT", "KIND", "WHAT=text", "CASE=case_id"),
}
OFFENDERS: Columns = {
    **fields("DEVICE", "INSTANCE=instance_id", "SLOT", "FAULTS"),
    "OTHER SLOTS": lambda one: f"{one.card.faulty} of {one.card.number} faulty",
    "OTHER CARDS": lambda one: f"{one.other_cards.faulty} of {one.other_cards.number} faulty",
    "RATIO": lambda one: f"{one.likelihood_ratio:g}",
    "FAVORS": lambda one: one.favors,
}


@command("device history", "1653524071234")
def show_history(session: StackSession, device: Annotated[str, Argument("DEVICE", "Serial number or UUID.")]) -> None:
    """Show the nodes in which a device was, and its faults, repairs and diagnostics, oldest first."""
    from faultbridge.record.history import DeviceHistory

    events = DeviceHistory(session.ports.table)(device)
    if not events:
        raise UnknownName("device", device)
    session.show(events, HISTORY)


@command("device offenders", "--cluster train-a --since 90d")
def list_offenders(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[str | None, Option("TIME", f"Only faults recorded since this time. {PAST_HELP}")] = None,
) -> None:
    """List GPU cards and slots with repeated severe faults, and whether card or slot is likelier faulty.

    Severe faults have the severity error or fatal. RATIO is the likelihood ratio of a faulty card to a faulty slot. EC2
    and HyperPod do not show the host of an instance, so a slot is a PCI address in one instance.
    """
    from faultbridge.decode.data import offender_odds
    from faultbridge.record.history import DeviceHistory

    session.directory.cluster(cluster)
    history = DeviceHistory(session.ports.table)
    found = history.offenders(cluster, offender_odds(), parse_time(since, session.now()))
    session.show(map(offender_document, found), OFFENDERS)
