"""`faultbridge gpus`: shows the share of GPUs in service and the GPU-hours lost, by cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from faultbridge.cli.commands.options import AnyClusterOption
from faultbridge.cli.declare import Option, command
from faultbridge.cli.render.output import Columns, Document, fields
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.command import StackSession
from faultbridge.cli.stack.session import Session
from faultbridge.model.enums import CaseStatus

_HOUR_MS = 3_600_000
FIGURES: Columns = {
    **fields("CLUSTER", "GPUS", "IN SERVICE=gpus_in_service"),
    "SHARE": lambda one: None if one["percent_in_service"] is None else f"{one['percent_in_service']:g} %",
    **fields("GPU-HOURS LOST=gpu_hours_lost", "NODES NOT COUNTED"),
}


@command("gpus", "", "--cluster train-a --since 7d")
def show_gpus(
    session: StackSession,
    cluster: AnyClusterOption = None,
    since: Annotated[str, Option("TIME", f"Start of the GPU-hours. {PAST_HELP}")] = "30d",
) -> None:
    """Show the share of GPUs in service, and the GPU-hours lost out of service, by cluster."""
    names = session.cluster_names(cluster)
    session.show((_figure(session, name, since) for name in names), FIGURES)


def _figure(session: Session, cluster: str, since: str) -> Document:
    from faultbridge.decode.data import gpus_by_instance_type
    from faultbridge.repair.registry.gpus import gpu_figure

    now = session.now()
    nodes = session.directory.nodes(cluster)
    cases = [view.case for view in session.directory.cases(cluster, tuple(CaseStatus))]
    start = parse_time(since, now) or now - timedelta(days=30)
    figure = gpu_figure(nodes, cases, gpus_by_instance_type(), start, now)
    return {
        "cluster": cluster,
        "gpus": figure.gpus,
        "gpus_in_service": figure.in_service,
        "percent_in_service": figure.percent,
        "gpu_hours_lost": None if figure.lost_ms is None else round(figure.lost_ms / _HOUR_MS, 2),
        "nodes_not_counted": figure.unknown_nodes,
    }
