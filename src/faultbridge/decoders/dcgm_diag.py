"""`dcgm-diag`: `dcgmi diag -r N -j` as faults, and as the report that a verification reads.

Grammar: one JSON object, perhaps behind other text; its root and the shape of a result differ by version
(`diagnosis`). A skipped test is no pass; DCGM's severities are no order; what speaks of settings asks for nothing.
Times: the report carries none. Errors: `Rejected` for anything without test categories; dcgmi's exit code plays no
part. Source: DCGM 1.7, 3.1 to 3.3, 4.0 to 4.6. Units: none; DCGM's texts stay as printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.dcgm_codes import SETTINGS
from faultbridge.decoders.diagnosis import Complaint, Outcome, Result, read_diagnosis
from faultbridge.domain.faults import NODE_COMPONENT, Action, Component, Fault, Observation, Severity

SOURCE = "dcgm-diag"
_GPU_IN_TEXT = re.compile(r"\bGPU (\d{1,4})\b")


def read_report(body: bytes) -> tuple[Result, ...]:
    """Return every test of a report with its outcome, for whoever verifies a node; raises Rejected for no report."""
    return read_diagnosis(body).results


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each complaint of a test that failed or warned; the report carries no time."""
    return tuple(fault for result in read_report(body) for fault in _faults(result))


def recognize(body: bytes) -> bool:
    """Tell whether one of the roots of the report is there, and its tests."""
    return (b'"DCGM Diagnostic"' in body or b'"DCGM GPU Diagnostic"' in body) and b'"test_categories"' in body


def _faults(result: Result) -> Iterator[Fault]:
    for complaint in result.complaints:
        for component in _blamed(result, complaint):
            fault = _fault(result, complaint, component)
            warned = result.outcome is Outcome.WARN and complaint.code not in SETTINGS
            yield fault.classified(Severity.WARNING, Action.NONE) if warned else fault


def _blamed(result: Result, complaint: Complaint) -> tuple[Component, ...]:
    """Return the device that a complaint names; a result may be about all of them together."""
    if len(result.components) == 1:
        return result.components
    named = {int(number) for number in _GPU_IN_TEXT.findall(complaint.text[:1024])}
    return tuple(component for component in result.components if component.index in named) or (NODE_COMPONENT,)


def _fault(result: Result, complaint: Complaint, component: Component) -> Fault:
    numbers = {name: getattr(complaint, name) for name in ("error_id", "error_severity", "error_category")}
    told = {name: str(number) for name, number in numbers.items() if number is not None}
    return Fault(
        source=SOURCE,
        code=complaint.code,
        component=component,
        message=cut(complaint.text or complaint.code),
        evidence=evidence(f"{result.test}: {result.outcome}: {complaint.text}"),
        attributes={"test": result.test, "status": result.outcome.value, **told},
    )


DECODER = Decoder(
    name=SOURCE,
    summary="dcgmi diag -r N -j (DCGM 1 to 4): failed and warned tests",
    example='{"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": [{"name": "memory", '
    '"results": [{"entity_group": "GPU", "entity_id": 0, "status": "Fail", "warnings": [{"warning": '
    '"GPU 0 had uncorrectable memory errors and row remapping failed.", "error_id": 84}]}]}]}]}}',
    recognize=recognize,
    decode=decode,
)
