"""The contract's words are those of the domain, and a reader survives the ones of tomorrow."""

from __future__ import annotations

import ast
import json
from enum import StrEnum

import pytest

from faultbridge.domain import cases, clusters, edges, entries, faults, nodes
from faultbridge.events import cluster_words, words
from faultbridge.events.base import Word
from faultbridge.events.models import MODELS
from faultbridge.events.registry import NAMES, kebab, model_of
from faultbridge.ports import ProviderFailure
from tests.architecture.project import PACKAGE, modules, parse
from tests.events.samples import sample

PAIRS: list[tuple[type[Word], type[StrEnum]]] = [
    (words.Severity, faults.Severity),
    (words.Action, faults.Action),
    (words.ComponentType, faults.ComponentType),
    (words.NodeStatus, edges.NodeStatus),
    (words.CaseStatus, edges.CaseStatus),
    (words.Actor, edges.Actor),
    (words.Isolation, nodes.Isolation),
    (words.ClusterStatus, clusters.ClusterStatus),
    (words.WaitingFor, cases.WaitingFor),
    (words.Resolution, cases.Resolution),
    (words.RepairAction, cases.RepairAction),
    (words.FailureReason, ProviderFailure),
]
LISTS = [
    one
    for module in (words, cluster_words)
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Word) and one is not Word
]


@pytest.mark.parametrize(("published", "ours"), PAIRS, ids=lambda one: one.__module__ + "." + one.__name__)
def test_a_published_list_holds_exactly_the_words_of_the_domain(published: type[Word], ours: type[StrEnum]) -> None:
    assert published.known() == [word.value for word in ours]


@pytest.mark.parametrize("words_of", LISTS, ids=lambda one: one.__name__)
def test_each_list_says_how_to_take_a_word_that_is_not_in_it(words_of: type[Word]) -> None:
    assert "Take an unknown one for" in " ".join((words_of.__doc__ or "").split())
    assert words_of("word of tomorrow") is words_of["UNKNOWN"]
    assert "unknown" not in words_of.known()


def test_what_is_no_string_is_no_word() -> None:
    with pytest.raises(ValueError, match="5 is not a valid Severity"):
        words.Severity(5)  # type: ignore[arg-type]  # the point of the test


def test_every_entry_type_has_a_model_and_every_model_an_entry_type() -> None:
    assert [model.event_type for model in MODELS] == [kind.value for kind in entries.EntryType]
    assert [model_of(kind.value) for kind in entries.EntryType] == list(MODELS)
    assert list(NAMES) == [kebab(kind.value) for kind in entries.EntryType]


def test_every_model_is_of_the_version_that_producers_write() -> None:
    assert {model.version for model in MODELS} == {entries.SCHEMA_VERSION}


def kinds_of_notes() -> set[str]:
    """The words that our code gives as the kind of a note."""
    calls = [node for path in modules(PACKAGE) for node in ast.walk(parse(path)) if isinstance(node, ast.Call)]
    notes = [call for call in calls if ast.unparse(call.func) in {"note", "narrate.note"}]
    given = [keyword.value for call in notes for keyword in call.keywords if keyword.arg == "kind"]
    constants = [node for value in given for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return {node.value for node in constants if isinstance(node.value, str)}


def test_every_kind_of_note_that_our_code_writes_is_in_the_contract() -> None:
    found = kinds_of_notes()
    assert found
    assert found <= set(words.NoteKind.known())


def test_an_unknown_word_anywhere_in_an_event_does_not_break_its_reader() -> None:
    from faultbridge.events import NodeStatusChange, read

    detail = sample("node-status-change")
    detail["data"]["to"] = "submerged"
    detail["metadata"]["severity"] = "apocalyptic"
    event = read(json.dumps(detail))
    assert isinstance(event, NodeStatusChange)
    assert event.data.to is words.NodeStatus.UNKNOWN
    assert event.metadata.severity is words.Severity.UNKNOWN
