"""Failure modes: each code of the catalog has one, and each mode is complete and consistent with the others."""

from __future__ import annotations

from faultbridge.decode.data import load_catalog
from faultbridge.model.catalog import DomainRole, Mode, Work
from faultbridge.model.fault_enums import Severity
from tests.loops import for_each

CATALOG = load_catalog()
MODES = CATALOG.modes
LOST = {Work.NODE, Work.DEVICE}


def name(mode: Mode) -> str:
    return mode.name


def test_each_row_of_the_catalog_names_a_mode_of_the_list() -> None:
    """A row that you add needs `"mode"`: the name of the mode in `decode/data/modes.json` that it shows."""
    assert {row.code: row.mode for row in CATALOG.rows.values() if row.mode not in MODES} == {}


def test_each_mode_has_a_row() -> None:
    assert MODES.keys() - {row.mode for row in CATALOG.rows.values()} == set()


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
    assert [mode.name for mode in drained if mode.work is not Work.AT_RISK] == []
    assert [mode.name for mode in drained if not any(MODES[one].work in LOST for one in mode.precursor_of)] == []


def test_a_symptom_explains_nothing_and_loses_no_work_by_itself() -> None:
    symptoms = [mode for mode in MODES.values() if mode.domain_role is DomainRole.SYMPTOM]
    assert [mode.name for mode in symptoms if mode.explains or mode.work in LOST] == []


def test_no_two_modes_explain_each_other() -> None:
    pairs = {(mode.name, one) for mode in MODES.values() for one in mode.explains}
    assert {pair for pair in pairs if pair[::-1] in pairs} == set()
