"""Decodes `dcgm-diag`: the failed and warned tests of `dcgmi diag -r N`, as JSON (`-j`) or as a table.

`read_report` also reads the JSON, for the verification of a node.

Grammar: one JSON object, possibly after other text, or a table. The JSON structure differs by version. A
skipped test does not count as passed. The numbers of DCGM's severities have no order. An error about a setting needs no
action.

Times: the report has none. Units: none; DCGM's texts are unchanged. Errors: `Rejected` without test categories. The
exit code of dcgmi is ignored. Source: DCGM 1.7, 3.1 to 3.3, 4.0 to 4.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from faultbridge.decode.data import table
from faultbridge.decode.dcgm.texts import CODES, SETTINGS, code_of_diagnostic, code_of_number, xid_named_in
from faultbridge.decode.frames.decoder import Hints, fault_of, objects_in
from faultbridge.decode.frames.documents import embedded, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
MAX_ID = 4
_FAILED, _WARNED = "dcgm.diag_failed", "dcgm.diag_warned"


class Outcome(StrEnum):
    """The outcome of one test on one device. A skipped test shows neither health nor a fault."""

    PASS = "pass"  # noqa: S105 - DCGM's status text
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"


class TestError(Struct, frozen=True):
    """An error of a test: the fault code, the text of DCGM, and DCGM's numbers for the error."""

    code: str
    text: str
    error_id: int | None = None
    error_severity: int | None = None
    error_category: int | None = None


class TestResult(Struct, frozen=True):
    """The result of one test on one or more devices. A failed or warned test has at least one error."""

    test: str
    category: str
    outcome: Outcome
    components: tuple[Component, ...]
    errors: tuple[TestError, ...] = ()

    @property
    def hardware(self) -> bool:
        """Return False if the result has errors and all of them are about settings, otherwise True."""
        return not self.errors or any(error.code not in SETTINGS for error in self.errors)

    @property
    def line(self) -> str:
        """Return the result as one line for operators: the test, its devices, its outcome and its errors."""
        devices = ",".join(
            "node" if component.index is None else f"GPU {component.index}" for component in self.components
        )
        causes = "; ".join(error.text for error in self.errors)
        return " ".join(f"{self.test} on {devices}: {self.outcome}{': ' if causes else ''}{causes}".split())[:500]


def read_report(body: bytes) -> tuple[TestResult, ...]:
    """Return the test results in the output of `dcgmi diag -j` of DCGM 1, 3 or 4.

    Text before the JSON is ignored. Raises `Rejected` if there is no report.
    """
    document = embedded(text_of(body))
    if document is None:
        raise Rejected("malformed_json", "no complete JSON object")
    return _results_of(document)


def _results_of(document: Mapping[str, Any]) -> tuple[TestResult, ...]:
    run = next((document[root] for root in _ROOTS if isinstance(document.get(root), dict)), None)
    if run is None or not isinstance(run.get("test_categories"), list):
        raise Rejected("wrong_shape", "no DCGM diagnostic with `test_categories`")
    return tuple(_results(run["test_categories"], _serials(document.get("entity_groups"))))


_OUTCOMES: Mapping[str, Outcome] = {"pass": Outcome.PASS, "fail": Outcome.FAIL, "warn": Outcome.WARN}


def _results(categories: list[Any], serials: Mapping[int, str]) -> Iterator[TestResult]:
    for category in objects_in(categories):
        for test in objects_in(category.get("tests")):
            name, group = _string(test.get("name")) or "unnamed", _string(category.get("category")) or ""
            # The summary repeats the results; it is used only if there are none.
            results = objects_in(test.get("results")) or objects_in([test.get("test_summary")])
            for result in results:
                yield _result(name[:64], group[:64], result, serials)


def _result(test: str, category: str, document: Mapping[str, Any], serials: Mapping[int, str]) -> TestResult:
    outcome = _OUTCOMES.get((_string(document.get("status")) or "").strip().lower(), Outcome.SKIP)
    components = tuple(_components(document, serials)) or (NODE_COMPONENT,)
    if outcome in {Outcome.PASS, Outcome.SKIP}:
        return TestResult(test, category, outcome, components)
    default_code = _FAILED if outcome is Outcome.FAIL else _WARNED
    code = table("dcgm")["tests"].get(test.lower(), default_code)
    errors = tuple(_errors(document.get("warnings"), code)) or (TestError(code, f"{test}: {outcome}"),)
    return TestResult(test, category, outcome, components, errors)


def _components(document: Mapping[str, Any], serials: Mapping[int, str]) -> Iterator[Component]:
    if _string(document.get("entity_group")) not in {None, "GPU"}:
        return
    ids = next((document[key] for key in ("entity_id", "gpu_ids", "gpu_id") if key in document), "")
    for number in re.findall(r"\d+", str(ids)[:256]):
        if len(number) <= MAX_ID:
            yield Component(ComponentType.GPU, index=int(number), serial=serials.get(int(number)))


def _errors(document: object, default_code: str) -> Iterator[TestError]:
    for warning in document if isinstance(document, list) else [document]:
        if isinstance(warning, str) and warning.strip():
            yield TestError(_code(default_code, warning), warning.strip())
        elif isinstance(warning, dict):
            text = _string(warning.get("warning")) or ""
            number, *others = (_number(warning.get(f"error_{name}")) for name in ("id", "severity", "category"))
            code = _code(default_code, text) if number is None else _code_of(number, text)
            yield TestError(code, text.strip(), number, *others)


def _code_of(number: int, text: str) -> str:
    code = code_of_number(number)
    if code in {"dcgm.xid_error", "dcgm.sxid_error"}:
        return xid_named_in(text) or code
    has_meaning = code in CODES and code not in {"dcgm.unknown", "dcgm.unrecognized"}
    return code if has_meaning else code_of_diagnostic(text) or code


def _code(default_code: str, text: str) -> str:
    if default_code not in {_FAILED, _WARNED}:
        return default_code
    return code_of_diagnostic(text) or default_code


def _serials(groups: object) -> dict[int, str]:
    found: dict[int, str] = {}
    for group in objects_in(groups):
        for entity in objects_in(group.get("entities")):
            serial, number = _string(entity.get("serial_num")), _number(entity.get("entity_id"))
            if group.get("entity_group") == "GPU" and serial and number is not None and serial.isalnum():
                found[number] = serial[:64]
    return found


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Converts the table of `dcgmi diag -r N` to the structure of its JSON output.
#
# Grammar: `| Memory | Pass - GPUs: 1, 2 |`, or `| memory | Fail |` with `| | GPU0: Fail |` below. A row `| Warning |
# text
# |` is split after 45 characters, even within a word. Source: DCGM's documentation and tables in public reports, DCGM 2
# to 4.

_TITLE = re.compile(r"^\| Diagnostic {1,40}\| Result {1,64}\|", re.MULTILINE)
_ROW = re.compile(r"^\|([^|\n]{27})\|([^|\n]{48})(?:\||$)", re.MULTILINE)
_STATUS = re.compile(r"(?:GPU ?(\d{1,3}): )?(Pass|Fail|Warn|Skip)\w{0,4}(?: - (?:All|GPUs?: ([\d, ]{1,256})))?$")
_TEXT_WIDTH = 46
_GPU = re.compile(r"\bGPU ?(\d{1,3})\b")
_WORST = ("Fail", "Warn", "Skip", "Pass")


class _Test(Struct):
    """One test of the table.

    `outcomes` maps each outcome to the GPUs that have it; an empty set means that the table names none. `texts` are the
    warnings and errors of the test: for each of them, the first cell of its row, followed by the pieces of its text.
    """

    name: str
    outcomes: dict[str, set[str]] = field(default_factory=dict)
    texts: list[list[str]] = field(default_factory=list)

    def results(self) -> Iterator[Mapping[str, Any]]:
        """Yield the results of the test in the structure of the JSON output.

        - Each warning gives one result, with the worst outcome of the test. If the warning names no GPU, its result
          names no GPU either, and replaces the results of all GPUs that have the worst outcome.
        - Each listed GPU that no warning is about gives one result, with the outcome of that GPU.
        - An outcome without listed GPUs gives one result that names no GPU. It gives none if it is the worst outcome
          and the test has a warning.
        """
        status = next((one for one in _WORST if one in self.outcomes), "Fail")
        explained: set[str] = set()
        for name, *chunks in self.texts:
            text = "".join(chunks).strip()
            gpu = _GPU.search(name) or _GPU.search(text)
            explained |= {gpu[1]} if gpu else self.outcomes.get(status, set())
            yield {"status": status, "gpu_ids": gpu[1] if gpu else "", "warnings": [{"warning": text}]}
        for outcome, gpus in self.outcomes.items():
            is_explained = outcome == status and (self.texts or gpus)
            yield from ({"status": outcome, "gpu_ids": one} for one in sorted(gpus - explained))
            if not gpus and not is_explained:
                yield {"status": outcome, "gpu_ids": ""}


def is_diag_table(text: str) -> bool:
    """Return whether a text is the table of `dcgmi diag`."""
    return _TITLE.search(text) is not None


def report_of_table(text: str) -> Mapping[str, Any] | None:
    """Convert the table of a diagnostics run to the structure of its JSON output; None for other text."""
    if not is_diag_table(text):
        return None
    tests = [
        {"name": test.name, "results": list(test.results())} for test in _tests(_ROW.finditer(text)) if test.outcomes
    ]
    return {"DCGM Diagnostic": {"test_categories": [{"category": "", "tests": tests}]}}


def _tests(rows: Iterable[re.Match[str]]) -> list[_Test]:
    found = [_Test("unnamed")]
    in_text = False
    for row in rows:
        name, cell = row[1].strip(), row[2]
        outcome = _STATUS.match(cell.strip())
        if outcome is not None:
            if name:
                found.append(_Test(name[:64]))
            named = outcome[1] or outcome[3] or ""
            found[-1].outcomes.setdefault(outcome[2], set()).update(re.findall(r"\d{1,3}", named))
            in_text = False
        elif name.startswith(("Warning", "Error")):
            found[-1].texts.append([name, cell[1:_TEXT_WIDTH]])
            in_text = True
        elif in_text and not name:
            found[-1].texts[-1].append(cell[1:_TEXT_WIDTH])
        else:
            in_text = False
    return found


SOURCE = "dcgm-diag"
_GPU_IN_TEXT = re.compile(r"\bGPU (\d{1,4})\b")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return the faults of failed and warned tests: one for each affected device of each error."""
    table = report_of_table(text_of(body))
    results = read_report(body) if table is None else _results_of(table)
    return tuple(fault for result in results for fault in _faults(result))


def recognize(body: bytes) -> bool:
    """Return whether a body is probably a DCGM diagnostics report, as JSON or as a table."""
    is_json = (b'"DCGM Diagnostic"' in body or b'"DCGM GPU Diagnostic"' in body) and b'"test_categories"' in body
    return is_json or (b"| Diagnostic " in body and is_diag_table(text_of(body)))


def _faults(result: TestResult) -> Iterator[Fault]:
    for error in result.errors:
        for component in _affected(result, error):
            fault = _fault(result, error, component)
            warned = result.outcome is Outcome.WARN and error.code not in SETTINGS and not error.code.startswith("xid.")
            yield fault.classified(Severity.WARNING, Action.NONE) if warned else fault


def _affected(result: TestResult, error: TestError) -> tuple[Component, ...]:
    """Return the devices that an error of a test is about."""
    if len(result.components) == 1:
        return result.components
    named = {int(number) for number in _GPU_IN_TEXT.findall(error.text[:1024])}
    return tuple(component for component in result.components if component.index in named) or (NODE_COMPONENT,)


def _fault(result: TestResult, error: TestError, component: Component) -> Fault:
    numbers = {name: getattr(error, name) for name in ("error_id", "error_severity", "error_category")}
    details: dict[str, Any] = {name: str(number) for name, number in numbers.items() if number is not None}
    raw, message = f"{result.test}: {result.outcome}: {error.text}", error.text or error.code
    return fault_of(SOURCE, error.code, component, message, raw, test=result.test, status=result.outcome, **details)
