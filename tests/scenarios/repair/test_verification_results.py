"""The results of a verification on the timeline: what passed, and why a verification gave no result."""

from __future__ import annotations

from typing import Any

from faultbridge.model.entries import MAX_REASON
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.record.ports.compute import Verdict, Verification
from tests.scenarios.world import World

PASSED = "nccl-all-reduce passed: 412.0 GB/s bus bandwidth; at least 360 expected"
MISSING = "nccl-all-reduce not verified: its tool is not installed"


def verify_steps(world: World, outcome: str) -> list[dict[str, Any]]:
    steps = [body["data"] for body in world.bodies() if body["data"].get("step") == "verify"]
    return [step for step in steps if step["outcome"] == outcome]


def test_the_figures_of_a_passed_verification_are_on_the_timeline() -> None:
    world = World()
    world.verifier.result = Verification(Verdict.PASSED, (PASSED,), b"{}")
    world.fault_until_resolved()
    assert [step["facts"]["findings"] for step in verify_steps(world, "passed")] == [[PASSED]]


def test_a_verification_without_a_result_is_on_the_timeline_with_its_reason_and_never_passes() -> None:
    world = World()
    world.verifier.result = Verification(Verdict.UNKNOWN, (MISSING,), b"{}")
    world.fault_until(CaseStatus.ESCALATED)
    reasons = {step["reason"] for step in verify_steps(world, "no_result")}
    assert reasons == {MISSING}
    assert len(verify_steps(world, "no_result")) <= 20
    assert verify_steps(world, "passed") == []
    assert world.status() is NodeStatus.VALIDATING


def test_each_verification_without_a_result_is_recorded_once_and_the_next_one_decides() -> None:
    world = World()
    world.verifier.result = Verification(Verdict.UNKNOWN, (MISSING,), b"{}")
    world.fault_and_react()
    world.until(lambda: len(verify_steps(world, "no_result")) > 1)
    world.verifier.result = Verification(Verdict.PASSED, (PASSED,), b"{}")
    world.until(world.case_is(CaseStatus.RESOLVED))
    operations = [step["operation"] for step in verify_steps(world, "no_result")]
    assert len(operations) == len(set(operations))
    assert world.status() is NodeStatus.HEALTHY


def test_a_failed_verification_with_many_findings_has_a_short_reason_and_complete_facts() -> None:
    world = World()
    findings = tuple(f"GPU {number}: memory test failed: {'x' * 400}" for number in range(40))
    world.verifier.result = Verification(Verdict.FAILED, findings, b"{}")
    world.fault_and_react()
    world.until(lambda: bool(verify_steps(world, "failed")))
    step = verify_steps(world, "failed")[0]
    assert step["facts"]["findings"] == list(findings)
    assert step["reason"].startswith(findings[0])
    assert step["reason"].endswith("; ... and 36 more findings")
    reasons = [body["data"].get("reason") or "" for body in world.bodies()]
    assert max(map(len, reasons)) <= MAX_REASON
