"""The journal of a unit is followed through restarts of `journalctl`, each message once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultbridge.node.agent.kernel_log import RESTART_SECONDS, JournalLog
from tests.agent.fakes import ManualClock, script

UNIT = "nvidia-fabricmanager.service"


class FakeJournal:
    """A `journalctl` that writes the messages after a cursor and exits; it records its arguments."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.messages: list[str] = []
        body = (
            'echo "$@" >> calls\n'
            'cursor=""; while [ $# -gt 0 ]; do [ "$1" = --after-cursor ] && cursor="$2"; shift; done\n'
            'if [ -z "$cursor" ]; then cat lines; else sed "1,/\\"$cursor\\"/d" lines; fi'
        )
        script(folder, "journalctl", f"cd {folder}\n{body}")
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def append(self, *texts: str) -> None:
        self.messages += texts
        lines = [json.dumps({"__CURSOR": f"c{number}", "MESSAGE": one}) for number, one in enumerate(self.messages)]
        (self.folder / "lines").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text(encoding="utf-8").splitlines()


def read_until_exit(log: JournalLog, clock: ManualClock) -> list[str]:
    """Start `journalctl`, and return the messages that it writes until it exits."""
    clock.advance(RESTART_SECONDS)
    found = [line.text for line in log.read(10_000)]
    while log._process is not None:
        found += [line.text for line in log.read(10_000)]
    return found


def test_a_journalctl_that_was_restarted_continues_after_the_last_message(tmp_path, monkeypatch):
    journal, clock = FakeJournal(tmp_path, monkeypatch), ManualClock()
    journal.append("one", "two")
    log = JournalLog(UNIT, "fabric-manager-log", {}, clock)
    assert read_until_exit(log, clock) == ["one", "two"]
    journal.append("three")
    assert read_until_exit(log, clock) == ["three"]
    log.close()
    assert "--after-cursor c1" in journal.calls[1]


def test_a_message_without_text_moves_the_cursor_too(tmp_path, monkeypatch):
    journal, clock = FakeJournal(tmp_path, monkeypatch), ManualClock()
    journal.append("one", " ")
    log = JournalLog(UNIT, "fabric-manager-log", {}, clock)
    assert read_until_exit(log, clock) == ["one"]
    assert read_until_exit(log, clock) == []
    log.close()
    assert "--after-cursor c1" in journal.calls[1]


def test_a_message_after_a_long_one_is_read_when_journalctl_restarts_within_the_long_one(tmp_path, monkeypatch):
    journal, clock = FakeJournal(tmp_path, monkeypatch), ManualClock()
    journal.append("zero", "one")
    with (tmp_path / "lines").open("a") as lines:
        lines.write("x" * 2 * JournalLog.max_line_bytes)
    log = JournalLog(UNIT, "fabric-manager-log", {}, clock)
    assert read_until_exit(log, clock) == ["zero", "one"]
    journal.append("two")
    assert read_until_exit(log, clock) == ["two"]
    assert log.lost_lines == 1


def test_a_journalctl_that_exited_before_its_first_message_reads_from_the_first_start(tmp_path, monkeypatch):
    journal, clock = FakeJournal(tmp_path, monkeypatch), ManualClock()
    journal.append()
    log = JournalLog(UNIT, "fabric-manager-log", {}, clock)
    read_until_exit(log, clock)
    started = clock.now()
    read_until_exit(log, clock)
    log.close()
    assert "--lines 0" in journal.calls[0]
    assert f"--since @{started.timestamp():.3f}" in journal.calls[1]
