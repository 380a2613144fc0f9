"""HyperPod's answers about single nodes: partial failures, lost answers, rivals and interrupted checks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.ec2.request_log import SETTLE, Progress, RequestLog
from faultbridge.adapters.hyperpod.cluster import FAILURES, HyperPodCluster, result_for
from faultbridge.adapters.hyperpod.provider import (
    CHECK_LABEL,
    HEALTH_LABEL,
    START_LIMIT,
    HyperPodProvider,
    HyperPodRestarter,
    HyperPodVerifier,
)
from faultbridge.local.hyperpod import FakeHyperPod
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, RestartState, Verdict
from faultbridge.record.ports.presence import Presence
from tests.adapters.stubs import client_error
from tests.hyperpod import GROUP, api, hyperpod
from tests.races import run_before_write
from tests.sim.fakes import FakeTable, ManualClock, Seam

REBOOT = RepairAction.REBOOT_NODE
UNKNOWN = "i-0123456789abcdef0"
MINUTE = timedelta(minutes=1)
PLAN = CapacitySource.TRAINING_PLAN
PLAN_ARN = "arn:aws:sagemaker:us-east-1:000000000000:training-plan/plan-1"


class Desk:
    """A cluster of two nodes, and every port of its first node."""

    def __init__(self, clients: Any, fake: FakeHyperPod, clock: ManualClock) -> None:
        self.fake, self.clock, self.clients = fake, clock, clients
        self.seam = Seam()
        self.log = RequestLog(FakeTable(clock, seam=self.seam), clock)
        self.provider = HyperPodProvider(api(clients))
        self.restarter = HyperPodRestarter(api(clients), self.log)
        self.verifier = HyperPodVerifier(api(clients), self.log)
        self.instance = fake.current()[0].instance_id

    def advance(self, minutes: float) -> None:
        self.clock.advance(minutes * MINUTE)

    def verdict(self, operation: str) -> Verdict:
        return self.verifier.status(self.instance, operation).verdict

    def restart(self) -> RestartState:
        return self.restarter.status(REBOOT, self.instance, "c-1").state


@pytest.fixture
def desk() -> Iterator[Desk]:
    clock = ManualClock()
    with hyperpod(clock) as (clients, fake):
        yield Desk(clients, fake, clock)


def with_plan(desk: Desk) -> Capacity:
    """Return what the training plan of the group has, once its group has one."""
    object.__setattr__(desk.fake.groups[GROUP], "training_plan", PLAN_ARN)
    return desk.provider.capacity(PLAN, desk.instance, GROUP)


class TestBatchAnswers:
    @given(st.sampled_from([*FAILURES, None]), st.booleans(), st.booleans())
    def test_the_result_of_a_node_never_depends_on_the_other_nodes(
        self, code: str | None, other_failed: bool, listed: bool
    ) -> None:
        failed = [{"NodeId": UNKNOWN, "ErrorCode": "InternalServerError", "Message": ""}] if other_failed else []
        done = [] if other_failed else [UNKNOWN]
        if listed and code:
            failed.append({"NodeId": "i-1", "ErrorCode": code, "Message": "words"})
        elif listed:
            done.append("i-1")
        found = result_for({"Failed": failed, "Successful": done}, "i-1", "op")
        expected = (FAILURES[code] if code else None) if listed else ProviderFailure.AMBIGUOUS
        assert found.failure is expected

    def test_an_unknown_error_code_is_not_retried(self) -> None:
        answer = {"Failed": [{"NodeId": "i-1", "ErrorCode": "Novel", "Message": ""}]}
        assert result_for(answer, "i-1", "op").failure is ProviderFailure.PROVIDER_ERROR


class TestReplace:
    def test_an_operation_in_progress_may_be_our_own_request(self, desk: Desk) -> None:
        assert desk.provider.replace(desk.instance, "t").ok
        desk.advance(0.5)
        desk.fake.nodes.update({node.slot: node for node in desk.fake.current()})
        again = desk.provider.replace(desk.instance, "t")
        assert again.failure is ProviderFailure.AMBIGUOUS
        assert desk.fake.requests == [("replace", desk.instance)]

    def test_an_instance_that_the_list_confirms_as_gone_is_released(self, desk: Desk) -> None:
        assert desk.provider.replace(UNKNOWN, "t").ok

    def test_a_not_found_for_an_instance_that_exists_releases_nothing(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = {"Failed": [{"NodeId": desk.instance, "ErrorCode": "InstanceIdNotFound", "Message": ""}]}
        client = desk.clients.sagemaker_no_retry
        monkeypatch.setattr(client, "batch_replace_cluster_nodes", lambda **_: answer)
        assert desk.provider.replace(desk.instance, "t").failure is ProviderFailure.AMBIGUOUS

    def test_automatic_recovery_refuses_the_call(self, desk: Desk) -> None:
        desk.fake.node_recovery = "Automatic"
        assert desk.provider.replace(desk.instance, "t").failure is ProviderFailure.CONFLICT
        assert desk.restarter.restart(REBOOT, desk.instance, "c-1").failure is ProviderFailure.CONFLICT
        assert desk.fake.requests == []
        assert desk.restart() is RestartState.ABSENT

    def test_a_cluster_that_does_not_state_its_recovery_is_taken_to_recover_nodes(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        described = desk.clients.sagemaker.describe_cluster(ClusterName=api(desk.clients).name)
        unstated = {name: value for name, value in described.items() if name != "NodeRecovery"}
        monkeypatch.setattr(desk.clients.sagemaker, "describe_cluster", lambda **_: unstated)
        assert desk.provider.replace(desk.instance, "t").failure is ProviderFailure.CONFLICT
        assert desk.fake.requests == []

    def test_a_missing_cluster_never_makes_a_node_gone(self, desk: Desk) -> None:
        missing_cluster = HyperPodProvider(HyperPodCluster(desk.clients, "nowhere"))
        with pytest.raises(Misconfigured, match="nowhere"):
            missing_cluster.probe(desk.instance)

    def test_a_node_that_is_listed_but_not_described_is_not_gone(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(desk.fake, "find", lambda _: None)
        assert desk.provider.probe(desk.instance) is Presence.UNKNOWN
        assert desk.provider.replace(desk.instance, "t").failure is ProviderFailure.AMBIGUOUS

    def test_a_training_plan_counts_with_its_free_instances_and_its_end(self, desk: Desk) -> None:
        assert desk.provider.capacity(PLAN, desk.instance, GROUP).evidence is CapacityEvidence.ABSENT
        desk.fake.plan_total, desk.fake.plan_end = 6, datetime(2030, 1, 1, tzinfo=UTC)
        found = with_plan(desk)
        assert (found.evidence, found.free) == (CapacityEvidence.OWN_RESERVATION, True)
        used = len(desk.fake.nodes)
        assert (found.count, found.reason) == (6 - used, f"{PLAN_ARN}: {6 - used} of 6 instances free")
        assert found.ends_at == datetime(2030, 1, 1, tzinfo=UTC)

    def test_the_spares_and_the_unhealthy_instances_of_a_training_plan_are_named(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counts = {"TotalInstanceCount": 72, "AvailableInstanceCount": 0}
        counts |= {"AvailableSpareInstanceCount": 2, "UnhealthyInstanceCount": 1}
        monkeypatch.setattr(desk.clients.sagemaker, "describe_training_plan", lambda **_: {"Status": "Active"} | counts)
        expected = f"{PLAN_ARN}: 0 of 72 instances free, 2 spare ones in UltraServers, 1 unhealthy"
        assert with_plan(desk).reason == expected

    def test_a_full_training_plan_counts_because_the_release_frees_an_instance(self, desk: Desk) -> None:
        found = with_plan(desk)
        assert (found.free, found.count) == (True, 0)

    def test_a_training_plan_that_is_not_active_has_nothing(self, desk: Desk) -> None:
        desk.fake.plan_status = "Expired"
        found = with_plan(desk)
        assert (found.free, found.count) == (False, 0)
        assert found.reason.endswith("is Expired")

    def test_a_plan_that_is_not_active_for_its_group_has_nothing_even_if_it_may_not_be_read(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise client_error("AccessDeniedException")

        monkeypatch.setattr(desk.clients.sagemaker, "describe_training_plan", refuse)
        desk.fake.plan_status = "Failed"
        found = with_plan(desk)
        assert (found.free, found.reason) == (False, f"training plan {PLAN_ARN} is Failed")

    @pytest.mark.parametrize(
        ("code", "evidence"),
        [
            ("AccessDeniedException", CapacityEvidence.OWN_RESERVATION),
            ("ValidationException", CapacityEvidence.NONE),
        ],
    )
    def test_only_a_plan_that_may_not_be_read_counts_without_its_description(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, code: str, evidence: CapacityEvidence
    ) -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise client_error(code)

        monkeypatch.setattr(desk.clients.sagemaker, "describe_training_plan", refuse)
        found = with_plan(desk)
        assert (found.evidence, found.count) == (evidence, None)

    def test_on_demand_capacity_is_unknown_and_reservations_of_ec2_are_absent(self, desk: Desk) -> None:
        asked = {one: desk.provider.capacity(one, desk.instance, GROUP).evidence for one in CapacitySource}
        assert asked.pop(CapacitySource.ON_DEMAND) is CapacityEvidence.NONE
        assert set(asked.values()) == {CapacityEvidence.ABSENT}

    def test_only_a_running_instance_is_a_candidate(self, desk: Desk) -> None:
        desk.provider.replace(desk.instance, "t")
        desk.advance(5)
        before = desk.provider.candidates(GROUP, desk.clock.now() - 4 * MINUTE)
        desk.advance(20)
        (found,) = desk.provider.candidates(GROUP, desk.clock.now() - 24 * MINUTE)
        assert before == ()
        assert found.slot == desk.fake.current()[0].slot


class TestReboot:
    def test_it_is_done_when_the_node_left_running_and_is_back(self, desk: Desk) -> None:
        desk.restarter.restart(REBOOT, desk.instance, "c-1")
        assert desk.restart() is RestartState.RUNNING
        desk.advance(3)
        assert desk.restart() is RestartState.DONE

    def test_a_node_that_never_seemed_to_leave_is_done_after_the_settling_time(self, desk: Desk) -> None:
        desk.restarter.restart(REBOOT, desk.instance, "c-1")
        desk.advance(5)
        assert desk.restart() is RestartState.RUNNING
        desk.clock.advance(SETTLE)
        assert desk.restart() is RestartState.DONE

    def test_an_unanswered_request_is_never_taken_for_a_reboot(self, desk: Desk) -> None:
        desk.log.record("c-1 reboot_node")
        desk.clock.advance(10 * SETTLE)
        assert desk.restart() is RestartState.RUNNING
        assert desk.restarter.restart(REBOOT, desk.instance, "c-1").ok
        assert desk.fake.requests == []

    def test_two_callers_at_once_reboot_a_node_once(self, desk: Desk) -> None:
        other = HyperPodRestarter(api(desk.clients), desk.log)
        run_before_write(desk.seam, lambda _: True, lambda: other.restart(REBOOT, desk.instance, "c-1"))
        assert desk.restarter.restart(REBOOT, desk.instance, "c-1").ok
        assert desk.fake.requests == [("reboot", desk.instance)]

    def test_a_refused_request_may_be_sent_again(self, desk: Desk) -> None:
        desk.provider.replace(desk.instance, "t")
        assert desk.restarter.restart(REBOOT, desk.instance, "c-1").failure is ProviderFailure.CONFLICT
        assert desk.restart() is RestartState.ABSENT

    def test_a_node_that_does_not_come_back_has_failed(self, desk: Desk) -> None:
        desk.restarter.restart(REBOOT, desk.instance, "c-1")
        (slot,) = [one.slot for one in desk.fake.current() if one.instance_id == desk.instance]
        object.__setattr__(desk.fake.nodes[slot], "then", "Failure")
        desk.advance(3)
        assert desk.restart() is RestartState.FAILED

    def test_hyperpod_cannot_reset_gpus(self, desk: Desk) -> None:
        answer = desk.restarter.restart(RepairAction.RESET_GPU, desk.instance, "c-1")
        assert answer.failure is ProviderFailure.PROVIDER_ERROR


class TestVerification:
    def test_the_basic_checks_pass_for_a_running_node_and_start_nothing(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t")
        found = desk.verifier.status(desk.instance, operation)
        assert (found.verdict, found.level, desk.fake.requests) == (Verdict.PASSED, 1, [])

    def test_a_deep_check_passes_when_the_node_went_through_it(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t", 2)
        assert desk.verdict(operation) is Verdict.PENDING
        desk.advance(90)
        found = desk.verifier.status(desk.instance, operation)
        assert (found.verdict, found.level) == (Verdict.PASSED, 2)

    def test_a_check_that_was_never_seen_running_has_not_passed(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t", 2)
        desk.advance(90)
        assert desk.verdict(operation) is Verdict.UNKNOWN

    def test_a_node_that_was_rebooted_during_its_check_has_not_passed(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t", 2)
        assert desk.verdict(operation) is Verdict.PENDING
        desk.advance(90)
        list(desk.fake.reboot([desk.instance]))
        assert desk.verdict(operation) is Verdict.PENDING
        desk.advance(3)
        assert desk.verdict(operation) is Verdict.UNKNOWN

    @pytest.mark.parametrize("level", [1, 2])
    def test_a_label_that_asks_for_a_repair_fails_the_node_at_once(self, desk: Desk, level: int) -> None:
        operation = desk.verifier.start(desk.instance, "t", level)
        desk.fake.labels[desk.instance] = {HEALTH_LABEL: "UnschedulablePendingReplacement"}
        assert desk.verdict(operation) is Verdict.FAILED

    def test_the_basic_checks_fail_for_a_node_that_failed_its_last_deep_check(self, desk: Desk) -> None:
        desk.fake.labels[desk.instance] = {CHECK_LABEL: "Failed"}
        assert desk.verdict(desk.verifier.start(desk.instance, "t")) is Verdict.FAILED

    def test_the_label_of_an_earlier_check_does_not_count_for_one_that_has_not_ended(self, desk: Desk) -> None:
        desk.fake.labels[desk.instance] = {CHECK_LABEL: "Failed"}
        desk.log.record("hyperpod-check 2 t")
        assert desk.verdict("hyperpod-check 2 t") is Verdict.PENDING
        desk.fake.check([desk.instance])
        assert desk.verdict("hyperpod-check 2 t") is Verdict.PENDING
        desk.advance(60)
        assert desk.verdict("hyperpod-check 2 t") is Verdict.PENDING
        desk.fake.labels[desk.instance] = {CHECK_LABEL: "Passed"}
        desk.advance(30)
        assert desk.verdict("hyperpod-check 2 t") is Verdict.PASSED

    @pytest.mark.parametrize("reboots", [False, True], ids=["running", "rebooted"])
    def test_a_label_that_a_check_left_fails_the_node(self, desk: Desk, reboots: bool) -> None:
        operation = desk.verifier.start(desk.instance, "t", 2)
        assert desk.verdict(operation) is Verdict.PENDING
        desk.advance(90)
        if reboots:
            list(desk.fake.reboot([desk.instance]))
            assert desk.verdict(operation) is Verdict.PENDING
            desk.advance(3)
        desk.fake.labels[desk.instance] = {CHECK_LABEL: "Failed"}
        found = desk.verifier.status(desk.instance, operation)
        assert (found.verdict, found.findings) == (Verdict.FAILED, (f"{CHECK_LABEL} is Failed",))

    @pytest.mark.parametrize("seen", [False, True], ids=["not seen", "seen"])
    def test_a_check_whose_label_says_that_it_runs_has_no_result(self, desk: Desk, seen: bool) -> None:
        desk.fake.labels[desk.instance] = {CHECK_LABEL: "InProgress"}
        operation = desk.verifier.start(desk.instance, "t", 2)
        if seen:
            assert desk.verdict(operation) is Verdict.PENDING
        desk.advance(90)
        assert START_LIMIT < 90 * MINUTE
        assert desk.verdict(operation) is Verdict.PENDING
        desk.fake.labels[desk.instance] = {CHECK_LABEL: "Passed"}
        assert desk.verdict(operation) is (Verdict.PASSED if seen else Verdict.UNKNOWN)

    def test_a_warning_during_a_check_counts_when_the_node_runs_again(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t", 2)
        node = desk.fake.find(desk.instance)
        assert node is not None
        desk.fake._emit(node, "Warn", "Instance is unhealthy")
        assert desk.verdict(operation) is Verdict.PENDING
        desk.advance(90)
        assert desk.verdict(operation) is Verdict.FAILED

    def test_a_warning_about_the_node_since_the_start_fails_it(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t")
        node = desk.fake.find(desk.instance)
        assert node is not None
        desk.fake._emit(node, "Warn", "Instance is unhealthy")
        found = desk.verifier.status(desk.instance, operation)
        assert (found.verdict, found.findings) == (Verdict.FAILED, ("Instance is unhealthy",))

    def test_a_cluster_without_events_is_judged_by_status_and_labels(self, desk: Desk) -> None:
        desk.fake.continuous = False
        assert desk.verdict(desk.verifier.start(desk.instance, "t")) is Verdict.PASSED

    def test_a_replaced_instance_leaves_no_verdict(self, desk: Desk) -> None:
        operation = desk.verifier.start(desk.instance, "t", 2)
        desk.fake.faulty.add(desk.instance)
        desk.advance(100)
        assert desk.verdict(operation) is Verdict.UNKNOWN

    def test_another_check_in_the_cluster_delays_the_start(self, desk: Desk) -> None:
        other = desk.fake.current()[1].instance_id
        desk.verifier.start(other, "o", 2)
        with pytest.raises(Transient, match="already in progress"):
            desk.verifier.start(desk.instance, "t", 2)
        desk.advance(90)
        operation = desk.verifier.start(desk.instance, "t", 2)
        assert desk.fake.requests == [("check", other), ("check", desk.instance)]
        assert desk.verdict(operation) is Verdict.PENDING

    @pytest.mark.parametrize(("status", "checks"), [(503, 1), (400, 2)])
    def test_a_check_that_may_have_started_although_the_service_failed_is_not_started_again(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch, status: int, checks: int
    ) -> None:
        cluster, sent = desk.verifier._cluster, []
        start = type(cluster).start_health_check

        def start_and_fail(self, *arguments):
            sent.append(arguments)
            if len(sent) == 1:
                response = {"Error": {"Code": "Failed"}, "ResponseMetadata": {"HTTPStatusCode": status}}
                raise ClientError(response, "StartClusterHealthCheck")
            return start(self, *arguments)

        monkeypatch.setattr(type(cluster), "start_health_check", start_and_fail)
        with pytest.raises((Transient, Misconfigured)):
            desk.verifier.start(desk.instance, "t", 2)
        desk.verifier.start(desk.instance, "t", 2)
        assert len(sent) == checks

    def test_a_node_that_does_not_run_yet_is_not_checked(self, desk: Desk) -> None:
        desk.restarter.restart(REBOOT, desk.instance, "c-1")
        with pytest.raises(Transient, match="Pending"):
            desk.verifier.start(desk.instance, "t")

    def test_a_check_that_never_starts_has_no_result(self, desk: Desk) -> None:
        desk.log.record("hyperpod-check 2 t")
        assert desk.verdict("hyperpod-check 2 t") is Verdict.PENDING
        desk.clock.advance(START_LIMIT)
        assert desk.verdict("hyperpod-check 2 t") is Verdict.UNKNOWN


class TestRequestLog:
    def test_one_of_two_callers_records_a_request(self, desk: Desk) -> None:
        assert [desk.log.record("t") for _ in range(2)] == [True, False]

    def test_a_repeated_write_of_the_same_caller_succeeds(self, desk: Desk) -> None:
        log = RequestLog(desk.log.table, desk.clock, make_id=lambda: "caller-1")
        assert [log.record("t") for _ in range(2)] == [True, True]

    def test_a_withdrawn_request_stays_withdrawn(self, desk: Desk) -> None:
        desk.log.record("t")
        desk.log.withdraw("t")
        desk.log.advance("t", Progress.ACCEPTED)
        assert desk.log.find("t") is None
