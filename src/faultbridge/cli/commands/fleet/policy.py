"""`faultbridge policy`: checks, publishes and shows the rules for classifying and repairing faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import read_text
from faultbridge.cli.errors.failures import EXIT_NOT_WELL
from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import Columns, OutputFormat, examples, notice, print_line, show
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session

app = typer.Typer(rich_markup_mode=None)

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Policy file, YAML or JSON; - reads standard input.")]
PROBLEMS: Columns = {
    "RULE": lambda one: one["rule"],
    "FIELD": lambda one: one["field"],
    "EXPECTED": lambda one: one["expected"],
    "FOUND": lambda one: one["found"],
}


@app.command("check", epilog=examples("faultbridge policy check policy.yaml"))
@formatted_command
def check_policy(file: FileArgument, *, output: OutputFormat) -> None:
    """Validate a policy offline. Exit code 1: each invalid rule and field is listed."""
    document = _read_policy(file, output)
    if output.for_people:
        notice(f"policy {document['version']} is valid: {len(document.get('rules', []))} rules")
    else:
        show([], PROBLEMS, output)


@app.command("put", epilog=examples("faultbridge policy put policy.yaml"))
@stack_command
def put_policy(session: Session, file: FileArgument) -> None:
    """Publish a policy as the current version. An invalid policy is rejected, and the current one stays."""
    document = _read_policy(file, session.output)
    _policies(session).put(document)
    session.show_one({"version": document["version"]}, {"Version": lambda one: one["version"]})


@app.command("show", epilog=examples("faultbridge policy show > policy.yaml", "faultbridge policy show 3f2c91d04b7a"))
@stack_command
def show_policy(
    session: Session,
    version: Annotated[
        str | None, typer.Argument(metavar="VERSION", help="Version to show. Default: the current version.")
    ] = None,
) -> None:
    """Show a policy in the format of `policy put`."""
    from faultbridge.data.policies import default_document

    policies, packaged = _policies(session), dict(default_document())
    stored = policies.current() if version is None else None
    document = (
        packaged if version == packaged["version"] else policies.document(version) if version else stored or packaged
    )
    if not session.prints_table:
        session.show_one(document, {})
        return
    from faultbridge.policyfile.parser import write_policy

    print_line(f"# policy {document['version']}" + (", part of Faultbridge" if document == packaged else ""))
    print_line(write_policy(document), end="")


def _policies(session: Session) -> Any:  # noqa: ANN401 - imported where it is used
    from faultbridge.rules.policies import PolicyStore

    return PolicyStore(session.ports.table, session.ports.clock)


def _read_policy(file: str, output: OutputFormat) -> dict[str, Any]:
    """Read and validate a policy. For an invalid policy, print its problems and exit with 1."""
    from faultbridge.data.policies import version_of
    from faultbridge.policyfile.parser import InvalidPolicy, read_policy

    try:
        document = read_policy(read_text(file))
    except InvalidPolicy as error:
        found = [
            {"rule": one.rule, "field": one.field, "expected": one.expected, "found": one.found}
            for one in error.problems
        ]
        show(found, PROBLEMS, output)
        notice(f"invalid policy: {error.detail}")
        raise typer.Exit(EXIT_NOT_WELL) from None
    for rule, pattern in _unknown_codes(document):
        notice(f"rule {rule}: no catalog code matches {pattern}; `faultbridge catalog` lists the codes")
    return {**document, "version": version_of(document)}


def _unknown_codes(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each rule with a code pattern that matches no code of the catalog."""
    from faultbridge.data import load_catalog

    known = tuple(load_catalog().rows)
    for rule in document.get("rules", []):
        for pattern in rule.get("match", {}).get("codes", []):
            if not any(fnmatchcase(code, pattern) for code in known):
                yield rule["name"], pattern
