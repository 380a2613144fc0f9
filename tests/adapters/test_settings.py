"""Settings from environment variables."""

from __future__ import annotations

import inspect

import pytest

from faultbridge.model.errors import Misconfigured
from faultbridge.model.settings import Settings, Variable

NAMES = sorted(name for name, member in inspect.getmembers(Settings) if isinstance(member, Variable))
DEFAULTS = {
    "stack": "faultbridge",
    "event_source": "faultbridge",
    "ingest_log_group": "/aws/lambda/faultbridge-ingest",
    "senders_log_group": "/faultbridge/faultbridge/senders",
    "output_prefix": "verify",
    "probe_seconds": 30,
    "verify_level": 3,
    "verify_seconds": 5400,
    "ignore_processes": frozenset(
        {"nv-hostengine", "dcgm-exporter", "nvidia-cuda-mps-server", "nvidia-cuda-mps-control"}
    ),
    "clock_offset_seconds": 0,
    "archive_stream": "",
    "entry_days": 0,
    "chat_topic": "",
    "hyperpod_mirror": frozenset(),
    "pagerduty": "",
    "pagerduty_topic": "",
    "max_pages_per_hour": 10,
    "reminder_hours": 4,
    "repair_tag": "faultbridge",
    "runbook_url": "",
    "api_url": "",
    "console_url": "",
    "slurm_tokens": "",
    "events_queue": "-",
    "events_queue_url": "",
    "events_dead_letter_queue_url": "",
    "own_senders": frozenset(),
    "sender_proof": True,
    "webhook_senders": "",
    "chat_webhooks": "",
    "on_call": "",
    "job_callbacks": "",
    "job_topic": "",
}


DESCRIPTIONS = {name: one.description for name, one in vars(Settings).items() if isinstance(one, Variable)}


def test_only_faultbridge_variables_are_kept() -> None:
    settings = Settings.from_environment({"FAULTBRIDGE_TABLE": "t", "PATH": "/bin"})
    assert settings.variables == {"FAULTBRIDGE_TABLE": "t"}
    assert settings.table == "t"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTBRIDGE_BUS", "b")
    assert Settings.from_environment().bus == "b"


def test_every_variable_has_a_property_and_a_meaning() -> None:
    assert sorted(DESCRIPTIONS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_variable_has_a_default_or_is_named_with_its_meaning(name: str) -> None:
    try:
        value = getattr(Settings(), name)
    except Misconfigured as error:
        value = str(error)
    assert value in (DEFAULTS.get(name), f"FAULTBRIDGE_{name.upper()} is not set ({DESCRIPTIONS[name]})")


def test_an_empty_variable_counts_as_missing() -> None:
    with pytest.raises(Misconfigured, match="FAULTBRIDGE_TABLE"):
        _ = Settings({"FAULTBRIDGE_TABLE": ""}).table


def test_defaults_contain_the_stack_name() -> None:
    settings = Settings({"FAULTBRIDGE_STACK": "blue"})
    assert settings.ingest_log_group == "/aws/lambda/blue-ingest"
    assert settings.senders_log_group == "/faultbridge/blue/senders"
    assert (settings.probe_seconds, settings.clock_offset_seconds, settings.verify_level) == (30, 0, 3)


def test_an_invalid_number_is_named() -> None:
    with pytest.raises(Misconfigured, match="FAULTBRIDGE_PROBE_SECONDS is not an integer: 'soon'"):
        _ = Settings({"FAULTBRIDGE_PROBE_SECONDS": "soon"}).probe_seconds
