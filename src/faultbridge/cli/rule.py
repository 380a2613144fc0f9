"""`faultbridge rule`: EventBridge rules and their golden cases; no stack needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, JsonFlag, JsonlFlag, form_of, notice, show
from faultbridge.cli.rulefile import failures, read_rule
from faultbridge.cli.ruletemplate import template_text

COLUMNS: Columns = {
    "RULE": lambda one: one["rule"],
    "CASES": lambda one: one["cases"],
    "RESULT": lambda one: "; ".join(one["problems"]) or "ok",
}

app = typer.Typer()


@app.callback()
def rule() -> None:
    """EventBridge rules and their golden cases."""


@app.command("test", epilog="Example: faultbridge rule test rules")
def run_cases(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder of rule files.")] = Path("rules"),
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Run each rule's golden cases on a matcher of EventBridge patterns. Exit code 1: a rule is wrong."""
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    results = [_result(path) for path in _paths(folder)]
    show(results, COLUMNS, form)
    wrong = [one for one in results if one["problems"]]
    if wrong:
        first = wrong[0]
        notice(f"{len(wrong)} of {len(results)} rules are wrong: {first['rule']}: {first['problems'][0]}")
        raise typer.Exit(EXIT_NOT_WELL)


@app.command("template", epilog="Example: faultbridge rule template rules --output infra/rules.yaml")
def write_template(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="A folder of rule files.")] = Path("rules"),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write here; standard output if not.")] = None,
) -> None:
    """Make a template of CloudFormation that puts each rule of a folder on the bus, with a target of your own."""
    text = template_text(map(read_rule, _paths(folder)), str(folder), output.name if output else "rules.yaml")
    if output is None:
        print(text, end="")
        return
    output.write_text(text, encoding="utf-8")
    notice(f"{output} is written (aws cloudformation deploy --template-file {output} ...)")


def _paths(folder: Path) -> list[Path]:
    paths = sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
    if not paths:
        raise typer.BadParameter(f"{folder} has no rule files (*.yaml)")
    return paths


def _result(path: Path) -> dict[str, Any]:
    found = read_rule(path)
    return {
        "rule": found.name,
        "file": str(path),
        "cases": len(found.cases.must) + len(found.cases.must_not),
        "problems": list(failures(found)),
    }
