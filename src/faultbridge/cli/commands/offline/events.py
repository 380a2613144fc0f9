"""`faultbridge schema` and `rule`: event schemas, and rules for events. They need no stack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faultbridge.cli.commands.options import Format, read_bytes
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Option, command
from faultbridge.cli.render.output import Columns, fields, notice, print_line, show
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.events.json_schema import EVENT_MODELS, closed_form, open_schema, problems
from faultbridge.model.events.registry import MODULE_OF_EVENT, event_name, schema_name

LIST_COLUMNS: Columns = fields("EVENT, VERSION, DETAIL-TYPE=detail_type, DESCRIPTION") | {
    "DESCRIPTION": lambda one: one["description"].split("\n")[0]
}
VERDICT_COLUMNS: Columns = fields("EVENT, ID=event_id, VALID:yes, PROBLEMS") | {
    "PROBLEMS": lambda one: "; ".join(one["problems"]),
}
ClosedFlag = Annotated[bool, Option("--closed", "Reject unknown fields and values, as a producer must.")]


@command("schema list", "", "--json")
def list_schemas(*, output: Format) -> None:
    """List the events, with the version and description of their schemas."""
    rows = (
        {
            "event": name,
            "version": schema["x-schema-version"],
            "detail_type": EVENT_MODELS[name].event_type or None,
            "description": schema["description"],
            "id": schema["$id"],
        }
        for name, schema in ((name, open_schema(name)) for name in EVENT_MODELS)
    )
    show(rows, LIST_COLUMNS, output)


@command("schema show", "node-fault-detected@1", "job-change --closed")
def show_schema(
    event: Annotated[
        str, Argument("EVENT@VERSION", "Event name from `faultbridge schema list`, with an optional major version.")
    ],
    closed: ClosedFlag = False,
    *,
    output: Format,
) -> None:
    """Print the JSON Schema of an event. The output is JSON with or without --json."""
    del output
    schema = open_schema(_event_name(event))
    print_line(json.dumps(closed_form(schema) if closed else schema, indent=2))


@command("schema validate", "event.json", "--closed - < event.json")
def validate(
    file: Annotated[str, Argument("FILE", "JSON file with one event or a list of events; - reads standard input.")],
    closed: ClosedFlag = False,
    *,
    output: Format,
) -> None:
    """Validate events: complete EventBridge events, or only their details.

    Without --closed, unknown fields, values and event types are valid, because a consumer must accept them. Exit code
    1: an event is not valid. Exit code 65: the input is not JSON.
    """
    verdicts = [_verdict(event, closed=closed) for event in _events(file)]
    show(verdicts, VERDICT_COLUMNS, output)
    wrong = [verdict for verdict in verdicts if not verdict["valid"]]
    if wrong:
        count = f"{len(wrong)} of {len(verdicts)} events are" if len(verdicts) > 1 else "the event is"
        notice(f"{count} not valid: {wrong[0]['problems'][0]}; `faultbridge schema show` prints the schema")
        raise Exit(EXIT_NOT_WELL)


def _event_name(event: str) -> str:
    name, at, major = event.partition("@")
    if name not in EVENT_MODELS:
        raise BadParameter(f"unknown event: {name!r}; allowed: {', '.join(EVENT_MODELS)}")
    ours = EVENT_MODELS[name].version.partition(".")[0]
    if at and major != ours:
        raise BadParameter(f"unknown version of {name}: {major!r}; allowed: {ours}")
    return name


def _events(file: str) -> Iterator[object]:
    raw = read_bytes(file)
    if not raw.strip():
        raise Rejected("empty", "the input is empty; give an event as JSON")
    try:
        document = json.loads(raw)
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {file}") from None
    except (ValueError, RecursionError) as error:
        raise Rejected("not_json", f"the input is not JSON: {error}") from error
    yield from document if isinstance(document, list) else [document]


def _verdict(document: object, *, closed: bool) -> dict[str, Any]:
    event: Any = {"detail": document}
    if isinstance(document, dict) and "detail" in document and "metadata" not in document:
        event = document
    inner = event["detail"].get("metadata") if isinstance(event["detail"], dict) else None
    metadata: dict[str, Any] = inner if isinstance(inner, dict) else {}
    found, given, stated = [], event.get("detail-type"), metadata.get("event_type")
    if event is document and isinstance(inner, dict) and given != stated:
        found.append(f"/detail-type: {given!r} is not metadata.event_type, {stated!r}")
    found += problems(event["detail"], closed=closed)
    return {
        "event": schema_name(metadata) or stated,
        "event_id": metadata.get("event_id"),
        "valid": not found,
        "problems": found,
    }


class _Problem(NamedTuple):
    """An unknown field in a pattern, or an unknown value of a field."""

    field: str
    value: str | None
    message: str

    def covers(self, other: _Problem) -> bool:
        """Return whether this problem includes another: an unknown field includes all problems in it."""
        if self.value is None:
            return f"{other.field}.".startswith(f"{self.field}.")
        return (self.field, self.value) == (other.field, other.value)


def pattern_problems(pattern: Mapping[str, Any]) -> list[str]:
    """Return the unknown detail-types, fields and values of a pattern; AWS events are not checked."""
    if any(str(source).startswith("aws.") for source in pattern.get("source", [])):
        return []
    types = [one for one in pattern.get("detail-type", []) if isinstance(one, str)] or list(MODULE_OF_EVENT)
    unknown = [
        f"unknown detail-type: {one!r}; `faultbridge schema list` lists them"
        for one in types
        if one not in MODULE_OF_EVENT
    ]
    schemas = [open_schema(event_name(one)) for one in types if one in MODULE_OF_EVENT]
    by_type = [list(_problems(pattern.get("detail", {}), schema, schema, "detail")) for schema in schemas]
    # A field that is valid for one event type is valid: the rule may match several types.
    found = (
        one for problems in by_type for one in problems if all(any(x.covers(one) for x in each) for each in by_type)
    )
    return unknown + list(dict.fromkeys(problem.message for problem in found))


def _problems(pattern: object, node: Mapping[str, Any], root: Mapping[str, Any], field: str) -> Iterator[_Problem]:
    """Yield the problems of one part of a pattern; `node` is its schema, `root` that of the event."""
    shapes = list(_shapes(node, root))
    if isinstance(pattern, list):
        yield from _value_problems(pattern, shapes, field)
        return
    if not isinstance(pattern, Mapping):
        return
    for name, inner in pattern.items():
        if name == "$or":
            for branch in inner:
                yield from _problems(branch, node, root, field)
            continue
        found = [shape["properties"][name] for shape in shapes if name in shape.get("properties", {})]
        found += [shape["additionalProperties"] for shape in shapes if "additionalProperties" in shape]
        if found:
            yield from _problems(inner, {"anyOf": found}, root, f"{field}.{name}")
        elif shapes != [{}]:
            yield _Problem(f"{field}.{name}", None, f"unknown field: {field}.{name}")


def _value_problems(wanted: list[object], shapes: list[Mapping[str, Any]], field: str) -> Iterator[_Problem]:
    allowed = [value for shape in shapes for value in shape.get("enum", [])]
    for value in wanted:
        if allowed and isinstance(value, str) and value not in allowed:
            yield _Problem(field, value, f"unknown value of {field}: {value!r}; allowed: {', '.join(allowed)}")


def _shapes(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "$ref" in node:
        yield from _shapes(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    elif "anyOf" in node:
        for one in node["anyOf"]:
            yield from _shapes(one, root)
    else:
        yield node


# The default AWS quota for a pattern: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
MAX_PATTERN_CHARACTERS = 2048
ENVELOPE = {"version": "0", "id": "golden", "account": "111122223333", "region": "us-east-1", "resources": []}
TIME = "2026-02-03T04:05:06Z"

Event = dict[str, Any]
Matcher = Callable[[Event], bool]


class _RuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GoldenCase(_RuleModel):
    """A test event of a rule ("golden case"); fields that are not given get default values."""

    says: str = Field(min_length=1)
    event: Event

    def envelope(self) -> Event:
        """Return the complete test event, as EventBridge would deliver it."""
        return {**ENVELOPE, "time": TIME, "source": "faultbridge", "detail-type": "", "detail": {}, **self.event}


class Cases(_RuleModel):
    """The test events of a rule: events that it must match, and events that it must not match."""

    must: list[GoldenCase] = Field(min_length=1)
    must_not: list[GoldenCase] = Field(min_length=1)


class RuleFile(_RuleModel):
    """One EventBridge rule file; `buses` names Faultbridge's own bus or the account's default bus."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    purpose: str = Field(min_length=1)
    target: str = Field(min_length=1)
    buses: tuple[Literal["own", "default"], ...] = ("own",)
    pattern: dict[str, Any] = Field(min_length=1)
    cases: Cases


def read_rule(path: Path) -> RuleFile:
    """Read a rule file. Raises `Rejected` with the first problem if the file is invalid."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        rule = RuleFile.model_validate(loaded)
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {path}") from None
    except yaml.YAMLError as error:
        raise Rejected("not_yaml", f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise Rejected("no_rule", f"{path}: {field}: {first['msg']}") from error
    if rule.name != path.stem:
        raise Rejected("no_rule", f"{path}: wrong rule name: {rule.name!r}; use the file name {path.stem!r}")
    return rule


def matcher(pattern: Mapping[str, Any]) -> Matcher:
    """Return a function that tests whether an event matches a pattern, with moto of the `local` extra."""
    try:
        from moto.events.exceptions import InvalidEventPatternException
        from moto.events.models import EventPattern
    except ImportError as error:
        raise Misconfigured(
            "matcher for EventBridge patterns is not installed: moto; run pip install 'faultbridge[local]'"
        ) from error
    try:
        loaded = EventPattern.load(json.dumps(pattern))
    except InvalidEventPatternException as error:
        raise Rejected("no_pattern", str(error)) from error
    return lambda event: loaded.matches_event(cast("Any", event))


def failures(rule: RuleFile) -> Iterator[str]:
    """Yield one line for each problem of a rule: size, unknown fields or values, failed test events."""
    size = len(json.dumps(rule.pattern, separators=(",", ":")))
    if size > MAX_PATTERN_CHARACTERS:
        yield f"pattern too long: {size} characters; EventBridge allows {MAX_PATTERN_CHARACTERS}"
    yield from pattern_problems(rule.pattern)
    matches = matcher(rule.pattern)
    yield from (f"must match, but does not: {one.says}" for one in rule.cases.must if not matches(one.envelope()))
    yield from (f"must not match, but does: {one.says}" for one in rule.cases.must_not if matches(one.envelope()))


OUR_SOURCE = "faultbridge"
MAX_RULES = 150
"""CloudFormation allows 200 parameters in a template; EventBridge allows 300 rules on a bus."""
MAX_DESCRIPTION_CHARACTERS = 512
"""The limit of EventBridge for a rule description."""

HEAD = """# Written by `faultbridge rule template {folder}`; do not edit. Deploy it beside the stack that owns the bus:
#   aws cloudformation deploy --template-file {name} --stack-name faultbridge-rules \\
#     --parameter-overrides EventBusName=faultbridge PageOnFatalTarget=arn:aws:sns:...
# A rule without a target is not created. The resource policy of a target must allow events.amazonaws.com.
"""


def template_text(rules: Iterable[RuleFile], folder: str, name: str) -> str:
    """Return the CloudFormation template for rule files as YAML; raises Rejected for too many rules."""
    document = template(list(rules))
    return HEAD.format(folder=folder, name=name) + yaml.safe_dump(document, sort_keys=False, width=110)


def template(rules: list[RuleFile]) -> dict[str, Any]:
    """Return the CloudFormation template for rule files as a document."""
    names = [logical_name(rule) for rule in rules]
    if len(set(names)) < len(names):
        raise Rejected("no_rule", "duplicate rule name without hyphens; rename one of the rules")
    if len(rules) > MAX_RULES:
        raise Rejected("no_rule", f"too many rules: {len(rules)}; a template allows {MAX_RULES}")
    document: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8"))
    for name, rule in zip(names, rules, strict=True):
        text = f"ARN of the target. Suggested: {' '.join(rule.target.split())}. Empty: the rule is not created."
        document["Parameters"][f"{name}Target"] = {"Type": "String", "Default": "", "Description": text}
        document["Conditions"][f"Has{name}"] = {"Fn::Not": [{"Fn::Equals": [{"Ref": f"{name}Target"}, ""]}]}
        for bus in rule.buses:
            resource = {"Type": "AWS::Events::Rule", "Condition": f"Has{name}", "Properties": _properties(rule, bus)}
            document["Resources"][name if bus == "own" else f"{name}OnDefaultBus"] = resource
    return document


def logical_name(rule: RuleFile) -> str:
    """Return the CloudFormation logical name of a rule, which contains only letters and digits."""
    return "".join(part.capitalize() for part in rule.name.split("-"))


def _properties(rule: RuleFile, bus: str) -> dict[str, Any]:
    text, limit = " ".join(rule.purpose.split()), MAX_DESCRIPTION_CHARACTERS
    pattern: dict[str, Any] = json.loads(json.dumps(rule.pattern))  # a copy: YAML has no anchors then
    if OUR_SOURCE in pattern.get("source", []):
        pattern["source"] = [{"Ref": "EventSource"} if one == OUR_SOURCE else one for one in pattern["source"]]
    target = {
        "Id": "target",
        "Arn": {"Ref": f"{logical_name(rule)}Target"},
        "DeadLetterConfig": {"Arn": {"Fn::GetAtt": "DeadLetters.Arn"}},
        "RetryPolicy": {"MaximumRetryAttempts": 185, "MaximumEventAgeInSeconds": 86400},
    }
    return {
        "Description": text if len(text) <= limit else f"{text[: limit - 3]}...",
        **({"EventBusName": {"Ref": "EventBusName"}} if bus == "own" else {}),
        "EventPattern": pattern,
        "Targets": [target],
    }


COLUMNS: Columns = fields("RULE, CASES, RESULT") | {"RESULT": lambda one: "; ".join(one["problems"]) or "ok"}

RulesArgument = Annotated[Path, Argument("DIR|FILE", "Folder of rule files (*.yaml), or one rule file.")]


@command("rule test", "", "my-rules --json")
def run_golden_cases(folder: RulesArgument = Path("rules"), *, output: Format) -> None:
    """Run the test events ("golden cases") of each rule. Exit code 1: a rule fails."""
    results = [_result(path) for path in _paths(folder)]
    show(results, COLUMNS, output)
    wrong = [one for one in results if one["problems"]]
    if wrong:
        first = wrong[0]
        notice(f"{len(wrong)} of {len(results)} rules fail: {first['rule']}: {first['problems'][0]}")
        raise Exit(EXIT_NOT_WELL)


@command("rule template", "", "my-rules --output my-rules.template.yaml")
def write_template(
    folder: RulesArgument = Path("rules"),
    output: Annotated[Path | None, Option("--output -o FILE", "File to write. Default: standard output.")] = None,
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
        raise BadParameter(f"no rule files: {folder}; give a rule file, or a folder with *.yaml files")
    return paths


def _result(path: Path) -> dict[str, Any]:
    found = read_rule(path)
    return {
        "rule": found.name,
        "file": str(path),
        "cases": len(found.cases.must) + len(found.cases.must_not),
        "problems": list(failures(found)),
    }
