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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from faultbridge.decode.data import table
from faultbridge.decode.dcgm.texts import CODES, SETTINGS, code_of_diagnostic, code_of_number, xid_named_in
from faultbridge.decode.frames.decoder import Hints, fault_of
from faultbridge.decode.frames.documents import embedded, text_of
from faultbridge.decode.frames.values import objects_in
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
    """An error of a test: the fault code, the text of DCGM, and DCGM's numbers for the error by name."""

    code: str
    text: str
    numbers: Mapping[str, str] = field(default_factory=dict)


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
    run = next((document[root] for root in _ROOTS if isinstance(document.get(root), dict)), None)
    if run is None or not isinstance(run.get("test_categories"), list):
        raise Rejected("wrong_shape", "no DCGM diagnostic with `test_categories`")
    return tuple(_results(run["test_categories"], _serials(document.get("entity_groups"))))


def _results(categories: list[Any], serials: Mapping[int, str]) -> Iterator[TestResult]:
    for category in objects_in(categories):
        for test in objects_in(category.get("tests")):
            name, group = _string(test.get("name")) or "unnamed", _string(category.get("category")) or ""
            # The summary repeats the results; it is used only if there are none.
            for result in objects_in(test.get("results")) or objects_in([test.get("test_summary")]):
                status, warnings = _string(result.get("status")) or "", result.get("warnings")
                listed = warnings if isinstance(warnings, list) else [warnings]
                ids = next((result[key] for key in ("entity_id", "gpu_ids", "gpu_id") if key in result), "")
                is_of_gpu = _string(result.get("entity_group")) in {None, "GPU"}
                yield _result(name[:64], group[:64], status, _gpus(str(ids), serials) if is_of_gpu else (), listed)


def _result(
    test: str, category: str, status: str, components: tuple[Component, ...], warnings: Sequence[object]
) -> TestResult:
    word, components = status.strip().lower(), components or (NODE_COMPONENT,)
    outcome = Outcome(word) if word in {"pass", "fail", "warn"} else Outcome.SKIP
    if outcome in {Outcome.PASS, Outcome.SKIP}:
        return TestResult(test, category, outcome, components)
    code = table("dcgm")["tests"].get(test.lower(), _FAILED if outcome is Outcome.FAIL else _WARNED)
    errors = tuple(_errors(warnings, code)) or (TestError(code, f"{test}: {outcome}"),)
    return TestResult(test, category, outcome, components, errors)


def _errors(warnings: Sequence[object], default_code: str) -> Iterator[TestError]:
    for warning in warnings:
        if isinstance(warning, str) and warning.strip():
            yield TestError(_code(default_code, warning), warning.strip())
        elif isinstance(warning, dict):
            text = _string(warning.get("warning")) or ""
            numbers = {name: _number(warning.get(name)) for name in ("error_id", "error_severity", "error_category")}
            number = numbers["error_id"]
            code = _code(default_code, text) if number is None else _code_of(number, text)
            stated = {name: str(value) for name, value in numbers.items() if value is not None}
            yield TestError(code, text.strip(), stated)


def _code_of(number: int, text: str) -> str:
    code = code_of_number(number)
    if code in {"dcgm.xid_error", "dcgm.sxid_error"}:
        return xid_named_in(text) or code
    has_meaning = code in CODES and code not in {"dcgm.unknown", "dcgm.unrecognized"}
    return code if has_meaning else code_of_diagnostic(text) or code


def _code(default_code: str, text: str) -> str:
    return (code_of_diagnostic(text) if default_code in {_FAILED, _WARNED} else None) or default_code


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


# Reads the table of `dcgmi diag -r N`.
#
# Grammar: `| Memory | Pass - GPUs: 1, 2 |`, or `| memory | Fail |` with `| | GPU0: Fail |` below. A row `| Warning |
# text |` is split after 45 characters, even within a word. Source: DCGM's documentation and tables in public reports,
# DCGM 2 to 4.

_TITLE = re.compile(r"^\| Diagnostic {1,40}\| Result {1,64}\|", re.MULTILINE)
_ROW = re.compile(r"^\|([^|\n]{27})\|([^|\n]{48})(?:\||$)", re.MULTILINE)
_STATUS = re.compile(r"(?:GPU ?(\d{1,3}): )?(Pass|Fail|Warn|Skip)\w{0,4}(?: - (?:All|GPUs?: ([\d, ]{1,256})))?$")
_TEXT_WIDTH = 46
_GPU = re.compile(r"\bGPU ?(\d{1,3})\b")
_WORST = ("Fail", "Warn", "Skip", "Pass")
_NO_SERIALS: Mapping[int, str] = {}


class _Test(Struct):
    """One test of the table.

    `outcomes` maps each outcome to the GPUs that have it; an empty set means that the table names none. `texts` are the
    warnings and errors of the test: for each of them, the first cell of its row, followed by the pieces of its text.
    """

    name: str
    outcomes: dict[str, set[str]] = field(default_factory=dict)
    texts: list[list[str]] = field(default_factory=list)

    def results(self) -> Iterator[TestResult]:
        """Yield the results of the test.

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
            yield _result(self.name, "", status, _gpus(gpu[1]) if gpu else (), [text])
        for outcome, gpus in self.outcomes.items():
            is_explained = outcome == status and (self.texts or gpus)
            yield from (_result(self.name, "", outcome, _gpus(one), ()) for one in sorted(gpus - explained))
            if not gpus and not is_explained:
                yield _result(self.name, "", outcome, (), ())


def _gpus(numbers: str, serials: Mapping[int, str] = _NO_SERIALS) -> tuple[Component, ...]:
    found = (int(number) for number in re.findall(r"\d+", numbers[:256]) if len(number) <= MAX_ID)
    return tuple(Component(ComponentType.GPU, index=index, serial=serials.get(index)) for index in found)


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
    text = text_of(body)
    tests = (test for test in _tests(_ROW.finditer(text)) if test.outcomes) if _TITLE.search(text) else None
    results = read_report(body) if tests is None else (result for test in tests for result in test.results())
    return tuple(fault for result in results for fault in _faults(result))


def _faults(result: TestResult) -> Iterator[Fault]:
    for error in result.errors:
        # An error of several devices is about those that its text names.
        named = {int(number) for number in _GPU_IN_TEXT.findall(error.text[:1024])}
        affected = tuple(one for one in result.components if one.index in named or len(result.components) == 1)
        message, raw = error.text or error.code, f"{result.test}: {result.outcome}: {error.text}"
        for component in affected or (NODE_COMPONENT,):
            stated: dict[str, Any] = {"test": result.test, "status": result.outcome, **error.numbers}
            fault = fault_of(SOURCE, error.code, component, message, raw, **stated)
            warned = result.outcome is Outcome.WARN and error.code not in SETTINGS and not error.code.startswith("xid.")
            yield fault.classified(Severity.WARNING, Action.NONE) if warned else fault
