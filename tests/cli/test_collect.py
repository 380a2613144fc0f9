"""`faultbridge collect kubernetes`: what is missing is named at once, and `--once` reports its result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.cli.commands.records import collect
from tests.collector.cluster import Collected, collected


@pytest.fixture
def kubernetes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Collected]:
    """A fake cluster that the command reads, and valid settings with a queue that does not answer."""
    monkeypatch.setenv("FAULTBRIDGE_AGENT_CLUSTER", "train-a")
    monkeypatch.setenv("FAULTBRIDGE_AGENT_QUEUE_URL", "http://127.0.0.1:9/queue")
    monkeypatch.setenv("FAULTBRIDGE_AGENT_SPOOL", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    with collected(tmp_path) as made:
        yield made


def test_missing_settings_are_wrong_usage(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "kubernetes"]) == 2
    assert "missing agent setting: cluster" in capfd.readouterr().err


@pytest.mark.usefixtures("kubernetes")
def test_outside_of_a_pod_the_command_ends_and_names_the_option(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["collect", "kubernetes"]) != 0
    (line,) = capfd.readouterr().err.splitlines()
    assert "--eks-cluster" in line


def test_once_exits_with_1_and_the_reason_when_the_queue_does_not_answer(
    kubernetes: Collected, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collect, "ONCE_SECONDS", 0.2)
    monkeypatch.setattr(collect, "_watch", lambda _name: kubernetes.watch)
    assert run(["collect", "kubernetes", "--once"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert "ERROR records_not_sent: http://127.0.0.1:9" in line
    assert line.endswith("waiting=1")


def test_once_exits_with_1_when_the_time_is_not_sufficient(
    kubernetes: Collected, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collect, "ONCE_SECONDS", 0.0)
    monkeypatch.setattr(collect, "_watch", lambda _name: kubernetes.watch)
    assert run(["collect", "kubernetes", "--once"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith("records_not_sent: the time was not sufficient to send all records waiting=1")


def test_a_signal_ends_the_command_with_0(
    kubernetes: Collected, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(collect, "_watch", lambda _name: kubernetes.watch)
    monkeypatch.setattr("faultbridge.node.collector.collector.SHUTDOWN_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.5, signal.raise_signal, (signal.SIGTERM,))
    timer.start()
    try:
        assert run(["collect", "kubernetes"]) == 0
    finally:
        timer.cancel()
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert "collector_stopped" in capfd.readouterr().err
