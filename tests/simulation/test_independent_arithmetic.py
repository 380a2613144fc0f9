"""The arithmetic of the invariants is not the product's: it imports nothing of it and notices a difference."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.sim.history import run
from tests.sim.invariants import arithmetic
from tests.sim.shrink import violated_invariants


def test_the_arithmetic_imports_only_the_standard_library() -> None:
    tree = ast.parse(Path(arithmetic.__file__).read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_repair_beyond_the_budget_is_found() -> None:
    def started(case: str, at: str) -> arithmetic.Body:
        meta = {"event_type": "Case Status Change", "case_id": case, "recorded_at": at}
        return {"metadata": meta, "data": {"to": "in_progress", "repair_action": "replace_node"}}

    bodies = [started("c-1", "2026-02-03T04:00:00+00:00"), started("c-2", "2026-02-03T04:30:00+00:00")]
    assert list(arithmetic.repairs_over_budget(bodies, 2, 2)) == []
    assert list(arithmetic.repairs_over_budget(bodies, 1, 2)) == ["c-2: 2 repairs at once, 2 within an hour"]
    assert list(arithmetic.repairs_over_budget(bodies, 2, 1)) == ["c-2: 2 repairs at once, 2 within an hour"]


@pytest.mark.parametrize(
    ("place", "wrong", "invariant"),
    [
        ("model.entries.chain", lambda _previous, body: body, "each entry contains the hash"),
        ("repair.cluster_status.cluster_status", lambda *_: "healthy", "a cluster's status follows"),
        ("serve.pager.rules.PageRule.key", lambda _rule, _event: "key", "no page is sent that no entry"),
    ],
    ids=["hash chain", "cluster status", "page keys"],
)
def test_wrong_arithmetic_of_the_product_is_noticed(
    monkeypatch: pytest.MonkeyPatch, place: str, wrong: object, invariant: str
) -> None:
    monkeypatch.setattr(f"faultbridge.{place}", wrong)
    found = (violated_invariants(run(seed, 12)) for seed in range(3, 9))
    assert any(name.startswith(invariant) for names in found for name in names)


def test_a_repair_without_the_approval_of_the_fault_that_requires_it_is_found() -> None:
    def fault(kind: str, code: str, action: str) -> arithmetic.Body:
        data = {"code": code, "since": "s", "component": {"type": "gpu"}, "action": action, "incarnation": {}}
        return {"metadata": {"event_type": f"Node Fault {kind}", "case_id": "c-1"}, "data": data}

    def started(action: str) -> arithmetic.Body:
        data = {"to": "in_progress", "repair_action": action, "attempt": 1, "rule": "mild", "cause": {"code": "xid.48"}}
        return {"metadata": {"event_type": "Case Status Change", "case_id": "c-1"}, "data": data}

    asking = [(("xid.79",), frozenset({"replace_node"})), ((), frozenset[str]())]
    mild, worse = fault("Detected", "xid.48", "reboot_node"), fault("Detected", "xid.79", "replace_node")
    assert list(arithmetic.unapproved_repairs([mild, started("replace_node")], asking)) == []
    assert list(arithmetic.unapproved_repairs([mild, worse, started("replace_node")], asking)) == [
        "c-1: attempt 1 is replace_node"
    ]
    cleared = fault("Cleared", "xid.79", "replace_node")
    assert list(arithmetic.unapproved_repairs([mild, worse, cleared, started("replace_node")], asking)) == []


def test_without_active_faults_the_fault_that_joined_the_case_last_decides_about_the_approval() -> None:
    opened_by = {"to": "in_progress", "attempt": 1, "rule": "r", "cause": {"code": "xid.48"}}
    started = {"repair_action": "reboot_node"} | opened_by
    case = {"event_type": "Case Status Change", "case_id": "c-1"}
    joined = {
        "kind": "information",
        "text": "cloud.instance_gone joined the case: replace_node replaces reset_gpu",
        "facts": {"repair_action": "replace_node", "repair_action_before": "reset_gpu"},
    }
    note = {"metadata": case | {"event_type": "Node Note Recorded"}, "data": joined}
    asking = [(("xid.48",), frozenset({"reboot_node"})), ((), frozenset[str]())]
    start = {"metadata": case, "data": started}
    assert list(arithmetic.unapproved_repairs([start], asking)) == ["c-1: attempt 1 is reboot_node"]
    assert list(arithmetic.unapproved_repairs([note, start], asking)) == []


def test_a_fault_whose_start_and_device_were_corrected_is_over_when_it_is_cleared() -> None:
    def fault(kind: str, since: str, **known: str) -> arithmetic.Body:
        component = {"type": "gpu", **dict.fromkeys(("pci", "uuid", "index", "link", "name")), **known}
        data = {"code": "xid.79", "since": since, "component": component, "action": "replace_node", "incarnation": {}}
        return {"metadata": {"event_type": f"Node Fault {kind}", "case_id": "c-1"}, "data": data}

    data = {"to": "in_progress", "repair_action": "reboot_node", "attempt": 1, "rule": "r", "cause": {"code": "net.x"}}
    started = {"metadata": {"event_type": "Case Status Change", "case_id": "c-1"}, "data": data}
    asking = [(("xid.79",), frozenset({"reboot_node"})), ((), frozenset[str]())]
    corrected = [fault("Detected", "10:02", index="0"), fault("Updated", "10:01", index="0", pci="53")]
    over, of_another = fault("Cleared", "10:00", pci="53"), fault("Cleared", "09:00", index="1", pci="c1")
    assert list(arithmetic.unapproved_repairs([*corrected, over, started], asking)) == []
    assert list(arithmetic.unapproved_repairs([*corrected, of_another, started], asking)) != []
