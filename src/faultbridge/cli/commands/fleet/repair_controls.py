"""`faultbridge pause`, `resume` and `breaker`: control whether repairs may start."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.options import (
    CLUSTER_VARIABLE,
    ClusterOption,
    ReasonOption,
    YesOption,
    confirm,
    default_cluster,
)
from faultbridge.cli.declare import EXIT_TRY_AGAIN, BadParameter, Exit, Option, Text, command
from faultbridge.cli.render.columns import CLUSTER, cluster_document
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time
from faultbridge.cli.stack.session import ChangingSession, Session, wait_until
from faultbridge.model.cluster.state import Control, domain_of
from faultbridge.repair.registry.documents import Cluster, shared
from faultbridge.serve.wiring.services import wire_controls

BREAKERS: Columns = fields("SCOPE, STATE, SINCE:time, FAILING") | {
    "SCOPE": lambda one: one.domain or "cluster",
    "FAILING": lambda one: f"{one.failing} of {one.of}",
}


CONTROL: Columns = fields("Cluster, Paused, Repairs running") | {
    "Paused": CLUSTER["Paused"],
    "Repairs running": CLUSTER["Repairs running"],
}
CONTROLS: Columns = {title.upper(): cell for title, cell in CONTROL.items()} | fields("PAUSED:yes")

OneClusterOption = Annotated[Text, Option("--cluster CLUSTER", f"Name of the cluster. Default: {CLUSTER_VARIABLE}.")]
AllOption = Annotated[bool, Option("--all", "All clusters of the stack; asks first.")]


@command("pause", "--cluster train-a --reason 'switch work' --until 2h", "--all")
def pause(
    session: ChangingSession,
    cluster: OneClusterOption = None,
    everything: AllOption = False,
    reason: ReasonOption = "",
    until: Annotated[Text, Option("TIME", f"End: {FUTURE_HELP}. Default: no end.")] = None,
    yes: YesOption = False,
) -> None:
    """Pause new repairs in a cluster, or in all clusters.

    Repairs that are running continue. `faultbridge case cancel` can stop a repair before the repair records its intent,
    the point of no return.
    """
    end = parse_future_time(until, session.now())
    names = _clusters(session, cluster, "pauses new repairs", everything=everything, yes=yes)
    controls, order = wire_controls(session.application), session.order(reason)
    for name in names:
        controls.pause(name, order, end)
    documents = _show(session, names, listed=everything)
    running = sum(len(one.holders) for one in documents)
    if running:
        session.remark(
            f"repairs that run and continue: {running}; `faultbridge case cancel CASE` stops one before its intent"
        )


@command("resume", "--cluster train-a", "--all")
def resume(
    session: ChangingSession,
    cluster: OneClusterOption = None,
    everything: AllOption = False,
    reason: ReasonOption = "",
    force: Annotated[bool, Option(help="Also end the pauses of other people.")] = False,
    yes: YesOption = False,
) -> None:
    """End your own pause of a cluster, or of all clusters.

    Repairs stay paused while another person's pause is left.
    """
    names = _clusters(session, cluster, "resumes repairs", everything=everything, yes=yes)
    controls, order = wire_controls(session.application), session.order(reason)
    for name in names:
        if everything and not force and order.person not in controls.read(name).pauses:
            continue
        controls.resume(name, order, force=force)
    left = [one.cluster for one in _show(session, names, listed=everything) if one.paused]
    if left:
        session.remark(f"still paused by others: {', '.join(left)}; `faultbridge resume --force` ends their pauses too")


@command("breaker", "--cluster train-a", "--cluster train-a --close")
def show_breakers(
    session: ChangingSession,
    cluster: ClusterOption,
    close: Annotated[bool, Option(help="Close the breakers although nodes are still failing.")] = False,
    yes: YesOption = False,
    wait: Annotated[
        int, Option("SECONDS", "Wait up to SECONDS until a breaker is not closed. Exit code 75: all are closed.", min=0)
    ] = 0,
) -> None:
    """Show or close the repair breakers of a cluster.

    A breaker opens when too many nodes of a cluster or failure domain fail at once. While the breaker is open,
    Faultbridge takes no node of this cluster or failure domain out of service.
    """
    controls = wire_controls(session.application)
    if close and wait:
        raise BadParameter("conflicting options: --close and --wait; give one of them")
    if close:
        controls.read(cluster)
        confirm(f"repairs of {cluster} start again although nodes are still failing", yes=yes)
        session.show(breaker_documents(controls.close_breakers(cluster, session.operator)), BREAKERS)
        return

    def opened() -> list[Breaker]:
        return [one for one in breaker_documents(controls.read(cluster)) if one.state != "closed"]

    is_open = bool(wait_until(opened, wait)) if wait else True
    session.show(breaker_documents(controls.read(cluster)), BREAKERS)
    if not is_open:
        raise Exit(EXIT_TRY_AGAIN)


def _clusters(session: Session, cluster: str | None, effect: str, *, everything: bool, yes: bool) -> list[str]:
    if not everything:
        named = cluster or default_cluster()
        if named is None:
            raise BadParameter("no cluster named: give --cluster or --all")
        return [named]
    if cluster is not None:
        raise BadParameter("conflicting options: --cluster and --all; give one of them")
    names = session.cluster_names()
    confirm(f"this {effect} in all {len(names)} clusters of the stack", yes=yes)
    return names


def _show(session: Session, names: list[str], *, listed: bool) -> list[Cluster]:
    documents = [cluster_document(session.directory.cluster(name)) for name in names]
    if listed:
        session.show(documents, CONTROLS)
    else:
        session.show_one(documents[0], CONTROL)
    return documents


class Breaker(Struct, frozen=True):
    """A breaker of a cluster, or of a failure domain, as a command prints it."""

    cluster: str
    domain: str | None
    state: str
    since: datetime
    failing: int
    of: int
    stays_open: bool


def breaker_documents(control: Control) -> list[Breaker]:
    """Return each breaker that has opened at least once in a cluster, with its current state."""
    return [
        shared(Breaker, one, cluster=control.cluster, domain=domain_of(name))
        for name, one in sorted(control.breakers.items())
    ]
