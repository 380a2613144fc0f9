"""`faultbridge rule`: tests EventBridge rule files, and writes a CloudFormation template for them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import formatted_command
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.output import Columns, OutputFormat, examples, fields, notice, print_line, show
from faultbridge.cli.rules import failures, read_rule, template_text

COLUMNS: Columns = {
    **fields("RULE", "CASES"),
    "RESULT": lambda one: "; ".join(one["problems"]) or "ok",
}

RulesArgument = Annotated[
    Path, typer.Argument(metavar="DIR|FILE", help="Folder of rule files (*.yaml), or one rule file.")
]

app = typer.Typer(rich_markup_mode=None)


@app.command("test", epilog=examples("faultbridge rule test", "faultbridge rule test my-rules --json"))
@formatted_command
def run_golden_cases(
    folder: RulesArgument = Path("rules"),
    *,
    output: OutputFormat,
) -> None:
    """Run the test events ("golden cases") of each rule. Exit code 1: a rule fails."""
    results = [_result(path) for path in _paths(folder)]
    show(results, COLUMNS, output)
    wrong = [one for one in results if one["problems"]]
    if wrong:
        first = wrong[0]
        notice(f"{len(wrong)} of {len(results)} rules fail: {first['rule']}: {first['problems'][0]}")
        raise typer.Exit(EXIT_NOT_WELL)


@app.command(
    "template",
    epilog=examples("faultbridge rule template", "faultbridge rule template my-rules --output my-rules.template.yaml"),
)
def write_template(
    folder: RulesArgument = Path("rules"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Write a CloudFormation template for a folder of rules.

    The template has a target parameter for each rule. A rule without a target is not created.
    """
    text = template_text(map(read_rule, _paths(folder)), str(folder), output.name if output else "rules.yaml")
    if output is None:
        print_line(text, end="")
        return
    output.write_text(text, encoding="utf-8")
    notice(f"wrote {output}; deploy it with `aws cloudformation deploy --template-file {output} ...`")


def _paths(folder: Path) -> list[Path]:
    paths = [folder] if folder.is_file() else sorted((*folder.glob("*.yaml"), *folder.glob("*.yml")))
    if not paths:
        raise typer.BadParameter(f"no rule files: {folder}; give a rule file, or a folder with *.yaml files")
    return paths


def _result(path: Path) -> dict[str, Any]:
    found = read_rule(path)
    return {
        "rule": found.name,
        "file": str(path),
        "cases": len(found.cases.must) + len(found.cases.must_not),
        "problems": list(failures(found)),
    }
