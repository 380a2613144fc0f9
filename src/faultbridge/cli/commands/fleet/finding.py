"""`faultbridge finding`: shows findings (signs of gray failures), and records whether they were right."""

from __future__ import annotations

from typing import Annotated

from msgspec import to_builtins

from faultbridge.cli.commands.options import AnyClusterOption, ReasonOption
from faultbridge.cli.declare import Argument, Option, command
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.render.times import short_time, stated_time
from faultbridge.cli.stack.command import ChangingSession, StackSession
from faultbridge.model.findings import Mark
from faultbridge.repair.registry.hardware_documents import finding_document

_EXAMPLE_ID = "f-abcdefghijklmnop"
FindingArgument = Annotated[str, Argument("ID", "Id of the finding.")]
FINDINGS: Columns = {
    "FINDING": lambda one: one.finding_id,
    "NODE": lambda one: f"{one.cluster}/{one.node}",
    **fields("DETECTOR", "VALUE", "MEDIAN", "PEERS"),
    "OPENED": lambda one: short_time(one.opened_at),
    "MARK": lambda one: one.mark,
}
FINDING: Columns = {
    "Finding": lambda one: one.finding_id,
    "Node": lambda one: f"{one.cluster}/{one.node}",
    "Detector": lambda one: one.detector,
    "Evidence": lambda one: one.evidence,
    "Opened": lambda one: stated_time(one.opened_at),
    "Ended": lambda one: stated_time(one.ended_at),
    **fields("Mark", "Marked by", "Reason"),
}
DETECTORS: Columns = {
    **fields("DETECTOR", "FINDINGS", "RIGHT", "WRONG"),
    "PRECISION": lambda one: None if one["precision_percent"] is None else f"{one['precision_percent']} %",
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
    from faultbridge.decode.data.counters import detectors

    judgments = session.judgments
    known = judgments.list(session.cluster_names(cluster), ended=True)
    found = judgments.precision((*detectors(), *detectors("jobs")), known)
    session.show(({**to_builtins(one), "precision_percent": one.percent} for one in found), DETECTORS)
