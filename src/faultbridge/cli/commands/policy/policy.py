"""`faultbridge policy`: checks, publishes, lists and shows the rules for faults and repairs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import YesOption, confirm, formatted_command
from faultbridge.cli.commands.policy.backtest import register
from faultbridge.cli.commands.policy.documents import known_policy, packaged_document, policy_store, read_policy_file
from faultbridge.cli.render.output import Columns, OutputFormat, examples, fields, notice, print_line, show
from faultbridge.cli.render.times import applies_text, json_time, short_time
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session

app = typer.Typer(rich_markup_mode=None)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Policy file, YAML or JSON; - reads standard input.")]
AppliesOption = Annotated[bool, typer.Option("--wait", help="Wait until the policy applies, 15 seconds.")]
SETTINGS: Columns = fields("RULE", "FIELD", "ORIGIN", "VALUE")
PUBLISHED: Columns = {
    "Version": lambda one: one["version"],
    "Applies": lambda one: applies_text(one["applies_at"]),
}
SHADOW: Columns = {"Shadow policy": lambda one: one["version"] or "none"}
VERSIONS: Columns = {
    "VERSION": lambda one: one["version"],
    "CURRENT": lambda one: "yes" if one["current"] else "shadow" if one["shadow"] else "",
    "CLUSTERS": lambda one: ", ".join(one["clusters"]),
    "PUT": lambda one: short_time(one["put_at"]),
    "BY": lambda one: one["put_by"] or ("part of Faultbridge" if one["packaged"] else ""),
}


@app.command("check", epilog=examples("faultbridge policy check policy.yaml"))
@formatted_command
def check_policy(
    file: FileArgument,
    everything: Annotated[bool, typer.Option("--all", help="Also print the values that are defaults.")] = False,
    *,
    output: OutputFormat,
) -> None:
    """Validate a policy offline, and print the values that it sets.

    With --all or as JSON, the command also prints the values that are defaults. Exit code 1: the policy is invalid;
    each invalid rule and field is listed.
    """
    from faultbridge.decide.policyfile.weakened import effective_settings

    document = read_policy_file(file, output)
    settings = effective_settings(document)
    rows = [{"rule": one.rule, "field": one.field, "value": one.text, "origin": one.origin} for one in settings]
    shown = rows if everything or not output.for_people else [row for row in rows if row["origin"] == "file"]
    show(shown, SETTINGS, output)
    if output.for_people:
        notice(f"policy {document['version']} is valid: {len(document.get('rules', []))} rules")
        if len(shown) < len(rows):
            notice(f"{len(rows) - len(shown)} more values are defaults; --all prints them")


@app.command("schema", epilog=examples("faultbridge policy schema > policy.schema.json"))
@formatted_command
def print_schema(*, output: OutputFormat) -> None:
    """Print the JSON Schema of policy files, for editors. The output is JSON with or without --json."""
    from faultbridge.decide.policyfile.parser import policy_schema

    del output
    print_line(json.dumps(policy_schema(), indent=2))


@app.command("put", epilog=examples("faultbridge policy put policy.yaml", "faultbridge policy put policy.yaml --wait"))
@stack_command
def put_policy(session: Session, file: FileArgument, yes: YesOption = False, wait: AppliesOption = False) -> None:
    """Publish a policy as the current version, for every cluster that names no version of its own.

    An invalid policy is rejected, and the current policy stays. If the new policy drops a breaker or an approval, or
    weakens a limit or a rule of the current policy, the command lists these changes and asks for confirmation.
    """
    document = read_policy_file(file, session.output)
    policies = policy_store(session)
    _confirm_weaker(policies.current() or packaged_document(), document, yes=yes)
    policies.put(document, session.operator)
    _show_published(session, document["version"], wait=wait)


@app.command("reset", epilog=examples("faultbridge policy reset"))
@stack_command
def reset_policy(session: Session, yes: YesOption = False, wait: AppliesOption = False) -> None:
    """Return to the packaged policy for all clusters that name no version. Stored versions stay.

    The command asks for confirmation if the packaged policy protects less than the current policy.
    """
    policies, packaged = policy_store(session), packaged_document()
    before = policies.current()
    if before is not None:
        _confirm_weaker(before, packaged, yes=yes)
        policies.reset()
    _show_published(session, packaged["version"], wait=wait)


@app.command("shadow", epilog=examples("faultbridge policy shadow candidate.yaml", "faultbridge policy shadow --off"))
@stack_command
def shadow_policy(
    session: Session,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="Policy file, YAML or JSON; - reads standard input.")
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Remove the shadow policy.")] = False,
) -> None:
    """Compare a shadow policy with the current policy. Decisions of the shadow policy are not executed.

    If the two policies decide differently about a new fault, the timeline of the node gets a note `would_have_done`.
    Clusters that name a policy version are not compared. Without FILE and --off, the command shows the shadow policy.
    """
    policies = policy_store(session)
    if off and file is not None:
        raise typer.BadParameter("give FILE or --off, not both")
    if off:
        policies.end_shadow()
    elif file is not None:
        policies.put_shadow(read_policy_file(file, session.output), session.operator)
    session.show_one({"version": policies.shadow()}, SHADOW)


@app.command("list", epilog=examples("faultbridge policy list", "faultbridge policy list --json"))
@stack_command
def list_policies(session: Session) -> None:
    """List the policy versions, which version is current, and which clusters name a version.

    The list also shows when each stored version was last published, and by whom.
    """
    policies, packaged = policy_store(session), packaged_document()["version"]
    stored = {one.version: one for one in policies.stored()}
    current = (policies.current() or packaged_document())["version"]
    named: dict[str, list[str]] = {}
    shadow = policies.shadow()
    for view in session.directory.clusters():
        if view.config.policy is not None:
            named.setdefault(view.config.policy, []).append(view.config.cluster)
    rows = [
        {
            "version": version,
            "current": version == current,
            "packaged": version == packaged,
            "shadow": version == shadow,
            "clusters": named.get(version, []),
            "put_at": json_time(stored[version].put_at) if version in stored else None,
            "put_by": stored[version].put_by if version in stored else None,
        }
        for version in dict.fromkeys((*stored, current, *named, packaged))
    ]
    session.show(rows, VERSIONS)


@app.command("show", epilog=examples("faultbridge policy show > policy.yaml", "faultbridge policy show 3f2c91d04b7a"))
@stack_command
def show_policy(
    session: Session,
    version: Annotated[
        str | None, typer.Argument(metavar="VERSION", help="Version to show. Default: the current version.")
    ] = None,
) -> None:
    """Show the current policy, or the policy of a version.

    Without --json, the output is in the file format of `policy put`. With --json, the version is a field.
    """
    packaged = packaged_document()
    document = known_policy(session, version) if version else policy_store(session).current() or packaged
    if not session.prints_table:
        session.show_one(document, {})
        return
    from faultbridge.decide.policyfile.parser import write_policy

    print_line(f"# policy {document['version']}" + (", part of Faultbridge" if document == packaged else ""))
    print_line(write_policy(document), end="")


def _show_published(session: Session, version: str, *, wait: bool) -> None:
    applies_at = session.applies_at()
    session.show_one({"version": version, "applies_at": json_time(applies_at)}, PUBLISHED)
    if session.output.for_people:
        notice("it is for every cluster that names no version with `faultbridge cluster set --policy`")
        notice("a fault before that time may still follow the policy before it")
    if wait:
        time.sleep(max(0.0, (applies_at - session.now()).total_seconds()))


def _confirm_weaker(before: Mapping[str, Any], after: Mapping[str, Any], *, yes: bool) -> None:
    from faultbridge.decide.policyfile.weakened import weakened_protection

    weaker = weakened_protection(before, after)
    if weaker:
        notice("weaker than the current policy: " + "; ".join(weaker))
        confirm("the policy protects less than the current one", yes=yes)


register(app)
