"""The open enumerations have the values of the domain, and a reader accepts unknown values."""

from __future__ import annotations

import ast
import json
from enum import StrEnum

import pytest

from faultbridge.explain.verdict.mechanisms import Outlook
from faultbridge.model import cases, edges, entries, faults, nodes
from faultbridge.model.cluster import state
from faultbridge.model.events import enums
from faultbridge.model.events import enums as cluster_enums
from faultbridge.model.events import enums as job_enums
from faultbridge.model.events.enums import OpenEnum
from faultbridge.model.events.json_schema import MODELS
from faultbridge.model.events.registry import EVENT_NAMES, event_name, model_of
from faultbridge.record.ports import ProviderFailure
from tests.architecture.project import PACKAGE, modules, parse
from tests.events.samples import sample
from tests.loops import for_each

PAIRS: list[tuple[type[OpenEnum], type[StrEnum]]] = [
    (enums.Severity, faults.Severity),
    (enums.Action, faults.Action),
    (enums.ComponentType, faults.ComponentType),
    (enums.NodeStatus, edges.NodeStatus),
    (enums.CaseStatus, edges.CaseStatus),
    (enums.Actor, edges.Actor),
    (enums.Isolation, nodes.Isolation),
    (enums.ClusterStatus, state.ClusterStatus),
    (enums.WaitingFor, cases.WaitingFor),
    (enums.Resolution, cases.Resolution),
    (enums.RepairAction, cases.RepairAction),
    (enums.FailureReason, ProviderFailure),
    (job_enums.RestartVerdict, Outlook),
]
ENUMS = [
    one
    for module in (enums, cluster_enums, job_enums)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, OpenEnum) and one is not OpenEnum
]


@pytest.mark.parametrize(("published", "ours"), PAIRS, ids=lambda one: one.__module__ + "." + one.__name__)
def test_a_published_enumeration_has_the_values_of_the_domain(published: type[OpenEnum], ours: type[StrEnum]) -> None:
    assert published.known() == [member.value for member in ours]


@for_each("enum", ENUMS, ids=lambda one: one.__name__)
def test_an_enumeration_documents_how_to_treat_an_unknown_value(enum: type[OpenEnum]) -> None:
    assert "Treat an unknown value as" in " ".join((enum.__doc__ or "").split())
    assert enum("unknown value") is enum["UNKNOWN"]
    assert "unknown" not in enum.known()


def test_a_value_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match="5 is not a valid Severity"):
        enums.Severity(5)  # type: ignore[arg-type]  # the point of the test


def test_every_entry_type_has_a_model_and_every_model_an_entry_type() -> None:
    assert [model.event_type for model in MODELS] == [kind.value for kind in entries.EntryType]
    assert [model_of(kind.value) for kind in entries.EntryType] == list(MODELS)
    assert list(EVENT_NAMES) == [event_name(kind.value) for kind in entries.EntryType]


def test_every_model_has_the_version_that_producers_write() -> None:
    assert {model.version for model in MODELS} == {entries.SCHEMA_VERSION}


def kinds_of_notes() -> set[str]:
    """Return the values that the code passes as the kind of a note."""
    calls = [node for path in modules(PACKAGE) for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    notes = [call for call in calls if ast.unparse(call.func) in {"note", "entry_builder.note"}]
    given = [keyword.value for call in notes for keyword in call.keywords if keyword.arg == "kind"]
    constants = [node for value in given for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return {node.value for node in constants if isinstance(node.value, str)}


def test_every_kind_of_note_in_the_code_is_in_the_contract() -> None:
    found = kinds_of_notes()
    assert found
    assert found <= set(enums.NoteKind.known())


def test_an_unknown_value_does_not_break_a_reader() -> None:
    from faultbridge.model.events import NodeStatusChange, read

    detail = sample("node-status-change")
    detail["data"]["to"] = "submerged"
    detail["metadata"]["severity"] = "apocalyptic"
    event = read(json.dumps(detail))
    assert isinstance(event, NodeStatusChange)
    assert event.data.to is enums.NodeStatus.UNKNOWN
    assert event.metadata.severity is enums.Severity.UNKNOWN
