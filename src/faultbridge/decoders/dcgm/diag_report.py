"""Reads the report of a DCGM diagnostics run: the outcome of each test on each device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.documents import embedded, text_of
from faultbridge.decoders.common.fault_codes import CODES, SETTINGS, code_of_number
from faultbridge.decoders.common.fields import members, objects_in
from faultbridge.decoders.dcgm.texts import code_of_text
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType
from faultbridge.errors import Rejected

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
MAX_ID = 4
_FAILED, _WARNED = "dcgm.diag_failed", "dcgm.diag_warned"


class Outcome(StrEnum):
    """The outcome of one test on one device. A skipped test shows neither health nor a fault."""

    PASS = "pass"  # noqa: S105 - DCGM's status text
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"


# DCGM 1 and the early JSON of DCGM 3 give a test's name; later versions give an error number.
_CODES_BY_TEST: Mapping[str, str] = {
    "blacklist": "dcgm.denylisted_driver",
    "denylist": "dcgm.denylisted_driver",
    "nvml library": "dcgm.nvml_lib_bad",
    "cuda main library": "dcgm.cannot_open_lib",
    "permissions and os blocks": "dcgm.no_access_to_file",
    "permissions and os-related blocks": "dcgm.no_access_to_file",
    "persistence mode": "dcgm.persistence_mode",
    "environment variables": "dcgm.bad_cuda_env",
    "environmental variables": "dcgm.bad_cuda_env",
    "graphics processes": "dcgm.graphics_processes",
    "inforom": "dcgm.corrupt_inforom",
}


@dataclass(frozen=True, slots=True)
class TestError:
    """An error of a test: the fault code, the text of DCGM, and DCGM's numbers for the error.

    The numbers are the kind of the error (`error_id`), its severity and its category. Each is None if the report does
    not contain it.
    """

    code: str
    text: str
    error_id: int | None = None
    error_severity: int | None = None
    error_category: int | None = None


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of one test on one or more devices. A failed or warned test has at least one error.

    `category` is the group of tests in the report of DCGM, such as `Hardware`. `components` are the devices.
    """

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


@dataclass(frozen=True, slots=True)
class DiagReport:
    """The report of one diagnostics run: the results of all tests, in the order of the report."""

    results: tuple[TestResult, ...]
    version: str | None = None
    driver_version: str | None = None


def read_diag_report(body: bytes) -> DiagReport:
    """Return the report in the output of `dcgmi diag -j` of DCGM 1, 3 or 4.

    Text before the JSON is ignored. Raises `Rejected` if there is no report.
    """
    document = embedded(text_of(body))
    if document is None:
        raise Rejected("malformed_json", "no complete JSON object")
    return report_of(document)


def report_of(document: Mapping[str, Any]) -> DiagReport:
    """Return the diagnostics report in a JSON document. Raises `Rejected` for any other document."""
    run = next((document[root] for root in _ROOTS if isinstance(document.get(root), dict)), None)
    if run is None or not isinstance(run.get("test_categories"), list):
        raise Rejected("wrong_shape", "no DCGM diagnostic with `test_categories`")
    metadata = members(document.get("metadata"))
    serials = _serials(document.get("entity_groups"))
    return DiagReport(
        tuple(_results(run["test_categories"], serials)),
        _string(metadata.get("version")) or _string(run.get("version")),
        _string(metadata.get("Driver Version Detected")) or _string(run.get("Driver Version Detected")),
    )


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
    code = _CODES_BY_TEST.get(test.lower(), default_code)
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
    has_meaning = code in CODES and code not in {"dcgm.unknown", "dcgm.unrecognized"}
    return code if has_meaning else code_of_text(text) or code


def _code(default_code: str, text: str) -> str:
    if default_code not in {_FAILED, _WARNED}:
        return default_code
    return "dcgm.persistence_mode" if "Persistence mode for GPU" in text else code_of_text(text) or default_code


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
