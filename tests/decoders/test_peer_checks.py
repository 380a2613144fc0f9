"""Tests between two instances: the script on both with tools that print real formats, and what the results decide."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from faultbridge.data.deep_tests import peer_tests
from faultbridge.decoders.verification.deep_checks import DeepResult
from faultbridge.decoders.verification.peer_checks import PeerChecks
from tests.decoders.test_deep_checks import DOMAINS, HEADING, ROW, TYPE

SERVER = "10.0.0.7"
NEEDED = ("sh", "timeout", "sed", "sort", "cat", "touch", "rm")
REFUSED = "[error] util/pingpong.c:408 : failed to connect: Connection refused"
LISTENING = f"""all=" $*" domain=$6
for last; do :; done
case "$*" in *" -P "*) ;; *) echo "$domain" > "$SHARED/$last"; exit 0;; esac
while [ "$1" != -P ]; do shift; done
[ -e "$SHARED/$2" ] || {{ echo "{REFUSED}"; exit 111; }}
[ "$(cat "$SHARED/$2")" = "$domain" ] || exit 22
"""
"""The begin of a fake fi_pingpong: a server leaves its domain in a file named after its port."""


class Pair:
    """Two instances whose tools are fakes on the path; they share a folder in place of a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for host, address in (("server", f"172.17.0.1 {SERVER}"), ("client", "10.0.0.8")):
            (folder / host).mkdir()
            for name in NEEDED:
                (folder / host / name).symlink_to(str(shutil.which(name)))
            self.install(host, "hostname", f'echo "{address} "')
            self.install(host, "sleep", "exit 0")
            self.install(host, "date", 'echo x >> "$SHARED/date"; set -- $(cat "$SHARED/date"); echo $(($# * 20))')
            domains = "\n".join(f"provider: efa\n    domain: {name}\n    type: FI_EP_RDM" for name in DOMAINS)
            self.install(host, "fi_info", f"cat <<'END'\n{domains}\n{domains}\nEND")
            self.install(host, "fi_pingpong", f"{LISTENING}cat <<'END'\n{HEADING}{ROW}END")
        (folder / "shared").mkdir()

    def install(self, host: str, name: str, script: str) -> None:
        tool = self.folder / host / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)

    def run(self, host: str) -> bytes:
        environment = {"PATH": str(self.folder / host), "SHARED": str(self.folder / "shared")}
        script = "\n".join(PeerChecks().script(SERVER))
        ran = subprocess.run(("/bin/sh", "-c", script), env=environment, capture_output=True, check=False)
        assert ran.stderr == b""
        return ran.stdout

    def result(self) -> DeepResult:
        self.run("server")
        return PeerChecks().read(self.run("client"), TYPE, len(DOMAINS))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


class TestScript:
    def test_each_device_exchanges_messages_with_the_same_device_of_the_peer(self, pair: Pair) -> None:
        assert pair.result() == DeepResult(True, "efa-peer-pair passed: 4 EFA devices; the slowest has 6102 MB/s")
        ports = {f"{47600 + number}" for number in range(1, 5)}
        assert ports <= {one.name for one in (pair.folder / "shared").iterdir()}

    def test_the_instance_with_the_address_of_the_server_answers_and_prints_no_result(self, pair: Pair) -> None:
        assert b"domain:" not in pair.run("server")
        assert b"domain:" in pair.run("client")

    def test_a_peer_that_does_not_answer_is_not_verified(self, pair: Pair) -> None:
        found = PeerChecks().read(pair.run("client"), TYPE, len(DOMAINS))
        assert found.passed is None
        assert "failed to connect: Connection refused" in found.line

    def test_a_peer_that_starts_later_is_awaited(self, pair: Pair) -> None:
        start = "\n".join(f'echo {name} > "$SHARED/{47601 + number}"' for number, name in enumerate(sorted(DOMAINS)))
        pair.install("client", "sleep", start)
        assert PeerChecks().read(pair.run("client"), TYPE, len(DOMAINS)).passed is True

    def test_one_device_that_fails_twice_fails_the_test(self, pair: Pair) -> None:
        broken = f'case "$all" in *{DOMAINS[2]}*) echo "fi_cq_read: -5"; exit 5;; esac'
        pair.install("client", "fi_pingpong", f"{LISTENING}{broken}\ncat <<'END'\n{HEADING}{ROW}END")
        found = pair.result()
        assert found.passed is False
        assert f"3 of 4 EFA devices work; {DOMAINS[2]}: exit status 5: fi_cq_read: -5" in found.line

    def test_a_device_that_fails_once_is_tried_again(self, pair: Pair) -> None:
        once = f'case "$all" in *{DOMAINS[2]}*) [ -e "$SHARED/once" ] || {{ touch "$SHARED/once"; exit 5; }};; esac'
        pair.install("client", "fi_pingpong", f"{LISTENING}{once}\ncat <<'END'\n{HEADING}{ROW}END")
        assert pair.result().passed is True

    @pytest.mark.parametrize("status", [124, 137])
    def test_a_device_whose_server_still_hangs_at_the_second_try_is_not_verified(self, pair: Pair, status: int) -> None:
        hangs = f'case "$all" in *{DOMAINS[2]}*) rm "$SHARED/$2"; exit {status};; esac'
        pair.install("client", "fi_pingpong", f"{LISTENING}{hangs}\ncat <<'END'\n{HEADING}{ROW}END")
        found = pair.result()
        assert found.passed is None
        assert f"3 of 4 EFA devices work; {DOMAINS[2]}: not complete in time" in found.line

    def test_the_other_devices_of_a_peer_that_starts_late_are_awaited(self, pair: Pair) -> None:
        listen = [f'echo {name} > "$SHARED/{47601 + number}"' for number, name in enumerate(sorted(DOMAINS))]
        last = f'*" 180") {listen[0]};; *" 220") {"; ".join(listen[1:])};;'
        count = 'set -- $(cat "$SHARED/date"); case " $(($# * 20))" in'
        pair.install("client", "sleep", f"{count} {last} esac")
        assert PeerChecks().read(pair.run("client"), TYPE, len(DOMAINS)).passed is True

    @pytest.mark.parametrize("tool", ["fi_info", "fi_pingpong"])
    def test_a_missing_tool_is_not_verified(self, pair: Pair, tool: str) -> None:
        (pair.folder / "client" / tool).unlink()
        assert pair.result().line.endswith("its tool did not start: libfabric's tools are not installed")


GOOD, BAD, NONE = DeepResult(True, "good"), DeepResult(False, "bad"), DeepResult(None, "no result")


@pytest.mark.parametrize(
    ("results", "passed", "failures"),
    [
        ((), None, 0),
        ((GOOD,), True, 0),
        ((BAD,), None, 1),
        ((NONE,), None, 0),
        ((BAD, NONE), None, 1),
        ((BAD, GOOD), True, 1),
        ((BAD, BAD), False, 2),
        ((BAD, NONE, BAD), False, 2),
        ((NONE, NONE, NONE, NONE), None, 0),
    ],
)
def test_two_failures_fail_and_one_pass_passes(
    results: tuple[DeepResult, ...], passed: bool | None, failures: int
) -> None:
    found = PeerChecks().decide([(f"i-{number}", one.passed, one.line) for number, one in enumerate(results)])
    assert (found.passed, found.failures, len(found.lines)) == (passed, failures, len(results))


def test_only_a_peer_with_which_a_good_instance_failed_is_named() -> None:
    checks = PeerChecks()
    assert checks.decide([("i-1", False, "bad"), ("i-2", True, "good")]).lines == (
        "with i-1: bad (this peer is suspected: another one passed)",
        "with i-2: good",
    )
    assert checks.decide([("i-1", False, "bad"), ("i-2", False, "bad")]).lines == ("with i-1: bad", "with i-2: bad")


@pytest.mark.parametrize("instance_type", [None, "g5.48xlarge"])
def test_an_instance_without_thresholds_is_not_verified(instance_type: str | None) -> None:
    assert PeerChecks().read(b"", instance_type, 4).passed is None


def test_the_time_limit_is_that_of_the_tests() -> None:
    assert PeerChecks().seconds == sum(test.seconds for test in peer_tests()) == 600
