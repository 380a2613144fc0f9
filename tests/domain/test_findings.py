"""The recorded precision of a detector, and which faults prove its findings right."""

from __future__ import annotations

import pytest

from faultbridge.model.findings import Detector, Finding, Mark, precision_of
from tests.builders import KEY, NOON


def finding(mark: Mark | None, detector: str = "nvlink-crc") -> Finding:
    return Finding("f-1", *KEY, detector, NOON, value=300, median=2, score=900, peers=11, mark=mark)


@pytest.mark.parametrize(
    ("right", "wrong", "percent"), [(0, 0, None), (1, 0, 100), (0, 1, 0), (1, 1, 50), (2, 1, 67), (1, 2, 33)]
)
def test_the_precision_is_the_share_of_the_marked_findings_that_were_right(
    right: int, wrong: int, percent: int | None
) -> None:
    marked = [finding(Mark.RIGHT)] * right + [finding(Mark.WRONG)] * wrong
    found = precision_of("nvlink-crc", [*marked, finding(None), finding(Mark.RIGHT, "another")])
    assert (found.findings, found.right, found.wrong, found.percent) == (right + wrong + 1, right, wrong, percent)


@pytest.mark.parametrize(("code", "proves"), [("xid.74", True), ("sxid.12028", True), ("xid.79", False)])
def test_a_hard_fault_of_a_listed_code_or_family_proves_a_finding(code: str, proves: bool) -> None:
    detector = Detector("nvlink-crc", "nvlink", ("crc",), "errors", 10, proved_by=("xid.74", "sxid.*"))
    assert detector.is_proved_by(code) is proves
