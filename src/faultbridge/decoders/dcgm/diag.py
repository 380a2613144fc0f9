"""Decodes `dcgm-diag`: the failed and warned tests of `dcgmi diag -r N`, as JSON (`-j`) or as a table.

`read_report` also reads the JSON, for the verification of a node.

Grammar: one JSON object, possibly after other text, or a table (`diag_table`). The JSON structure differs by version. A
skipped test does not count as passed. The numbers of DCGM's severities have no order. An error about a setting needs no
action.

Times: the report has none. Units: none; DCGM's texts are unchanged. Errors: `Rejected` without test categories. The
exit code of dcgmi is ignored. Source: DCGM 1.7, 3.1 to 3.3, 4.0 to 4.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.decoders.common.decoder import Decoder, Hints
from faultbridge.decoders.common.documents import text_of
from faultbridge.decoders.common.fault_codes import SETTINGS
from faultbridge.decoders.common.fields import evidence, truncate
from faultbridge.decoders.dcgm.diag_report import Outcome, TestError, TestResult, read_diag_report, report_of
from faultbridge.decoders.dcgm.diag_table import is_diag_table, report_of_table
from faultbridge.domain.faults import NODE_COMPONENT, Action, Component, Fault, Observation, Severity

SOURCE = "dcgm-diag"
_GPU_IN_TEXT = re.compile(r"\bGPU (\d{1,4})\b")


def read_report(body: bytes) -> tuple[TestResult, ...]:
    """Return each test result of a JSON report, for the verification of a node.

    Raises `Rejected` for any other body.
    """
    return read_diag_report(body).results


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return the faults of failed and warned tests: one for each affected device of each error."""
    table = report_of_table(text_of(body))
    results = read_report(body) if table is None else report_of(table).results
    return tuple(fault for result in results for fault in _faults(result))


def recognize(body: bytes) -> bool:
    """Return whether a body is probably a DCGM diagnostics report, as JSON or as a table."""
    is_json = (b'"DCGM Diagnostic"' in body or b'"DCGM GPU Diagnostic"' in body) and b'"test_categories"' in body
    return is_json or (b"| Diagnostic " in body and is_diag_table(text_of(body)))


def _faults(result: TestResult) -> Iterator[Fault]:
    for error in result.errors:
        for component in _affected(result, error):
            fault = _fault(result, error, component)
            warned = result.outcome is Outcome.WARN and error.code not in SETTINGS
            yield fault.classified(Severity.WARNING, Action.NONE) if warned else fault


def _affected(result: TestResult, error: TestError) -> tuple[Component, ...]:
    """Return the devices that an error of a test is about.

    - If the test result has only one device, the error is about that device.
    - Otherwise, the error is about each device of the result whose GPU number is in the error text.
    - If the text contains no such number, the error is about the node.
    """
    if len(result.components) == 1:
        return result.components
    named = {int(number) for number in _GPU_IN_TEXT.findall(error.text[:1024])}
    return tuple(component for component in result.components if component.index in named) or (NODE_COMPONENT,)


def _fault(result: TestResult, error: TestError, component: Component) -> Fault:
    numbers = {name: getattr(error, name) for name in ("error_id", "error_severity", "error_category")}
    details = {name: str(number) for name, number in numbers.items() if number is not None}
    return Fault(
        source=SOURCE,
        code=error.code,
        component=component,
        message=truncate(error.text or error.code),
        evidence=evidence(f"{result.test}: {result.outcome}: {error.text}"),
        attributes={"test": result.test, "status": result.outcome.value, **details},
    )


DECODER = Decoder(
    name=SOURCE,
    summary="dcgmi diag -r N, as JSON (-j) or as a table (DCGM 1 to 4): failed and warned tests",
    example='{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", '
    '"results": [{"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"warning": '
    '"GPU 0 had uncorrectable memory errors and row remapping failed.", "error_id": 84}]}]}]}]}}',
    recognize=recognize,
    decode=decode,
    can_be_silent=True,
)
