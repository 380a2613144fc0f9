"""Failure modes: each code of the catalog has one, and each mode is complete and consistent with the others."""

from __future__ import annotations

import json

import pytest

from faultbridge.decode.data import FOLDER, load_catalog
from faultbridge.decode.data.mapping import packaged
from faultbridge.model.catalog import DomainRole, Mode, Row, WorkEffect
from faultbridge.model.fault_enums import Action, Severity
from tests.builders import fault
from tests.loops import for_each

CATALOG = load_catalog()
MODES = CATALOG.modes
LOST = {WorkEffect.NODE, WorkEffect.DEVICE}
OWN = ("severity", "action", "work", "scope", "ends_on", "family")
"""What a row has from its mode, unless the row states its own."""

RAW_MODES = json.loads((FOLDER / "modes.json").read_text())["modes"]
RAW_ROWS = [row for path in sorted((FOLDER / "catalog").glob("[!i]*.json")) for row in json.loads(path.read_text())]


def name(mode: Mode) -> str:
    return mode.name


def test_each_row_of_the_catalog_names_a_mode_of_the_list() -> None:
    """A row that you add needs `"mode"`: the name of the mode in `decode/data/modes.json` that it shows."""
    assert {row.code: row.mode for row in CATALOG.rows.values() if row.mode not in MODES} == {}


def test_each_mode_has_a_row() -> None:
    assert MODES.keys() - {row.mode for row in CATALOG.rows.values()} == set()


def test_codes_of_one_mode_have_one_severity_action_and_effect_on_work_unless_the_row_says_why() -> None:
    departing = [row for row in CATALOG.rows.values() if _judged(row) != _judged(MODES[row.mode])]
    assert departing
    assert [row.code for row in departing if not row.reason] == []


def test_a_row_states_only_what_differs_from_its_mode() -> None:
    repeated = [
        (row["code"], one)
        for row in RAW_ROWS
        for one in OWN
        if one in row and row[one] == RAW_MODES[row["mode"]].get(one, {"scope": "boot", "family": None}.get(one))
    ]
    assert repeated == []


@pytest.mark.parametrize(
    ("mode", "codes"),
    [
        (
            "gpu.ecc_uncorrectable",
            "xid.48 dcgm.dbe_violation dcgm.volatile_dbe_detected dcgm.cuda_dbe agent.double_bit_error train.cuda_ecc",
        ),
        ("gpu.lost", "xid.79 smi.gpu_lost dcgm.fallen_off_bus"),
        ("gpu.row_remap_pending", "xid.63 smi.row_remap_pending dcgm.pending_row_remap"),
        ("nvlink.link_error", "xid.74 agent.nvlink_error dcgm.nvlink_error_critical"),
    ],
)
def test_reporters_of_one_failure_lead_to_one_action(mode: str, codes: str) -> None:
    rows = [CATALOG.row(code) for code in codes.split()]
    assert {row.mode for row in rows} == {mode}
    assert {_judged(row) for row in rows} == {_judged(MODES[mode])}


def test_a_monitor_that_does_not_respond_is_no_fault_of_a_gpu_and_a_failed_diagnostic_is_one() -> None:
    assert CATALOG.row("agent.dcgm_error").mode == "sensor.dcgm_unreachable"
    assert not CATALOG.row("agent.dcgm_error").action.opens_case
    assert packaged("conditions")["reasons"]["DCGMDiagnosticFailure"] == "agent.accelerator_unhealthy"
    assert CATALOG.row("agent.accelerator_unhealthy").mode == "gpu.unnamed_fault"
    assert [mode.name for mode in MODES.values() if mode.name.startswith("sensor.") and mode.work in LOST] == []


def _judged(one: Mode | Row) -> tuple[Severity, Action, WorkEffect]:
    return one.severity, one.action, one.work


@pytest.mark.parametrize(
    ("value", "work"),
    [("0x1", WorkEffect.DEVICE), ("0x2", WorkEffect.NODE), ("0x4", WorkEffect.AT_RISK)],
)
@pytest.mark.parametrize("code", ["xid.154", "smi.recovery_action"])
def test_the_value_of_a_recovery_action_decides_what_happened_to_the_work(
    code: str, value: str, work: WorkEffect
) -> None:
    row = CATALOG.row_of(fault(code, attributes={"recovery_action": value}))
    assert (row.mode, row.work) == ("gpu.reset_required", work)


@pytest.mark.parametrize(
    ("cause", "role"),
    [("0x04", DomainRole.ORIGIN), ("0x15", DomainRole.SYMPTOM), ("0x23", DomainRole.SYMPTOM), ("0x26", None)],
)
def test_the_cause_of_a_link_event_decides_whether_this_gpu_or_its_peer_is_the_origin(
    cause: str, role: DomainRole | None
) -> None:
    link_event = {"unit": "NETIR_LINK_EVT", "errorstatus": "0x00000000", "severity": "Fatal", "cause": cause}
    row = CATALOG.row_of(fault("xid.149", attributes=link_event))
    assert MODES[row.mode].domain_role is role


@for_each("mode", MODES.values(), ids=name)
def test_a_mode_names_only_modes_of_the_list(mode: Mode) -> None:
    assert {*mode.explains, *mode.precursor_of} <= MODES.keys() - {mode.name}


@for_each("mode", MODES.values(), ids=name)
def test_a_mode_is_complete(mode: Mode) -> None:
    assert mode.components
    assert mode.meaning.endswith(".")
    assert mode.ends_on
    assert mode.severity is not Severity.INFO or not mode.action.opens_case


@for_each("mode", MODES.values(), ids=name)
def test_a_fact_about_the_future_of_a_mode_has_a_source(mode: Mode) -> None:
    facts = (mode.precursor_of, mode.after_checkpoint, mode.max_wait, mode.max_age, mode.lost_after)
    assert not any(facts) or mode.source


def test_only_a_precursor_of_lost_work_permits_a_drain_after_a_checkpoint() -> None:
    drained = [mode for mode in MODES.values() if mode.after_checkpoint]
    assert {mode.after_checkpoint for mode in drained} == {"drain"}
    assert [mode.name for mode in drained if mode.work is not WorkEffect.AT_RISK] == []
    assert [mode.name for mode in drained if not any(MODES[one].work in LOST for one in mode.precursor_of)] == []


def test_a_symptom_explains_nothing_and_loses_no_work_by_itself() -> None:
    symptoms = [mode for mode in MODES.values() if mode.domain_role is DomainRole.SYMPTOM]
    assert [mode.name for mode in symptoms if mode.explains or mode.work in LOST] == []


def test_no_two_modes_explain_each_other() -> None:
    pairs = {(mode.name, one) for mode in MODES.values() for one in mode.explains}
    assert {pair for pair in pairs if pair[::-1] in pairs} == set()
