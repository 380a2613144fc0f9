"""Verification with a peer: which peer is used, what one or two failures decide, and what a missing peer means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from faultbridge.adapters.ec2.commands import DELIVERY_SECONDS
from faultbridge.adapters.ec2.pair_verifier import LEASE, MAX_PEERS, PEER_TAG, Ec2Peers, PeerLeases, SsmPairVerifier
from faultbridge.decode.verification import PeerChecks
from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import Alias, AliasRow
from faultbridge.model.storage import items
from faultbridge.model.storage.writes import Put
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.registry.verification import VerificationPeers
from faultbridge.repair.spares.pool import SparePool
from tests.adapters.stubs import client_error, served
from tests.decoders.deep_checks import DOMAINS, TYPE, loopback
from tests.decoders.peer_pair import EFA_PASSED, all_reduce, both
from tests.scenarios.provider.builders import ready, world_with_ready
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import FakeVerifier

NEW = "i-00000000000000001"
KEPT = "i-0000000000000beef"
STACK = "a-stack"
GOOD = loopback()
BAD = loopback(DOMAINS[:3]) + f"domain: {DOMAINS[3]}\nfi_endpoint: -12\nexit: 1\n"
SILENT = loopback(row="[error] util/pingpong.c:408 : failed to connect: Connection refused\n", status=111)


@dataclass
class FakeSsm:
    """SSM Run Command (fake): what the tests with each peer print, and the error of commands to an instance."""

    outputs: dict[str, str] = field(default_factory=dict)
    all_reduces: dict[str, tuple[str, int]] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)
    errors: dict[str, tuple[str, int]] = field(default_factory=dict)
    listed: bool = True
    sent: list[dict[str, Any]] = field(default_factory=list)

    def send_command(self, **call: Any) -> dict[str, Any]:
        for code, status in (self.errors[one] for one in call["InstanceIds"] if one in self.errors):
            raise client_error(code, status=status, operation="SendCommand")
        command = {"CommandId": f"{len(self.sent):036d}", "Comment": call["Comment"]}
        self.sent.append({**command, "InstanceIds": call["InstanceIds"], "script": call["Parameters"]["commands"]})
        return {"Command": command}

    def list_commands(self, *, InstanceId: str) -> dict[str, Any]:  # noqa: N803 - AWS's
        found = [one for one in reversed(self.sent) if InstanceId in one["InstanceIds"] and self.listed]
        return {"Commands": [{"CommandId": one["CommandId"], "Comment": one["Comment"]} for one in found]}

    def get_command_invocation(self, *, CommandId: str, InstanceId: str) -> dict[str, Any]:  # noqa: N803 - AWS's
        _, peer = self.sent[int(CommandId)]["InstanceIds"]
        status = self.status.get(InstanceId, "Success" if peer in self.outputs else "InProgress")
        text, status_of_nccl = self.all_reduces.get(peer, (all_reduce(), 0))
        marked = both(self.outputs.get(peer, ""), text, (0, status_of_nccl)).decode()
        details = "DeliveryTimedOut" if status == "TimedOut" else status
        return {"Status": status, "StatusDetails": details, "StandardOutputContent": marked}

    @property
    def peers(self) -> list[str]:
        return [one["InstanceIds"][1] for one in self.sent]


@dataclass
class FakeEc2:
    """EC2 (fake): the instances of one type, and the tags of some."""

    types: dict[str, str] = field(default_factory=dict)
    interfaces: dict[str, int] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    unlisted: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)
    zones: dict[str, str] = field(default_factory=dict)
    vpcs: dict[str, str] = field(default_factory=dict)

    def describe_instances(self, *, InstanceIds: list[str] | None = None, Filters: Any = ()) -> dict[str, Any]:  # noqa: N803 - AWS's
        wanted = {one["Name"]: one["Values"] for one in Filters}
        assert all(value for values in wanted.values() for value in values)
        if InstanceIds is None:
            (value,), (stack,) = wanted[f"tag:{PEER_TAG}"], wanted.get("tag:faultbridge:stack", (None,))
            own = [one for one in self.tags if stack in (None, "another" if one in self.foreign else STACK)]
            tagged = [one for one in own if self.tags[one] == value]
            InstanceIds = [one for one in tagged if self.type_of(one) in wanted["instance-type"]]  # noqa: N806 - AWS's
        listed = [one for one in InstanceIds if one not in self.unlisted]
        return {"Reservations": [{"Instances": [self.described(one) for one in listed]}]}

    def type_of(self, instance: str) -> str:
        return self.types.get(instance, TYPE)

    def described(self, instance: str) -> dict[str, Any]:
        return {
            "InstanceId": instance,
            "InstanceType": self.type_of(instance),
            "PrivateIpAddress": f"10.0.0.{int(instance[-2:], 16)}",
            "State": {"Name": self.states.get(instance, "running")},
            "Placement": {"AvailabilityZone": self.zones.get(instance, "us-east-1a")},
            "VpcId": self.vpcs.get(instance, "vpc-1"),
            "NetworkInterfaces": [{"InterfaceType": "efa"}] * self.interfaces.get(instance, len(DOMAINS)),
        }


@dataclass
class Installation:
    """A verifier with peers, and what it reaches."""

    world: World
    ssm: FakeSsm
    ec2: FakeEc2
    deep: FakeVerifier
    leases: PeerLeases
    verifier: SsmPairVerifier
    operation: str = ""

    def begin(self, instance: str, attempt: int = 1) -> str:
        return self.verifier.start(instance, f"c-1/{attempt}/verify", 4)

    def status(self, level: int | None = 4, instance: str = NEW, operation: str | None = None) -> Verification:
        return self.verifier.status(instance, operation or self.operation, level)

    def decided(self, level: int = 4) -> Verification:
        """Ask until there is a result."""
        for _ in range(MAX_PEERS + 2):
            found = self.status(level)
            if found.verdict is not Verdict.PENDING:
                return found
        pytest.fail("no result")


@contextmanager
def installation(spares: int = 2) -> Iterator[Installation]:
    world = world_with_ready(spares)
    ssm, ec2, deep = FakeSsm(), FakeEc2(), FakeVerifier(duration=timedelta(0))
    # The client that retries by itself sends no command: SSM would run it twice.
    reads = SimpleNamespace(list_commands=ssm.list_commands, get_command_invocation=ssm.get_command_invocation)
    with served("ssm", reads) as clients, served("ssm_no_retry", ssm), served("ec2", ec2) as typed:
        clients.ec2 = typed.ec2
        leases = PeerLeases(world.table, world.clock)
        peers = Ec2Peers(clients, VerificationPeers(world.table, world.clock), STACK)
        verifier = SsmPairVerifier(clients, deep=deep, level=3, tests=PeerChecks(), peers=peers, leases=leases)
        made = Installation(world, ssm, ec2, deep, leases, verifier)
        made.operation = made.begin(NEW)
        yield made


@pytest.fixture
def made() -> Iterator[Installation]:
    with installation() as one:
        yield one


def test_an_instance_is_tested_with_a_verified_spare_through_one_command_to_both(made: Installation) -> None:
    first, _ = ready(made.world)
    assert made.status().verdict is Verdict.PENDING
    (command,) = made.ssm.sent
    assert command["InstanceIds"] == [NEW, first]
    assert "server=10.0.0.2" in "\n".join(command["script"])
    made.ssm.outputs[first] = GOOD
    found = made.status()
    line = f"with {first}: {EFA_PASSED}; nccl-peer-pair passed: 40.0 GB/s bus bandwidth; at least 25 expected"
    assert (found.verdict, found.findings, found.level) == (Verdict.PASSED, (line,), 4)


@pytest.mark.parametrize("level", [None, 1, 3])
def test_below_level_4_no_peer_is_used(made: Installation, level: int | None) -> None:
    assert made.status(level).verdict is Verdict.PASSED
    assert made.ssm.sent == []


@pytest.mark.parametrize("verdict", [Verdict.PENDING, Verdict.FAILED, Verdict.UNKNOWN])
def test_an_instance_that_did_not_pass_the_deep_tests_uses_no_peer(made: Installation, verdict: Verdict) -> None:
    made.deep.results[NEW] = Verification(verdict, ("pcie",))
    found = made.status(5)
    assert (found.verdict, found.findings) == (verdict, ("pcie",))
    assert made.ssm.sent == []


def test_one_failure_blames_neither_and_a_second_peer_passes_the_instance(made: Installation) -> None:
    first, second = ready(made.world)
    made.ssm.outputs = {first: BAD, second: GOOD}
    found = made.decided()
    assert made.ssm.peers == [first, second]
    assert found.verdict is Verdict.PASSED
    assert found.findings[0].startswith(f"with {first}: efa-peer-pair failed: 3 of 4 EFA devices work")
    assert found.findings[0].endswith("(this peer is suspected: another one passed)")
    assert found.findings[1].startswith(f"with {second}: efa-peer-pair passed")


def test_a_failure_with_two_peers_fails_the_instance(made: Installation) -> None:
    made.ssm.outputs = dict.fromkeys(ready(made.world), BAD)
    found = made.decided()
    assert (found.verdict, len(found.findings)) == (Verdict.FAILED, 2)


@pytest.mark.parametrize("level", [4, 5])
def test_a_failure_with_the_only_peer_is_no_result(level: int) -> None:
    with installation(spares=1) as made:
        made.ssm.outputs = dict.fromkeys(ready(made.world), BAD)
        found = made.decided(level)
        assert found.verdict is Verdict.UNKNOWN
        assert "one failure blames neither instance; no other peer: no verified spare" in found.findings[1]


@pytest.mark.parametrize(("level", "verdict"), [(4, Verdict.PASSED), (5, Verdict.UNKNOWN)])
def test_without_a_peer_level_4_ends_with_the_deep_tests_and_level_5_has_no_result(
    level: int, verdict: Verdict
) -> None:
    with installation(spares=0) as made:
        found = made.decided(level)
        assert found.verdict is verdict
        assert found.findings == (
            "not verified with a peer: no peer: no verified spare and no instance with the tags faultbridge:peer and "
            "faultbridge:stack is free, p4d.24xlarge with 4 EFA interfaces",
        )


@pytest.mark.parametrize(("level", "verdict"), [(4, Verdict.PASSED), (5, Verdict.UNKNOWN)])
def test_a_peer_that_does_not_answer_is_no_failure(made: Installation, level: int, verdict: Verdict) -> None:
    made.ssm.outputs = dict.fromkeys(ready(made.world), SILENT)
    found = made.decided(level)
    assert (found.verdict, len(found.findings)) == (verdict, 3)
    assert "not verified" in found.findings[0]


def test_a_peer_on_which_the_command_did_not_run_is_no_failure(made: Installation) -> None:
    first, second = ready(made.world)
    made.ssm.outputs = {first: BAD, second: GOOD}
    made.ssm.status[first] = "TimedOut"
    found = made.decided()
    assert found.verdict is Verdict.PASSED
    assert found.findings[0].endswith("not verified: the command ended as DeliveryTimedOut on the peer")


def test_while_the_command_still_runs_on_the_peer_there_is_no_result_and_the_peer_stays_taken(
    made: Installation,
) -> None:
    first, _ = ready(made.world)
    made.status()
    made.ssm.outputs, made.ssm.status[first] = {first: GOOD}, "InProgress"
    assert made.status().verdict is Verdict.PENDING
    assert made.leases.holder(first) == made.operation
    made.ssm.status[first] = "Success"
    assert made.status().verdict is Verdict.PASSED


def test_a_command_that_did_not_run_on_the_instance_is_no_failure(made: Installation) -> None:
    made.ssm.outputs = dict.fromkeys(ready(made.world), BAD)
    made.ssm.status[NEW] = "TimedOut"
    found = made.decided(5)
    assert found.verdict is Verdict.UNKNOWN
    assert found.findings[0].endswith("not verified: the command ended as DeliveryTimedOut")


@pytest.mark.parametrize("code", ["InvalidInstanceId", "AccessDeniedException", "UnsupportedPlatformType"])
def test_a_peer_to_which_ssm_refuses_the_command_is_skipped_and_is_free_again(
    made: Installation, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = ready(made.world)
    made.ssm.errors, made.ssm.outputs = {first: (code, 400)}, {second: GOOD}
    assert made.decided().verdict is Verdict.PASSED
    assert made.ssm.peers == [second]
    assert made.leases.holder(first) is None
    (refused,) = (record.__dict__ for record in caplog.records if record.message == "peer_refused")
    assert (refused["peer"], refused["reason"]) == (first, f"{code}: words")


@pytest.mark.parametrize(("level", "verdict"), [(4, Verdict.PASSED), (5, Verdict.UNKNOWN)])
def test_an_instance_whose_every_peer_is_refused_has_not_failed(
    made: Installation, level: int, verdict: Verdict
) -> None:
    first, second = ready(made.world)
    made.ssm.errors = dict.fromkeys((first, second), ("AccessDeniedException", 400))
    found = made.decided(level)
    assert found.verdict is verdict
    assert found.findings == (
        f"not verified with a peer: no peer: SSM refused the command with {first} (AccessDeniedException), "
        f"{second} (AccessDeniedException), p4d.24xlarge with 4 EFA interfaces",
    )


def test_a_throttled_command_is_sent_again_at_the_next_call(made: Installation) -> None:
    first, second = ready(made.world)
    made.ssm.errors = dict.fromkeys((first, second), ("ThrottlingException", 400))
    with pytest.raises(Transient):
        made.status()
    made.ssm.errors = {}
    made.status()
    assert made.ssm.peers == [first]


def test_the_peer_of_a_command_that_may_have_been_sent_is_not_used_twice(made: Installation) -> None:
    first, second = ready(made.world)
    made.ssm.errors = dict.fromkeys((first, second), ("InternalServerError", 500))
    with pytest.raises(Transient):
        made.status()
    made.ssm.errors = {}
    assert made.status().verdict is Verdict.PENDING
    assert made.ssm.sent == []
    assert made.leases.holder(first) == made.operation


@pytest.mark.parametrize(
    ("output", "said"), [(SILENT, "not verified with a peer"), (BAD, "one failure blames neither instance")]
)
def test_at_most_four_peers_are_used_and_the_reason_states_it(output: str, said: str) -> None:
    with installation(spares=MAX_PEERS + 1) as made:
        first, *others = ready(made.world)
        made.ssm.outputs = {first: output, **dict.fromkeys(others, SILENT)}
        found = made.decided(5)
        assert found.verdict is Verdict.UNKNOWN
        assert len(made.ssm.peers) == MAX_PEERS
        sign = ": " if output == SILENT else "; "
        assert found.findings[-1] == f"{said}{sign}4 peers were used, the most for one verification"


class TestAllReduce:
    """The all-reduce over both instances, where EFA passes."""

    SLOW, SOCKETS, ABSENT = (all_reduce(12.0), 0), (all_reduce(efa=0), 0), ("PyTorch is not installed", 127)

    def test_a_slow_all_reduce_with_one_peer_is_decided_by_another_one(self, made: Installation) -> None:
        first, second = ready(made.world)
        made.ssm.outputs, made.ssm.all_reduces = dict.fromkeys((first, second), GOOD), {first: self.SLOW}
        found = made.decided(5)
        assert found.verdict is Verdict.PASSED
        slow = "nccl-peer-pair failed: 12.0 GB/s bus bandwidth; at least 25 expected"
        assert found.findings[0] == f"with {first}: {slow} (this peer is suspected: another one passed)"

    @pytest.mark.parametrize("level", [4, 5])
    def test_a_slow_all_reduce_with_two_peers_fails_the_instance(self, made: Installation, level: int) -> None:
        peers = ready(made.world)
        made.ssm.outputs, made.ssm.all_reduces = dict.fromkeys(peers, GOOD), dict.fromkeys(peers, self.SLOW)
        assert made.decided(level).verdict is Verdict.FAILED

    def test_without_pytorch_level_4_passes_by_efa_with_the_first_peer_and_states_it(self, made: Installation) -> None:
        first, _ = ready(made.world)
        made.ssm.outputs, made.ssm.all_reduces = {first: GOOD}, {first: self.ABSENT}
        found = made.decided(4)
        missing = "nccl-peer-pair not verified: its tool did not start: PyTorch is not installed"
        assert (found.verdict, found.findings) == (Verdict.PASSED, (f"with {first}: {EFA_PASSED}; {missing}",))
        assert made.ssm.peers == [first]

    def test_without_pytorch_level_5_has_no_result(self, made: Installation) -> None:
        peers = ready(made.world)
        made.ssm.outputs, made.ssm.all_reduces = dict.fromkeys(peers, GOOD), dict.fromkeys(peers, self.ABSENT)
        found = made.decided(5)
        assert found.verdict is Verdict.UNKNOWN
        assert "PyTorch is not installed" in found.findings[0]

    @pytest.mark.parametrize(("level", "verdict"), [(4, Verdict.PASSED), (5, Verdict.UNKNOWN)])
    def test_an_all_reduce_over_sockets_is_tried_with_another_peer_and_verifies_nothing(
        self, made: Installation, level: int, verdict: Verdict
    ) -> None:
        peers = ready(made.world)
        made.ssm.outputs, made.ssm.all_reduces = dict.fromkeys(peers, GOOD), dict.fromkeys(peers, self.SOCKETS)
        found = made.decided(level)
        assert made.ssm.peers == peers
        assert found.verdict is verdict
        assert "0 of 16 GPUs used EFA" in found.findings[0]
        assert found.findings[-1].startswith("not verified with a peer: no other peer: ")


class TestLease:
    def test_a_lease_outlasts_the_delivery_and_the_time_limit_of_its_command(self) -> None:
        assert timedelta(seconds=DELIVERY_SECONDS + PeerChecks().seconds + 60) < LEASE

    def test_two_verifications_never_use_one_peer_at_the_same_time(self, made: Installation) -> None:
        operations = [made.operation, made.begin(NEW, 2), made.begin(NEW, 3)]
        assert {made.status(operation=one).verdict for one in operations} == {Verdict.PENDING}
        assert made.ssm.peers == ready(made.world)

    def test_a_peer_is_free_again_after_its_test(self, made: Installation) -> None:
        made.ssm.outputs = dict.fromkeys(ready(made.world), GOOD)
        made.decided()
        assert [made.leases.holder(one) for one in ready(made.world)] == [None, None]

    def test_a_command_that_ssm_does_not_list_yet_is_not_sent_again(self, made: Installation) -> None:
        made.status()
        made.ssm.listed = False
        assert made.status().verdict is Verdict.PENDING
        assert len(made.ssm.sent) == 1

    def test_a_peer_whose_lease_is_over_is_used_after_a_crash(self, made: Installation) -> None:
        first, second = ready(made.world)
        assert made.leases.take(first, made.operation)
        assert made.status().verdict is Verdict.PENDING
        assert made.ssm.sent == []
        made.world.clock.advance(LEASE + timedelta(seconds=1))
        made.status()
        assert made.ssm.peers == [first]
        assert made.leases.holder(second) is None

    def test_the_verification_of_an_instance_that_is_a_peer_waits(self, made: Installation) -> None:
        made.status()
        (peer,) = made.ssm.peers
        with pytest.raises(Transient, match="is still the peer of another verification"):
            made.begin(peer)
        made.ssm.outputs[peer] = GOOD
        made.status()
        assert made.begin(peer)

    def test_a_lease_is_taken_once(self, made: Installation) -> None:
        assert made.leases.take(NEW, "a")
        assert not made.leases.take(NEW, "b")
        made.world.clock.advance(LEASE + timedelta(seconds=1))
        assert made.leases.take(NEW, "b")

    def test_only_the_holder_releases_a_lease(self, made: Installation) -> None:
        assert made.leases.take(NEW, "a")
        made.leases.release(NEW, "b")
        assert made.leases.holder(NEW) == "a"


class TestPeers:
    def test_a_spare_that_a_case_took_is_no_peer(self, made: Installation) -> None:
        first, second = ready(made.world)
        pool = SparePool(made.world.table, made.world.clock)
        place = next(one for one in pool.spares(CLUSTER) if one.instance_id == first)
        pool.change(place, status=SpareStatus.TAKEN, case="c-1")
        made.status()
        assert made.ssm.peers == [second]

    def test_an_instance_that_ec2_does_not_list_has_no_peer(self, made: Installation) -> None:
        made.ec2.unlisted.add(NEW)
        made.ec2.tags[KEPT] = CLUSTER
        assert made.status(5).verdict is Verdict.UNKNOWN
        assert made.ssm.sent == []

    def test_a_spare_of_another_type_or_with_other_interfaces_is_no_peer(self, made: Installation) -> None:
        first, second = ready(made.world)
        made.ec2.types[first], made.ec2.interfaces[second] = "p5.48xlarge", 2
        assert made.status(5).verdict is Verdict.UNKNOWN
        assert made.ssm.sent == []

    def test_a_peer_of_another_zone_or_vpc_is_not_used_because_efa_does_not_reach_it(self, made: Installation) -> None:
        first, second = ready(made.world)
        made.ec2.zones[first], made.ec2.vpcs[second] = "us-east-1b", "vpc-2"
        assert made.status(5).verdict is Verdict.UNKNOWN
        assert made.ssm.sent == []

    def test_an_instance_to_which_ssm_may_send_no_command_is_no_peer(self) -> None:
        with installation(spares=0) as made:
            made.ec2.tags[KEPT], made.ec2.foreign = CLUSTER, {KEPT}
            assert made.status(5).verdict is Verdict.UNKNOWN
            assert made.ssm.sent == []
            made.ec2.foreign = set()
            made.status(5)
            assert made.ssm.peers == [KEPT]

    def test_a_spare_is_tested_with_the_other_spare(self, made: Installation) -> None:
        first, second = ready(made.world)
        made.status(instance=second, operation=made.begin(second))
        assert made.ssm.peers == [first]

    def test_a_node_in_service_is_no_peer_whatever_its_tag(self) -> None:
        with installation(spares=0) as made:
            other = in_service(made.world)
            made.ec2.tags[other] = CLUSTER
            assert made.status(5).verdict is Verdict.UNKNOWN
            assert made.ssm.sent == []

    def test_a_good_node_that_an_operator_keeps_out_of_service_is_a_peer(self) -> None:
        with installation(spares=0) as made:
            other = in_service(made.world)
            made.ec2.tags[other] = CLUSTER
            made.world.node_orders.quarantine(made.world.key(2), OperatorOrder("an operator", "peer"))
            made.world.until(lambda: made.world.status(2) == "quarantined", minutes=10)
            made.status()
            assert made.ssm.peers == [other]
            made.leases.release(other, made.operation)
            assert made.status(5, instance=other, operation=made.begin(other)).verdict is Verdict.UNKNOWN
            made.world.fault(2)
            assert made.status(5, operation=made.begin(NEW, 2)).verdict is Verdict.UNKNOWN
            assert made.ssm.peers == [other]

    def test_a_node_that_an_operator_returns_is_no_peer(self) -> None:
        with installation(spares=0) as made:
            made.ec2.tags[in_service(made.world)] = CLUSTER
            made.world.node_orders.quarantine(made.world.key(2), OperatorOrder("an operator", "peer"))
            made.world.until(lambda: made.world.status(2) == "quarantined", minutes=10)
            made.world.node_orders.return_node(made.world.key(2), OperatorOrder("an operator", "done"))
            assert made.status(5).verdict is Verdict.UNKNOWN

    def test_an_instance_that_no_longer_backs_its_node_serves_by_its_tag(self) -> None:
        with installation(spares=0) as made:
            other, now = in_service(made.world), made.world.clock.now()
            closed = AliasRow(made.world.key(2), other, now - timedelta(days=1), now)
            made.world.table.write(Put(items.alias_item(Alias("instance", other), closed, now)))
            made.ec2.tags[other] = CLUSTER
            made.status()
            assert made.ssm.peers == [other]

    @pytest.mark.parametrize(("tag", "state", "used"), [(CLUSTER, "running", True), ("b", "running", False)])
    def test_an_instance_outside_the_cluster_serves_by_its_tag(self, tag: str, state: str, used: bool) -> None:
        with installation(spares=0) as made:
            made.ec2.tags[KEPT], made.ec2.states[KEPT] = tag, state
            made.status()
            assert made.ssm.peers == ([KEPT] if used else [])

    def test_a_stopped_instance_is_no_peer(self) -> None:
        with installation(spares=0) as made:
            made.ec2.tags[KEPT], made.ec2.states[KEPT] = CLUSTER, "stopped"
            assert made.status().verdict is Verdict.PASSED
            assert made.ssm.sent == []

    def test_verified_spares_come_first(self) -> None:
        with installation(spares=1) as made:
            made.ec2.tags[KEPT] = CLUSTER
            made.ssm.outputs = dict.fromkeys((*ready(made.world), KEPT), BAD)
            made.decided()
            assert made.ssm.peers == [*ready(made.world), KEPT]


def in_service(world: World) -> str:
    """Register a second node, and return its instance."""
    since = world.clock.now() - timedelta(days=1)
    instance = world.fleet.launch(GROUP, "i-0000000000000000a", since)
    placement = NewNode("node-2", instance, GROUP, TYPE, None, since=since)
    Registration(world.table, world.append, world.clock).add_node(CLUSTER, placement)
    world.process_entries()
    return instance
