"""`faultbridge policy backtest` and `policy diff`: show what another policy would have decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultbridge.cli.commands.options import CLUSTER_VARIABLE, with_options
from faultbridge.cli.commands.policy.documents import packaged_document, policy_store, read_policy_file
from faultbridge.cli.render.output import Columns, examples, fields, print_line
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.archive_copy import ArchiveOption, archived_entries, open_folder
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.decide.backtest.plots import backtest_plots, write_plots
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.errors import Rejected

if TYPE_CHECKING:
    from faultbridge.decide.backtest.report import Report
    from faultbridge.record.policies import PolicyStore


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
        """Return whether --since, --until or --archive select recorded history; --cluster alone does not."""
        return any((self.since, self.until, self.archive))

    def read(self, session: Session) -> Iterator[tuple[ClusterConfig, list[Document]]]:
        """Yield the configuration, changed so that repairs are planned, and the entries of each cluster."""
        from faultbridge.record.timeline import TimelineQuery

        now = datetime.now(UTC) if self.archive else session.now()
        since, until = parse_time(self.since, now), parse_time(self.until, now, "--until")
        for config in self._clusters(session):
            query = TimelineQuery(config.cluster, since=since, until=until)
            lines = archived_entries(self.archive, query) if self.archive else session.timeline.entries(query)
            acting = replace(config, mode=Mode.ACT, repair_owner=_owner(config), maintenance_until=None)
            yield acting, [line.event for line in lines]

    def _clusters(self, session: Session) -> list[ClusterConfig]:
        if self.archive is not None:
            from faultbridge.record.archive.verification import ReadArchive

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


PolicyArgument = Annotated[str, typer.Argument(metavar="POLICY", help="Policy file, or a stored version.")]
VALUES: Columns = fields("RULE", "FIELD", "BEFORE", "AFTER")
DIFFERENCES: Columns = {
    "TIME": lambda one: one["at"][:19].replace("T", " "),
    **fields("NODE", "RECORDED", "POLICY=replayed"),
    "WHY": lambda one: one["explanation"] or one["reason"],
}
GAPS: Columns = {"COUNT": lambda one: one["count"], "NOT IN THE RECORD": lambda one: one["what"]}
TOTALS = {
    "cases": "cases",
    "verify": "verify",
    "reset_gpu": "reset_gpu",
    "reboot_node": "reboot_node",
    "replace_node": "replace_node",
    "nodes_touched": "nodes touched",
    "escalated": "cases escalated",
    "right": "repairs right",
    "needless": "repairs needless",
    "undetermined": "repairs undetermined",
    "missed": "repairs missed",
    "median_repair_seconds": "median repair, seconds",
    "gpu_hours_lost": "GPU-hours lost",
    "cases_with_unknown_loss": "cases, loss unknown",
}


@with_options(history=history_options)
def backtest_policy(
    session: Session,
    file: PolicyArgument,
    history: History,
    against: Annotated[
        str | None, typer.Option("--against", metavar="POLICY", help="Compare with this policy, not with the record.")
    ] = None,
    plots: Annotated[Path | None, typer.Option("--plots", metavar="FOLDER", help="Write charts as SVG there.")] = None,
) -> None:
    """Show what a policy would have decided about recorded history.

    Each recorded decision about a case is compared with the decision of Faultbridge's own code under the policy. While
    the decisions are equal, the recorded times and outcomes are used. From the first decision that differs, the case
    follows the policy.
    """
    document = _policy(session, file, history)
    other = _policy(session, against, history) if against else None
    clusters = _reports(session, history, document, other)
    if plots is not None:
        write_plots(plots, backtest_plots(clusters))
    if not session.prints_table:
        versions = {"policy": document["version"], "against": other["version"] if other else None}
        session.show_one({**versions, "clusters": clusters}, {})
        return
    for one in clusters:
        _print_cluster(session, one)


@with_options(history=history_options)
def diff_policies(session: Session, before: PolicyArgument, after: PolicyArgument, history: History) -> None:
    """Show the values that differ between two policies.

    With recorded history, the command also shows the decisions that differ. --since, --until or --archive select
    recorded history. Without them, and with two files, the command needs no stack.
    """
    from faultbridge.decide.policyfile.weakened import changed_settings

    old, new = _policy(session, before, history), _policy(session, after, history)
    values = [
        {
            "rule": one.rule,
            "field": one.field,
            "before": one.before.text if one.before else None,
            "after": one.after.text if one.after else None,
        }
        for one in changed_settings(old, new)
    ]
    clusters = _reports(session, history, new, old) if history.asked else []
    if not session.prints_table:
        session.show_one({"values": values, "clusters": clusters}, {})
        return
    session.show(values, VALUES)
    for one in clusters:
        _print_cluster(session, one)


def _policy(session: Session, name: str, history: History) -> dict[str, Any]:
    if name == "-" or Path(name).exists() or any(mark in name for mark in "./"):
        return read_policy_file(name, session.output)
    packaged = packaged_document()
    if name == packaged["version"]:
        return packaged
    if history.archive is not None:
        raise typer.BadParameter(f"not a file: {name!r}; an archive holds no policies, give a policy file")
    stored: dict[str, Any] = policy_store(session).document(name)
    return stored


@dataclass(frozen=True, slots=True)
class _Replays:
    """Replays the recorded entries of one cluster under policies; a copy of the archive has no `store`."""

    config: ClusterConfig
    events: Sequence[Document]
    store: PolicyStore | None

    def report(self, document: Document, other: Document | None) -> dict[str, Any]:
        from faultbridge.decide.backtest.report import compare

        known = {str(one["version"]): one for one in (packaged_document(), document, other) if one}
        known |= dict(self._stored(known))
        report = self._replay(document, known)
        return report.document if other is None else compare(self._replay(other, known), report)

    def _stored(self, known: Mapping[str, Document]) -> Iterator[tuple[str, Document]]:
        named = {str(one["data"]["policy"]) for one in self.events if one["data"].get("policy")}
        if self.store is None:
            return
        for version in sorted(named - known.keys()):
            try:
                yield version, self.store.document(version)
            except Rejected:
                continue  # the report counts what depends on an unknown policy

    def _replay(self, document: Document, known: Mapping[str, Document]) -> Report:
        from faultbridge.decide.backtest.replay import Evidence, replay
        from faultbridge.decide.backtest.report import Report, backtest_document
        from faultbridge.decide.case_moves import Rules
        from faultbridge.decode.data import gpus_by_instance_type, load_catalog
        from faultbridge.model.policy import Policy
        from faultbridge.model.storage.codec import load

        catalog = load_catalog()
        evidence = Evidence(catalog, {version: load(Policy, one) for version, one in known.items()})
        policy = load(Policy, document)
        rules = Rules(policy, self.config, catalog.version, "back-test", gpus_by_instance_type())
        replayed = replay(self.events, rules, evidence)
        return Report(backtest_document(self.config.cluster, self.events, replayed, policy.version), replayed)


def _reports(session: Session, history: History, document: Document, other: Document | None) -> list[dict[str, Any]]:
    store = policy_store(session) if history.archive is None else None
    return [_Replays(config, events, store).report(document, other) for config, events in history.read(session)]


def _print_cluster(session: Session, report: Document) -> None:
    counts = report["decisions"]
    span = f"{(report['since'] or '-')[:16]} to {(report['until'] or '-')[:16]}"
    print_line(f"{report['cluster']}: {report['entries']} entries, {span}")
    print_line(f"{counts['same']} of {counts['compared']} recorded decisions are the same under the policy")
    if counts["explained"]:
        print_line(f"{counts['explained']} further ones were made under another policy, which was put meanwhile")
    print_line()
    recorded, replayed = _flat(report["recorded"]), _flat(report["replayed"])
    rows = [{"total": text, "before": recorded[name], "after": replayed[name]} for name, text in TOTALS.items()]
    columns: Columns = {
        "": lambda one: one["total"], "RECORDED": lambda one: one["before"], "POLICY": lambda one: one["after"]
    }  # fmt: skip
    session.show(rows, columns)
    for documents, shown in ((report["differences"], DIFFERENCES), (report["not_in_record"], GAPS)):
        if documents:
            print_line()
            session.show(documents, shown)
    print_line()


def _flat(totals: Document) -> dict[str, Any]:
    return {**totals, **totals["actions"]}


def register(app: typer.Typer) -> None:
    """Add the commands `backtest` and `diff` to `faultbridge policy`."""
    app.command("backtest", epilog=examples("faultbridge policy backtest policy.yaml --cluster train-a --since 30d"))(
        stack_command(backtest_policy)
    )
    app.command(
        "diff",
        epilog=examples(
            "faultbridge policy diff before.yaml after.yaml", "faultbridge policy diff a.yaml b.yaml --archive copy"
        ),
    )(stack_command(diff_policies))
