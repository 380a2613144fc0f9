"""`faultbridge cluster`: registers, shows and changes clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.fleet.changed_settings import show_changed
from faultbridge.cli.commands.fleet.cluster_settings import cluster_settings
from faultbridge.cli.commands.fleet.cluster_template import TEMPLATE_EXAMPLES, set_template
from faultbridge.cli.commands.options import ClusterArgument
from faultbridge.cli.commands.policy.documents import known_policy
from faultbridge.cli.errors.failures import EXIT_TRY_AGAIN
from faultbridge.cli.render.columns import CLUSTER, CLUSTERS, cluster_document
from faultbridge.cli.render.format_options import with_options
from faultbridge.cli.render.output import Document, examples, filled, notice
from faultbridge.cli.render.times import FUTURE_HELP, applies_text, json_time, parse_future_time, short_time
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.cli.stack.waiting import wait_until
from faultbridge.domain.cluster.config import ClusterConfig, Mode
from faultbridge.domain.cluster.state import ClusterStatus

app = typer.Typer(rich_markup_mode=None)


@app.command("list", epilog=examples("faultbridge cluster list", "faultbridge cluster list --json"))
@stack_command
def list_clusters(session: Session) -> None:
    """List every cluster.

    The list can include `faultbridge-canary`, a cluster without nodes for Faultbridge's own test records.
    """
    from faultbridge.ingest.canary import CLUSTER as CANARY_CLUSTER

    views = session.directory.clusters()
    session.show(map(cluster_document, views), CLUSTERS)
    if session.prints_table and any(view.config.cluster == CANARY_CLUSTER for view in views):
        notice(f"{CANARY_CLUSTER} has no nodes: every five minutes, a test record of Faultbridge passes through it")


@app.command("show", epilog=examples("faultbridge cluster show train-a", "faultbridge cluster show train-a --wait 300"))
@stack_command
def show_cluster(
    session: Session,
    cluster: ClusterArgument,
    wait: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="Wait until the cluster is healthy, and print its status.")
    ] = 0,
) -> None:
    """Show settings, status and repairs of a cluster.

    Exit code 75: --wait ended before the cluster was healthy.
    """
    view = session.directory.cluster(cluster)
    if not wait:
        session.show_one(cluster_document(view), {**CLUSTER, "Maintenance until": _maintenance_text(session)})
        return
    healthy = wait_until(lambda: _is_healthy(session, cluster), wait)
    view = session.directory.cluster(cluster)
    session.show_one(cluster_document(view), {title: CLUSTER[title] for title in ("Cluster", "Status", "By status")})
    if not healthy:
        raise typer.Exit(EXIT_TRY_AGAIN)


@app.command(
    "add",
    epilog=examples(
        "faultbridge cluster add train-a",
        "faultbridge cluster add train-a --mode act --repair-owner faultbridge \\",
        "    --provider ec2-auto-scaling --verifier ssm-dcgm",
        "faultbridge cluster add train-b --mode act --repair-owner faultbridge \\",
        "    --provider hyperpod --hyperpod-cluster hp-train",
    ),
)
@stack_command
@with_options(settings=cluster_settings)
def add_cluster(
    session: Session,
    cluster: ClusterArgument,
    settings: dict[str, Any],
) -> None:
    """Register a cluster. In the default mode `observe`, Faultbridge records faults and repairs nothing."""
    _check_parts(session, settings)
    registered = session.application.registry.registration.add_cluster(ClusterConfig(cluster, **settings))
    if session.prints_table:
        notice(f"cluster {cluster} is registered: {_repair_text(registered)}")
    applies_at = json_time(session.applies_at())
    document = {**cluster_document(session.directory.cluster(cluster)), "applies_at": applies_at}
    session.show_one(document, filled({**CLUSTER, "Applies": _applies}, document))


@app.command(
    "set",
    epilog=examples(
        "faultbridge cluster set train-a --mode dry_run",
        "faultbridge cluster set train-a --mode act --repair-owner faultbridge",
    ),
)
@stack_command
@with_options(settings=cluster_settings)
def set_cluster(
    session: Session,
    cluster: ClusterArgument,
    settings: dict[str, Any],
    expected: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Expected number of nodes in the cluster.")
    ] = None,
) -> None:
    """Change settings of a cluster, and print what changed.

    Settings that are not given stay unchanged, but --provider hyperpod also sets the verifier and the restarter.
    """
    changes = settings if expected is None else {**settings, "expected": expected}
    if not changes:
        raise typer.BadParameter("no setting given; give at least one option")
    _check_parts(session, changes)
    before = session.directory.cluster(cluster).config
    after = session.application.registry.registration.set_cluster(cluster, changes)
    show_changed(session, before, _repair_text(after))


@app.command(
    "maintain",
    epilog=examples("faultbridge cluster maintain train-a --until 4h", "faultbridge cluster maintain train-a --end"),
)
@stack_command
def maintain_cluster(
    session: Session,
    cluster: ClusterArgument,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=f"End of the maintenance: {FUTURE_HELP}.")] = None,
    end: Annotated[bool, typer.Option("--end", help="End the maintenance now.")] = False,
) -> None:
    """Start or end maintenance of a cluster.

    During maintenance, faults are recorded and no repair starts.
    """
    at = parse_future_time(until, session.now())
    if (at is None) is not end:
        raise typer.BadParameter("give one of --until and --end")
    before = session.directory.cluster(cluster).config
    session.application.registry.registration.set_cluster(cluster, {"maintenance_until": at})
    show_changed(session, before, "no repair starts until then" if at else "no maintenance")


app.command("template", epilog=TEMPLATE_EXAMPLES)(set_template)


def _check_parts(session: Session, changes: dict[str, Any]) -> None:
    ports = session.ports
    for name, allowed in (
        ("provider", dict.fromkeys((*session.application.ports.inventories, *ports.providers))),
        ("orchestrator", ports.orchestrators),
        ("verifier", ports.verifiers),
        ("restarter", ports.restarters),
    ):
        if name in changes and changes[name] not in allowed:
            raise typer.BadParameter(f"unknown --{name}: {changes[name]!r}; allowed: {', '.join(allowed)}")
    if version := changes.get("policy"):
        known_policy(session, version)


def _repair_text(config: ClusterConfig) -> str:
    if not config.opens_cases:
        return "observe only; enable repairs with --mode act --repair-owner faultbridge"
    if config.mode is Mode.DRY_RUN:
        return "planned repairs are recorded, and none is done; --mode act does them"
    return "repairs are enabled" if config.acts else "the provider repairs, and Faultbridge follows"


def _applies(shown: Document) -> str:
    return applies_text(shown["applies_at"])


def _is_healthy(session: Session, cluster: str) -> bool:
    return session.directory.cluster(cluster).state.status is ClusterStatus.HEALTHY


def _maintenance_text(session: Session) -> Callable[[Document], object]:
    now = json_time(session.now()) or ""

    def cell(shown: Document) -> str:
        until = shown["maintenance_until"]
        return short_time(until) + (" (over)" if until and until <= now else "")

    return cell
