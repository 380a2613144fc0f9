"""Tests between two instances: the script of EFA with tools that print real formats, and what the results decide.

The tools are fakes. No part has run on an EFA device.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.adapters.ec2.commands import OUTPUT_CHARACTERS
from faultbridge.decode.verification import DeepResult, PeerChecks, peer_tests
from tests.decoders.deep_checks import DOMAINS, HEADING, ROW
from tests.decoders.peer_pair import EFA_PASSED, LISTENING, NCCL_PASSED, Pair, both

pytestmark = pytest.mark.slow

MAX_EFA_DEVICES = 32  # of a p5.48xlarge


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


class TestScript:
    def test_each_device_exchanges_messages_with_the_same_device_of_the_peer(self, pair: Pair) -> None:
        assert pair.result() == DeepResult(True, f"{EFA_PASSED}; {NCCL_PASSED}")
        ports = {f"{47600 + number}" for number in range(1, 5)}
        assert ports <= {one.name for one in (pair.folder / "shared").iterdir()}

    def test_the_instance_with_the_address_of_the_server_answers_and_prints_no_result(self, pair: Pair) -> None:
        assert b"domain:" not in pair.run("server")
        assert b"domain:" in pair.run("client")

    def test_a_peer_that_does_not_answer_is_not_verified(self, pair: Pair) -> None:
        found = pair.client()
        assert found.passed is None
        assert "failed to connect: Connection refused" in found.line

    def test_a_peer_that_starts_later_is_awaited(self, pair: Pair) -> None:
        start = "\n".join(f'echo {name} > "$SHARED/{47601 + number}"' for number, name in enumerate(sorted(DOMAINS)))
        pair.install("client", "sleep", start)
        pair.serve_nccl()
        assert pair.client().passed is True

    def test_one_device_that_fails_twice_fails_the_test(self, pair: Pair) -> None:
        broken = f'case "$all" in *{DOMAINS[2]}*) echo "fi_cq_read: -5"; exit 5;; esac'
        pair.install("client", "fi_pingpong", f"{LISTENING}{broken}\ncat <<'END'\n{HEADING}{ROW}END")
        found = pair.result()
        assert found.passed is False
        assert f"3 of 4 EFA devices work; {DOMAINS[2]}: exit status 5: fi_cq_read: -5" in found.line

    def test_long_messages_of_devices_leave_room_for_the_results_of_the_others(self, pair: Pair) -> None:
        warnings = 'n=0; while [ $((n += 1)) -le 200 ]; do echo "libfabric: a warning about this device"; done'
        pair.install("client", "fi_pingpong", f"{LISTENING}{warnings}\ncat <<'END'\n{HEADING}{ROW}END")
        assert pair.result().passed is True
        _, of_one_device, *_ = pair.run("client").split(b"domain:")
        assert MAX_EFA_DEVICES * len(of_one_device) < OUTPUT_CHARACTERS

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
        pair.serve_nccl()
        assert pair.client().passed is True

    @pytest.mark.parametrize("tool", ["fi_info", "fi_pingpong"])
    def test_a_missing_tool_is_not_verified(self, pair: Pair, tool: str) -> None:
        (pair.folder / "client" / tool).unlink()
        assert pair.result() == DeepResult(
            None, "efa-peer-pair not verified: its tool did not start: libfabric's tools are not installed"
        )


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
    found = PeerChecks().read(both(), 4, instance_type, 4)
    assert found.passed is None
    assert found.line.startswith("efa-peer-pair and nccl-peer-pair not verified: ")


def test_the_time_limit_is_that_of_the_tests() -> None:
    assert PeerChecks().seconds == sum(test.seconds for test in peer_tests()) == 960
