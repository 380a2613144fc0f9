"""`faultbridge gpus`, `device` and `finding`: GPUs in service, the history of a GPU, and signs of gray failures."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from msgspec import to_builtins

from faultbridge.cli.commands.options import AnyClusterOption, ClusterOption, ReasonOption
from faultbridge.cli.declare import Argument, Option, Text, command
from faultbridge.cli.render.output import Columns, Document, fields
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession
from faultbridge.decode.data import gpus_by_instance_type, offender_odds
from faultbridge.decode.data.counters import detectors
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import UnknownName
from faultbridge.model.findings import Mark
from faultbridge.record.history import DeviceHistory
from faultbridge.repair.registry.gpus import gpu_figure
from faultbridge.repair.registry.hardware_documents import finding_document, offender_document

_HOUR_MS = 3_600_000
FIGURES: Columns = fields(
    "CLUSTER, GPUS, IN SERVICE=gpus_in_service, SHARE, GPU-HOURS LOST=gpu_hours_lost, NODES NOT COUNTED"
) | {"SHARE": lambda one: None if one["percent_in_service"] is None else f"{one['percent_in_service']:g} %"}


@command("gpus", "", "--cluster train-a --since 7d")
def show_gpus(
    session: StackSession,
    cluster: AnyClusterOption = None,
    since: Annotated[str, Option("TIME", f"Start of the GPU-hours. {PAST_HELP}")] = "30d",
) -> None:
    """Show the share of GPUs in service, and the GPU-hours lost out of service, by cluster."""
    session.show((_figure(session, name, since) for name in session.cluster_names(cluster)), FIGURES)


def _figure(session: Session, cluster: str, since: str) -> Document:
    now, views = session.now(), session.directory
    cases = [view.case for view in views.cases(cluster, tuple(CaseStatus))]
    start = parse_time(since, now) or now - timedelta(days=30)
    figure = gpu_figure(views.nodes(cluster), cases, gpus_by_instance_type(), start, now)
    return {
        "cluster": cluster,
        "gpus": figure.gpus,
        "gpus_in_service": figure.in_service,
        "percent_in_service": figure.percent,
        "gpu_hours_lost": None if figure.lost_ms is None else round(figure.lost_ms / _HOUR_MS, 2),
        "nodes_not_counted": figure.unknown_nodes,
    }


HISTORY: Columns = fields("TIME (UTC)=at:time, NODE, INSTANCE=instance_id, SLOT, KIND, WHAT=text, CASE=case_id") | {
    "NODE": lambda one: f"{one.cluster}/{one.node}"
}
OFFENDERS: Columns = fields("DEVICE, INSTANCE=instance_id, SLOT, FAULTS, OTHER SLOTS, OTHER CARDS, RATIO, FAVORS") | {
    "OTHER SLOTS": lambda one: f"{one.card.faulty} of {one.card.number} faulty",
    "OTHER CARDS": lambda one: f"{one.other_cards.faulty} of {one.other_cards.number} faulty",
    "RATIO": lambda one: f"{one.likelihood_ratio:g}",
}


@command("device history", "1653524071234")
def show_history(session: StackSession, device: Annotated[str, Argument("DEVICE", "Serial number or UUID.")]) -> None:
    """Show the nodes in which a device was, and its faults, repairs and diagnostics, oldest first."""
    events = DeviceHistory(session.ports.table)(device)
    if not events:
        raise UnknownName("device", device)
    session.show(events, HISTORY)


@command("device offenders", "--cluster train-a --since 90d")
def list_offenders(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[Text, Option("TIME", f"Only faults recorded since this time. {PAST_HELP}")] = None,
) -> None:
    """List GPU cards and slots with repeated severe faults, and whether card or slot is likelier faulty.

    Severe faults have the severity error or fatal. RATIO is the likelihood ratio of a faulty card to a faulty slot. EC2
    and HyperPod do not show the host of an instance, so a slot is a PCI address in one instance.
    """
    session.directory.cluster(cluster)
    history = DeviceHistory(session.ports.table)
    found = history.offenders(cluster, offender_odds(), parse_time(since, session.now()))
    session.show(map(offender_document, found), OFFENDERS)


_EXAMPLE_ID = "f-abcdefghijklmnop"
FindingArgument = Annotated[str, Argument("ID", "Id of the finding.")]
FINDINGS: Columns = fields("FINDING=finding_id, NODE, DETECTOR, VALUE, MEDIAN, PEERS, OPENED=opened_at:time, MARK") | {
    "NODE": lambda one: f"{one.cluster}/{one.node}"
}
FINDING: Columns = fields(
    "Finding=finding_id, Node, Detector, Evidence, Opened=opened_at:at, Ended=ended_at:at, Mark, Marked by, Reason"
) | {"Node": FINDINGS["NODE"]}
DETECTORS: Columns = fields("DETECTOR, FINDINGS, RIGHT, WRONG, PRECISION") | {
    "PRECISION": lambda one: None if one["precision_percent"] is None else f"{one['precision_percent']} %"
}


@command("finding list", "", "--cluster train-a --all")
def list_findings(
    session: StackSession,
    cluster: AnyClusterOption = None,
    ended: Annotated[bool, Option("--all", "Also the findings that ended in the last year.")] = False,
) -> None:
    """List open findings, oldest first: nodes with far more errors or throttling, and slow devices of jobs."""
    found = session.judgments.list(session.cluster_names(cluster), ended=ended)
    session.show(map(finding_document, found), FINDINGS)


@command("finding show", _EXAMPLE_ID)
def show_finding(session: StackSession, finding: FindingArgument) -> None:
    """Show a finding, and whether an operator marked it as right or wrong."""
    session.show_one(finding_document(session.judgments.show(finding)), FINDING)


@command("finding mark", f"{_EXAMPLE_ID} right --reason 'bad cable'")
def mark_finding(
    session: ChangingSession,
    finding: FindingArgument,
    mark: Annotated[Mark, Argument("right|wrong", "Whether the node had a defect.")],
    reason: ReasonOption = "",
) -> None:
    """Record whether a finding was right. The precision of a detector is computed from these records."""
    session.show_one(finding_document(session.judgments.mark(finding, mark, session.operator, reason)), FINDING)


@command("finding precision", "", "--json")
def show_precision(session: StackSession, cluster: AnyClusterOption = None) -> None:
    """Show for each detector how many findings were marked right or wrong, and the share marked right.

    The figures include open findings, and findings that ended in the last year.
    """
    judgments = session.judgments
    known = judgments.list(session.cluster_names(cluster), ended=True)
    found = judgments.precision((*detectors(), *detectors("jobs")), known)
    session.show(({**to_builtins(one), "precision_percent": one.percent} for one in found), DETECTORS)
