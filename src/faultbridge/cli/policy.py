"""`faultbridge policy`: the rules by which faults are judged and repaired."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, Form, JsonFlag, JsonlFlag, form_of, notice, show
from faultbridge.cli.session import Session, on_stack
from faultbridge.errors import Rejected

app = typer.Typer(rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="FILE", help="A YAML or JSON file; - for standard input.")]
PROBLEMS: Columns = {
    "RULE": lambda one: one["rule"],
    "FIELD": lambda one: one["field"],
    "EXPECTED": lambda one: one["expected"],
    "FOUND": lambda one: one["found"],
}


@app.command("check", epilog="Example: faultbridge policy check policy.yaml")
def check(file: File, as_json: JsonFlag = False, as_jsonl: JsonlFlag = False) -> None:
    """Validate a policy, offline. Exit code 1: the rule, the field and what was expected are named."""
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    document = _checked(file, form)
    if form is Form.PEOPLE:
        notice(f"policy {document['version']} is good: {len(document.get('rules', []))} rules")
    else:
        show([], PROBLEMS, form)


@app.command("put", epilog="Example: faultbridge policy put policy.yaml")
@on_stack
def put(session: Session, file: File) -> None:
    """Let a policy hold from now on. A bad one is refused and the old one stays."""
    document = _checked(file, session.form)
    policies(session).put(document)
    session.show_one({"version": document["version"]}, {"Version": lambda one: one["version"]})


@app.command("show", epilog="Example: faultbridge policy show > policy.yaml")
@on_stack
def show_policy(
    session: Session,
    version: Annotated[str | None, typer.Argument(metavar="[VERSION]", help="The one that holds if not given.")] = None,
) -> None:
    """Show a policy as the file that it can be put as again."""
    document = policies(session).document(version) if version else policies(session).current() or packaged()
    if session.for_people:
        from faultbridge.policyfile import write_policy

        print(f"# policy {document['version']}")
        print(write_policy(document), end="")
    else:
        session.show_one(document, {})


def policies(session: Session) -> Any:  # noqa: ANN401 - imported where it is used
    """Reach the stack's policies."""
    from faultbridge.rules.policies import Policies

    return Policies(session.ports.table, session.ports.clock)


def packaged() -> dict[str, Any]:
    """Return the document of the policy that holds where nobody put another."""
    from faultbridge.data.policies import default_document

    return dict(default_document())


def _checked(file: str, form: Form) -> dict[str, Any]:
    from faultbridge.data.policies import version_of
    from faultbridge.policyfile import InvalidPolicy, read_policy

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Rejected("binary", f"{file} is not text") from None
    try:
        document = read_policy(text)
    except InvalidPolicy as error:
        found = [
            {"rule": one.rule, "field": one.field, "expected": one.expected, "found": one.found}
            for one in error.problems
        ]
        show(found, PROBLEMS, form)
        notice(f"the policy is not good: {error.detail}")
        raise typer.Exit(EXIT_NOT_WELL) from None
    for rule, pattern in _unknown_codes(document):
        notice(f"rule {rule} names {pattern}, which fits no code of the catalogue")
    return {**document, "version": version_of(document)}


def _unknown_codes(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from faultbridge.data import catalogue

    known = tuple(catalogue().rows)
    for rule in document.get("rules", []):
        for pattern in rule.get("match", {}).get("codes", []):
            if not any(fnmatchcase(code, pattern) for code in known):
                yield rule["name"], pattern
