"""`faultbridge policy` and `mapping`: the rules for faults and repairs, and a customer's own fault mappings."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from faultbridge.cli.commands.options import AnyClusterOption, Format, YesOption, confirm, read_text
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Group, Option, Text, command
from faultbridge.cli.render.output import Columns, OutputFormat, fields, notice, print_line, show, show_one
from faultbridge.cli.render.times import PAST_HELP, applies_text, parse_time
from faultbridge.cli.stack.locate import ArchiveOption, archived_entries, open_folder
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession
from faultbridge.decide.backtest.plots import backtest_plots, write_plots
from faultbridge.decide.backtest.record import Event
from faultbridge.decide.backtest.replay import Evidence, replay
from faultbridge.decide.backtest.report import BacktestDocument, Report, backtest_document, compare
from faultbridge.decide.case_moves import Rules
from faultbridge.decode.data import gpus_by_instance_type, load_catalog
from faultbridge.decode.data.mapping import parse_extensions
from faultbridge.decode.data.policies import default_document, version_of
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.event_data import plain
from faultbridge.model.policy import Policy, PolicyDocument
from faultbridge.model.storage.codec import load
from faultbridge.model.values import replace
from faultbridge.record.archive.verification import ReadArchive
from faultbridge.record.policies import PolicyStore
from faultbridge.record.timeline import TimelineQuery
from faultbridge.serve.ingest.mappings import MappingStore

PROBLEMS: Columns = fields("RULE, FIELD, EXPECTED, FOUND")


def packaged_document() -> PolicyDocument:
    """Return the policy that is part of Faultbridge, with its version."""
    return dict(default_document())


def policy_store(session: Session) -> PolicyStore:
    """Return the service that stores the policies of the stack."""
    return PolicyStore(session.ports.table, session.ports.clock)


def known_policy(session: Session, version: str) -> PolicyDocument:
    """Return the packaged or stored policy of a version; raises Rejected `unknown_policy`."""
    packaged = packaged_document()
    return packaged if version == packaged["version"] else policy_store(session).document(version)


def read_policy_file(file: str, output: OutputFormat) -> PolicyDocument:
    """Return the policy in a file, with its version; print the problems of an invalid one and exit."""
    from faultbridge.decide.policyfile.parser import InvalidPolicy, read_policy

    try:
        document = read_policy(read_text(file))
    except InvalidPolicy as error:
        names = ("rule", "field", "expected", "found")
        show(({name: getattr(one, name) for name in names} for one in error.problems), PROBLEMS, output)
        notice(f"invalid policy: {error.detail}")
        raise Exit(EXIT_NOT_WELL) from None
    versioned = {**document, "version": version_of(document)}
    for text in _doubtful_patterns(load(Policy, versioned)):
        notice(text)
    return versioned


def _doubtful_patterns(policy: Policy) -> Iterator[str]:
    """Yield a line for each pattern that matches nothing in the catalog, and for each code of a mode with others."""
    catalog = load_catalog()
    for rule in policy.rules:
        name, match = rule.name, rule.match
        for kind, patterns, known in (("code", match.codes, catalog.rows), ("mode", match.modes, catalog.modes)):
            for pattern in patterns:
                if not any(fnmatchcase(one, pattern) for one in known):
                    yield f"rule {name}: no {kind} of the catalog matches {pattern}; see `faultbridge catalog`"
        for code in (one for one in match.codes if one in catalog.rows):
            mode = catalog.row(code).mode
            codes = {row.code for row in catalog.rows.values() if row.mode == mode and ":" not in row.code}
            if codes.isdisjoint({*match.codes} - {code}) and len(codes) > 1:
                yield f"rule {name}: {code} is one of {len(codes)} codes of {mode}; `modes: [{mode}]` matches them all"


@dataclass(frozen=True, slots=True)
class History:
    """The options that select recorded history: the cluster, the time range and the archive copy."""

    cluster: AnyClusterOption = None
    since: Annotated[Text, Option("TIME", f"Begin of the record to use. {PAST_HELP}")] = None
    until: Annotated[Text, Option("TIME", f"End of the record to use. {PAST_HELP}")] = None
    archive: ArchiveOption = None

    @property
    def asked(self) -> bool:
        """Return whether --since, --until or --archive select recorded history; --cluster alone does not."""
        return any((self.since, self.until, self.archive))

    def read(self, session: Session) -> Iterator[tuple[ClusterConfig, list[Event]]]:
        """Yield the configuration, changed so that repairs are planned, and the entries of each cluster."""
        now = datetime.now(UTC) if self.archive else session.now()
        since, until = parse_time(self.since, now), parse_time(self.until, now, "--until")
        for config in self._clusters(session):
            query = TimelineQuery(config.cluster, since=since, until=until)
            lines = archived_entries(self.archive, query) if self.archive else session.timeline.entries(query)
            provider = config.repair_owner is RepairOwner.PROVIDER
            owner = RepairOwner.PROVIDER if provider else RepairOwner.FAULTBRIDGE
            acting = replace(config, mode=Mode.ACT, repair_owner=owner, maintenance_until=None)
            yield acting, [line.event for line in lines]

    def _clusters(self, session: Session) -> list[ClusterConfig]:
        if self.archive is not None:
            names = [self.cluster] if self.cluster else ReadArchive(open_folder(self.archive)).clusters()
            return [ClusterConfig(name) for name in names]
        if self.cluster is not None:
            return [session.directory.cluster(self.cluster).config]
        return [view.config for view in session.directory.clusters()]


HistoryOptions = Annotated[History, Group(History)]


PolicyArgument = Annotated[str, Argument("POLICY", "Policy file, or a stored version.")]
VALUES: Columns = fields("RULE, FIELD, BEFORE, AFTER")
DIFFERENCES: Columns = fields("TIME, NODE, RECORDED, POLICY=replayed, WHY") | {
    "TIME": lambda one: f"{one.at:%Y-%m-%d %H:%M:%S}",
    "WHY": lambda one: one.explanation or one.reason,
}
GAPS: Columns = fields("COUNT, NOT IN THE RECORD=what")
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


@command("policy backtest", "policy.yaml --cluster train-a --since 30d")
def backtest_policy(
    session: StackSession,
    file: PolicyArgument,
    history: HistoryOptions,
    against: Annotated[Text, Option("POLICY", "Compare with this policy, not with the record.")] = None,
    plots: Annotated[Path | None, Option("FOLDER", "Write charts as SVG there.")] = None,
) -> None:
    """Show what a policy would have decided about recorded history.

    Each recorded decision about a case is compared with the decision of Faultbridge's own code under the policy. While
    the decisions are equal, the recorded times and outcomes are used. From the first decision that differs, the case
    follows the policy.
    """
    document = _policy(session, file, history)
    other = _policy(session, against, history) if against else None
    clusters = reports(session, history, document, other)
    if plots is not None:
        write_plots(plots, backtest_plots(clusters))
    if not session.output.for_people:
        versions = {"policy": document["version"], "against": other["version"] if other else None}
        session.show_one({**versions, "clusters": clusters}, {})
        return
    for one in clusters:
        _print_cluster(session, one)


@command("policy diff", "before.yaml after.yaml", "a.yaml b.yaml --archive copy")
def diff_policies(
    session: StackSession, before: PolicyArgument, after: PolicyArgument, history: HistoryOptions
) -> None:
    """Show the values that differ between two policies.

    With recorded history, the command also shows the decisions that differ. --since, --until or --archive select
    recorded history. Without them, and with two files, the command needs no stack.
    """
    from faultbridge.decide.policyfile.weakened import changed_settings

    old, new = _policy(session, before, history), _policy(session, after, history)
    values = [
        {"rule": one.rule, "field": one.field}
        | {name: side.text if side else None for name, side in (("before", one.before), ("after", one.after))}
        for one in changed_settings(old, new)
    ]
    clusters = reports(session, history, new, old) if history.asked else []
    if session.prints_document({"values": values, "clusters": clusters}):
        return
    session.show(values, VALUES)
    for one in clusters:
        _print_cluster(session, one)


def _policy(session: Session, name: str, history: History) -> PolicyDocument:
    if name == "-" or Path(name).exists() or any(mark in name for mark in "./"):
        return read_policy_file(name, session.output)
    if history.archive is not None and name != packaged_document()["version"]:
        raise BadParameter(f"not a file: {name!r}; an archive holds no policies, give a policy file")
    return known_policy(session, name)


def reports(
    session: Session, history: History, document: PolicyDocument, other: PolicyDocument | None
) -> list[BacktestDocument]:
    """Return the report of each cluster: what a policy would have decided about the recorded history."""
    found = []
    for config, events in history.read(session):
        known = {str(one["version"]): one for one in (packaged_document(), document, other) if one}
        named = {one.data.policy for one in events if getattr(one.data, "policy", None)}
        for version in sorted(named - known.keys()) if history.archive is None else ():
            with suppress(Rejected):  # the report counts what depends on an unknown policy
                known[version] = policy_store(session).document(version)
        report = _replay(config, events, document, known)
        found.append(report.document if other is None else compare(_replay(config, events, other, known), report))
    return found


def _replay(
    config: ClusterConfig, events: Sequence[Event], document: PolicyDocument, known: Mapping[str, PolicyDocument]
) -> Report:
    catalog, policy = load_catalog(), load(Policy, document)
    evidence = Evidence(catalog, {version: load(Policy, one) for version, one in known.items()})
    replayed = replay(events, Rules(policy, config, catalog, "back-test", gpus_by_instance_type()), evidence)
    return Report(backtest_document(config.cluster, events, replayed, policy.version), replayed)


def _print_cluster(session: Session, report: BacktestDocument) -> None:
    counts = report.decisions
    since, until = (f"{at:%Y-%m-%dT%H:%M}" if at else "-" for at in (report.since, report.until))
    print_line(f"{report.cluster}: {report.entries} entries, {since} to {until}")
    print_line(f"{counts.same} of {counts.compared} recorded decisions are the same under the policy")
    if counts.explained:
        print_line(f"{counts.explained} further ones were made under another policy, which was put meanwhile")
    print_line()
    recorded, replayed = ({**plain(one), **one.actions} for one in (report.recorded, report.replayed))
    rows = [{"total": text, "before": recorded[name], "after": replayed[name]} for name, text in TOTALS.items()]
    session.show(rows, fields("=total, RECORDED=before, POLICY=after"))
    if report.differences:
        print_line()
        session.show(report.differences, DIFFERENCES)
    if report.not_in_record:
        print_line()
        session.show(report.not_in_record, GAPS)
    print_line()


FileArgument = Annotated[str, Argument("FILE", "Policy file, YAML or JSON; - reads standard input.")]
AppliesOption = Annotated[bool, Option("--wait", "Wait until the policy applies, 15 seconds.")]
SETTINGS: Columns = fields("RULE, FIELD, ORIGIN, VALUE")
PUBLISHED: Columns = fields("Version, Applies") | {"Applies": lambda one: applies_text(one["applies_at"])}
SHADOW: Columns = {"Shadow policy": lambda one: one["version"] or "none"}
VERSIONS: Columns = fields("VERSION, CURRENT, CLUSTERS:list, PUT=put_at:time, BY") | {
    "CURRENT": lambda one: "yes" if one["current"] else "shadow" if one["shadow"] else "",
    "BY": lambda one: one["put_by"] or ("part of Faultbridge" if one["packaged"] else ""),
}


@command("policy check", "policy.yaml")
def check_policy(
    file: FileArgument,
    everything: Annotated[bool, Option("--all", "Also print the values that are defaults.")] = False,
    *,
    output: Format,
) -> None:
    """Validate a policy offline, and print the values that it sets.

    With --all or as JSON, the command also prints the values that are defaults. Exit code 1: the policy is invalid;
    each invalid rule and field is listed.
    """
    from faultbridge.decide.policyfile.weakened import effective_settings

    document = read_policy_file(file, output)
    settings, rules = effective_settings(document), load(Policy, document).rules
    rows = [{"rule": one.rule, "field": one.field, "value": one.text, "origin": one.origin} for one in settings]
    shown = rows if everything or not output.for_people else [row for row in rows if row["origin"] == "file"]
    show(shown, SETTINGS, output)
    if output.for_people:
        notice(f"policy {document['version']} is valid: {len(rules)} rules")
        if len(shown) < len(rows):
            notice(f"{len(rows) - len(shown)} more values are defaults; --all prints them")


@command("policy schema", "> policy.schema.json")
def print_schema(*, output: Format) -> None:
    """Print the JSON Schema of policy files, for editors. The output is JSON with or without --json."""
    from faultbridge.decide.policyfile.parser import policy_schema

    del output
    print_line(json.dumps(policy_schema(), indent=2))


@command("policy put", "policy.yaml", "policy.yaml --wait")
def put_policy(
    session: ChangingSession, file: FileArgument, yes: YesOption = False, wait: AppliesOption = False
) -> None:
    """Publish a policy as the current version, for every cluster that names no version of its own.

    An invalid policy is rejected, and the current policy stays. If the new policy drops a breaker or an approval, or
    weakens a limit or a rule of the current policy, the command lists these changes and asks for confirmation.
    """
    document = read_policy_file(file, session.output)
    policies = policy_store(session)
    _confirm_weaker(policies.current() or packaged_document(), document, yes=yes)
    published = policies.put(document, session.operator)
    _show_published(session, published.version, wait=wait)


@command("policy reset")
def reset_policy(session: ChangingSession, yes: YesOption = False, wait: AppliesOption = False) -> None:
    """Return to the packaged policy for all clusters that name no version. Stored versions stay.

    The command asks for confirmation if the packaged policy protects less than the current policy.
    """
    policies, packaged = policy_store(session), packaged_document()
    before = policies.current()
    if before is not None:
        _confirm_weaker(before, packaged, yes=yes)
        policies.reset()
    _show_published(session, str(packaged["version"]), wait=wait)


@command("policy shadow", "candidate.yaml", "--off")
def shadow_policy(
    session: ChangingSession,
    file: Annotated[Text, Argument("FILE", "Policy file, YAML or JSON; - reads standard input.")] = None,
    off: Annotated[bool, Option(help="Remove the shadow policy.")] = False,
) -> None:
    """Compare a shadow policy with the current policy. Decisions of the shadow policy are not executed.

    If the two policies decide differently about a new fault, the timeline of the node gets a note `would_have_done`.
    Clusters that name a policy version are not compared. Without FILE and --off, the command shows the shadow policy.
    """
    policies = policy_store(session)
    if off and file is not None:
        raise BadParameter("give FILE or --off, not both")
    if off:
        policies.end_shadow()
    elif file is not None:
        policies.put_shadow(read_policy_file(file, session.output), session.operator)
    session.show_one({"version": policies.shadow()}, SHADOW)


@command("policy list", "", "--json")
def list_policies(session: StackSession) -> None:
    """List the policy versions, which version is current, and which clusters name a version.

    The list also shows when each stored version was last published, and by whom.
    """
    policies, packaged = policy_store(session), str(packaged_document()["version"])
    stored = {one.version: one for one in policies.stored()}
    current = str((policies.current() or packaged_document())["version"])
    named: dict[str, list[str]] = {}
    shadow = policies.shadow()
    for config in (view.config for view in session.directory.clusters() if view.config.policy is not None):
        named.setdefault(str(config.policy), []).append(config.cluster)
    rows = [
        {
            "version": version,
            "current": version == current,
            "packaged": version == packaged,
            "shadow": version == shadow,
            "clusters": named.get(version, []),
            "put_at": getattr(stored.get(version), "put_at", None),
            "put_by": getattr(stored.get(version), "put_by", None),
        }
        for version in dict.fromkeys((*stored, current, *named, packaged))
    ]
    session.show(rows, VERSIONS)


@command("policy show", "> policy.yaml", "3f2c91d04b7a")
def show_policy(
    session: StackSession,
    version: Annotated[Text, Argument("VERSION", "Version to show. Default: the current version.")] = None,
) -> None:
    """Show the current policy, or the policy of a version.

    Without --json, the output is in the file format of `policy put`. With --json, the version is a field.
    """
    packaged = packaged_document()
    document = known_policy(session, version) if version else policy_store(session).current() or packaged
    if session.prints_document(document):
        return
    from faultbridge.decide.policyfile.parser import write_policy

    print_line(f"# policy {document['version']}" + (", part of Faultbridge" if document == packaged else ""))
    print_line(write_policy(document), end="")


def _show_published(session: Session, version: str, *, wait: bool) -> None:
    applies_at = session.applies_at()
    session.show_one({"version": version, "applies_at": applies_at}, PUBLISHED)
    if session.output.for_people:
        notice("it is for every cluster that names no version with `faultbridge cluster set --policy`")
        notice("a fault before that time may still follow the policy before it")
    if wait:
        time.sleep(max(0.0, (applies_at - session.now()).total_seconds()))


def _confirm_weaker(before: PolicyDocument, after: PolicyDocument, *, yes: bool) -> None:
    from faultbridge.decide.policyfile.weakened import weakened_protection

    weaker = weakened_protection(before, after)
    if weaker:
        notice("weaker than the current policy: " + "; ".join(weaker))
        confirm("the policy protects less than the current one", yes=yes)


MappingArgument = Annotated[str, Argument("FILE", "Mapping file, JSON; - reads standard input.")]


@command("mapping check", "own.json")
def check_mappings(file: MappingArgument, *, output: Format) -> None:
    """Validate mappings offline. Exit code 1: the mappings are invalid."""
    mappings = _read_mappings(file, output)
    show_one({"mappings": sorted(mappings)}, {"Valid": lambda one: ", ".join(one["mappings"]) or "no mappings"}, output)


@command("mapping put", "own.json")
def put_mappings(session: ChangingSession, file: MappingArgument) -> None:
    """Publish mappings as the current version.

    If the new mappings are invalid, they are rejected, and the current mappings stay.
    """
    mappings = _read_mappings(file, session.output)
    version = version_of(mappings)
    MappingStore(session.ports.table, session.ports.clock).put(version, mappings)
    session.show_one({"version": version, "applies_at": session.applies_at()}, PUBLISHED)


@command("mapping show", "> own.json")
def show_mappings(
    session: StackSession,
    version: Annotated[Text, Argument("VERSION", "Version to show. Default: the current version.")] = None,
) -> None:
    """Show the current fault mappings, or those of a version.

    Without --json, the output is in the file format of `mapping put`. With --json, the output also has the version.
    """
    service = MappingStore(session.ports.table, session.ports.clock)
    shown, mappings = (version, service.read(version)) if version else service.current()
    if session.prints_document({"version": shown, "mappings": mappings}):
        return
    notice(f"mapping {shown}" if shown else "no mapping was published; only the packaged mappings apply")
    print_line(json.dumps(mappings, indent=2, ensure_ascii=False))


def _read_mappings(file: str, output: OutputFormat) -> dict[str, Mapping[str, Any]]:
    try:
        mappings = parse_extensions(read_text(file))
    except Misconfigured as error:
        if not output.for_people:
            show([{"problem": str(error)}], {}, output)
        notice(f"invalid mappings: {error}")
        raise Exit(EXIT_NOT_WELL) from None
    for code in sorted(one for one in set(_codes(mappings)) if not load_catalog().knows(one)):
        notice(f"code not in the catalog: {code}; such a fault gets the action contact_support")
    return mappings


def _codes(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name == "code" and isinstance(one, str) and "." in one:
                yield one
            yield from _codes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _codes(one)
