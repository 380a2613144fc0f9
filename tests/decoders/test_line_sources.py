"""Each source of `log_sources` is one file: its rules match their own lines, and no similar line."""

from __future__ import annotations

from importlib import import_module

import pytest

from faultbridge.decode import line_source, log_sources, registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.line_source import LineRule, LineSource
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Fault

SOURCES: dict[str, LineSource] = {}
for name in registry.names():
    try:
        SOURCES[name] = import_module(f"{log_sources.__name__}.{name.replace('-', '_')}").SOURCE
    except ModuleNotFoundError:
        continue
RULES = [(name, rule) for name, source in SOURCES.items() for rule in source.rules]


def codes(source: str, text: str) -> list[str]:
    return [one.code for one in registry.decode(source, text.encode()) if isinstance(one, Fault)]


def test_the_log_of_the_device_plugin_is_a_source_of_lines() -> None:
    assert "device-plugin-log" in SOURCES


@pytest.mark.parametrize(("source", "rule"), RULES, ids=[f"{name}-{rule.code}" for name, rule in RULES])
def test_a_rule_reads_its_line_and_not_a_similar_one(source: str, rule: LineRule) -> None:
    (code,) = codes(source, rule.line)
    assert code in load_catalog().rows or code.startswith("xid.")
    try:
        assert codes(source, f"{rule.line}\n{rule.near}") == [code]
    except Rejected as error:
        pytest.fail(str(error))


@pytest.mark.parametrize("source", SOURCES)
def test_the_line_of_a_rule_is_recognized(source: str) -> None:
    for rule in SOURCES[source].rules:
        assert registry.recognize(rule.line.encode()) == source


OWN = LineSource(
    "the log of a tool",
    r"^my-tool: ",
    (
        LineRule(
            r"GPU (?P<pci>[0-9a-f:.]{7,16}) \((?P<index>\d)\) of (?P<node>\S{1,64}) lost: (?P<why>\w{1,16})",
            "xid.{why}",
            "my-tool: GPU c1:00.0 (3) of n-7 lost: abc",
            severity=Severity.FATAL,
            action=Action.REPLACE_NODE,
        ),
        LineRule(r"GPU (?P<pci>[0-9a-f:.]{7,16}) slow", "agent.slow", "my-tool: GPU c1:00.0 slow", weaker=True),
        LineRule(r"fan (?P<name>\w{1,16}) off", "agent.fan", "my-tool: fan A off", component=ComponentType.NODE),
    ),
)


def test_the_groups_of_a_rule_name_the_component_the_node_and_the_attributes() -> None:
    text = "my-tool: starts\n2026-02-03 04:05:06 my-tool: GPU c1:00.0 (3) of n-7 lost: abc\nmy-tool: fan A off"
    lost, fan = OWN.decoder("my-tool").decode(text.encode(), line_source.Hints()).observations  # type: ignore[union-attr]
    assert isinstance(lost, Fault)
    assert isinstance(fan, Fault)
    assert (lost.code, lost.node, lost.component.index, lost.component.pci) == ("xid.abc", "n-7", 3, "0000:c1:00")
    assert (lost.attributes, lost.severity, lost.action) == ({"why": "abc"}, Severity.FATAL, Action.REPLACE_NODE)
    assert lost.observed_at is not None
    assert (fan.code, fan.component.name, fan.node) == ("agent.fan", "A", None)


def test_a_weaker_rule_gives_no_fault_beside_a_stronger_one_of_the_same_component() -> None:
    decoder = OWN.decoder("my-tool")
    slow = "my-tool: GPU c1:00.0 slow"
    assert len(decoder.decode(slow.encode(), line_source.Hints()).observations) == 1  # type: ignore[union-attr]
    with pytest.raises(Rejected, match="no line of the source my-tool"):
        decoder.decode(b"other text", line_source.Hints())
