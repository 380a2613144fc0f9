"""The models of consumers are generated from the classes of event data."""

from __future__ import annotations

from typing import Annotated

import pytest
from msgspec import UNSET, UnsetType, field

from faultbridge.model.event_data import Count, EventData, NodeList, Text, doc
from faultbridge.model.fault_enums import Severity
from infra import event_models
from infra.size import rooms


class Sample(EventData, frozen=True, kw_only=True):
    """A sample."""

    from_: Annotated[Severity | None, doc("Before.")] = field(name="from")
    left_out: Text | UnsetType = UNSET
    names: Annotated[tuple[Text, ...], doc("Names.", 3)] = ()
    counts: dict[str, Count] = field(default_factory=dict)
    nodes: NodeList


SOURCE = '''\
class Sample(Model):
    """A sample."""

    from_: Open[Severity] | None = Field(alias='from', description='Before.')
    left_out: Text | None = Field(default=None)
    names: Annotated[tuple[Text, ...], Field(max_length=3)] = Field(default=(), description='Names.')
    counts: dict[str, Count] = Field(default_factory=dict)
    nodes: NodeList
'''


def test_the_committed_models_are_those_that_the_classes_of_event_data_give(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert event_models.main(["--check"]) == 0
    assert capsys.readouterr().err == ""


def test_a_model_has_the_names_types_limits_and_defaults_of_the_fields_of_its_class() -> None:
    assert event_models.model(Sample) == SOURCE


def test_a_changed_model_is_found_and_written_again(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(event_models, "FOLDER", tmp_path)
    event_models.main([])
    assert event_models.stale() == []
    with (tmp_path / "case.py").open("a", encoding="utf-8") as changed:
        changed.write("# by hand\n")
    assert event_models.main(["--check"]) == 1
    assert capsys.readouterr().err == "model/events/case.py is out of date: run make schemas\n"


def test_generated_models_do_not_count_as_lines_of_the_package() -> None:
    counted = set(rooms()["model"])
    assert not counted & {event_models.FOLDER / f"{name}.py" for name in event_models.MODULES}
    assert event_models.FOLDER / "reading.py" in counted
