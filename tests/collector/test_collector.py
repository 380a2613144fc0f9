"""The collector on the fake Kubernetes API over HTTP: it loses nothing, and sends nothing twice without need."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.adapters.kubernetes.client import in_cluster_access
from faultbridge.decode.registry import decode
from faultbridge.local.kubernetes.cluster import RunningInstance
from faultbridge.model import names
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.values import replace
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.node.collector import handlers
from faultbridge.node.collector.handlers import record_of_event, records_of_node, unmapped_types
from faultbridge.record.ports.object_watch import ObjectKind
from tests.collector.cluster import EKS, INSTANCE, NODE, XID_79, Collected, agent_event, collected
from tests.waiting import eventually

MANIFEST = Path(__file__).resolve().parents[2] / "infra" / "kubernetes" / "faultbridge.yaml"
DOCUMENTS = {
    one["kind"]: one
    for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    if "collector" in one["metadata"]["name"]
}
OTHER = RunningInstance("i-00000000000000008", "ip-10-0-0-8.ec2.internal")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Collected]:
    with collected(tmp_path) as made:
        yield made


def codes(message: object) -> set[str]:
    found = decode(message.source, message.body)  # type: ignore[attr-defined]
    return {fault.code for one in found for fault in getattr(one, "present", (one,))}


def test_a_node_is_sent_when_listed_and_when_a_condition_changes(world: Collected) -> None:
    with world.running():
        (first,) = world.until(1)
        world.cluster.set_condition(NODE, XID_79)
        (changed,) = world.until(1, EKS)
        world.cluster.set_condition(NODE, {**XID_79, "status": "True", "reason": "NoIssue"})
        healthy = world.until(2, EKS)[1]
    assert len(world.messages()) == 1  # the kubelet reported no change
    assert codes(healthy) == set()
    assert (first.cluster, first.node, first.instance_id, first.boot_id) == ("train-a", NODE, INSTANCE, None)
    assert codes(first) == set()
    assert codes(changed) == {"xid.79"}


def test_a_heartbeat_without_a_change_sends_nothing(world: Collected) -> None:
    with world.running():
        world.until(1)
        for minute in range(10, 15):
            beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-02-03T04:{minute}:00Z"}
            world.cluster.set_condition(NODE, beat)
        world.cluster.join(OTHER)  # a later change: the heartbeats before it were handled
        world.until(2)
    assert [message.node for message in world.messages()] == [NODE, OTHER.name]


def test_an_unchanged_node_is_repeated_after_half_an_hour(world: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "REPEAT_SECONDS", 0.0)
    with world.running():
        world.until(1)
        world.cluster.patch_node(NODE, {"metadata": {"labels": {"team": "a"}}})
        first, second = world.until(2)
    assert first.body == second.body
    assert first.record_id != second.record_id


def test_events_of_monitoring_agents_are_sent_and_others_are_not(world: Collected) -> None:
    world.cluster.record_event(agent_event("listed"))
    with world.running():
        world.until(1, EKS)
        world.cluster.record_event(agent_event("kubelet", "NodeNotReady", "kubelet"))
        world.cluster.record_event(agent_event("detector", "KernelOops", "kernel-monitor"))
        world.cluster.record_event(agent_event("listed"))  # counted again: the same event, a new version
        listed, again = world.until(2, EKS)
    assert {codes(one).pop() for one in (listed, again)} == {"xid.79"}
    assert listed.record_id != again.record_id
    (detected,) = world.messages("node-problem-detector")
    assert codes(detected) == {"host.kernel_unhealthy"}


def test_changes_during_a_restart_are_sent_after_it(world: Collected) -> None:
    with world.running():
        world.until(1)
    world.cluster.set_condition(NODE, XID_79)
    world.cluster.record_event(agent_event("meanwhile"))
    with world.running():
        found = world.until(2, EKS)
    assert [codes(one) for one in found] == [{"xid.79"}] * 2
    assert len(world.events()) == 1


def test_a_new_instance_under_the_name_of_a_deleted_node_is_sent_at_once(world: Collected) -> None:
    with world.running():
        world.until(1)
        world.cluster.sync([])
        world.cluster.join(RunningInstance(OTHER.instance_id, NODE))
        world.cluster.join(OTHER)  # a later change: the ones before it were handled
        found = world.until(2)
    assert [(one.node, one.instance_id) for one in found[:2]] == [(NODE, INSTANCE), (NODE, OTHER.instance_id)]


def test_an_event_that_is_listed_again_keeps_its_record_id(world: Collected) -> None:
    world.cluster.record_event(agent_event("one"))
    for _ in range(2):
        assert world.collector().run_once(5) is None
    first, second = world.events()
    assert first.record_id == second.record_id


def test_records_that_are_not_sent_in_time_are_a_problem_of_a_single_run(world: Collected) -> None:
    collector = world.collector()
    assert collector.run_once(0) == "the time was not sufficient to send all records"
    assert collector.sender.outbox.unsent == 1


def test_a_postponed_record_is_a_problem_of_a_single_run_although_later_calls_succeed(world: Collected) -> None:
    for number in range(30):
        world.cluster.record_event(agent_event(f"{number:02}"))
    collector = world.collector()
    accept = world.transport.send_batch

    def throttle_first(records: Any) -> tuple[set[str], set[str]]:
        world.transport.throttled = world.transport.throttled or {records[0].record_id}
        return accept(records)

    world.transport.send_batch = throttle_first  # type: ignore[method-assign]
    assert collector.run_once(5) == "the queue did not accept it"
    assert collector.sender.outbox.unsent == 1


@pytest.mark.parametrize("missing", ["uid", "resourceVersion"])
@pytest.mark.parametrize("value", [None, 7, "x" * 300, "a b"], ids=repr)
def test_an_event_without_a_valid_uid_or_version_has_a_stable_record_id(missing: str, value: object) -> None:
    def record_id(name: str = "one", **fields: object) -> str | None:
        event = {**agent_event(name), **fields}
        event["metadata"] = {"resourceVersion": "7", "uid": "u-1", "name": name, missing: value}
        record = record_of_event(event)
        assert record is not None
        return record.record_id

    found = record_id()
    assert found is not None
    assert names.RECORD_ID.fullmatch(found)
    assert record_id() == found
    assert record_id("two") != found
    assert record_id(count=2) != found


def test_an_event_without_a_name_and_a_uid_has_no_record_id() -> None:
    record = record_of_event({**agent_event("one"), "metadata": {"resourceVersion": "7"}})
    assert record is not None
    assert record.record_id is None


def test_a_lost_version_lists_everything_again(world: Collected, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "faultbridge")
    with world.running() as collector:
        world.until(1)
        nodes = collector.followers[0]
        world.cluster.reachable = False
        # The watch of the fake ends with its version; until then it serves its changes.
        world.cluster.changed(world.cluster.node(NODE))
        world.cluster.set_condition(NODE, XID_79)
        world.cluster.log.compact()
        world.cluster.reachable = True
        (found,) = world.until(1, EKS)
        assert nodes.version is not None
    assert codes(found) == {"xid.79"}
    assert any(record.message == "list_again" and "too old" in record.reason for record in caplog.records)  # type: ignore[attr-defined]


def test_an_unreachable_api_is_logged_and_read_again(world: Collected, caplog: pytest.LogCaptureFixture) -> None:
    collector = world.collector()
    follower = replace(collector.followers[0])
    pauses: list[float] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        world.cluster.reachable = len(pauses) >= 3
        if len(pauses) >= 4:
            follower.stopping.set()

    follower.wait, world.cluster.reachable = wait, False
    caplog.set_level(logging.INFO, "faultbridge")
    follower.handler = Failing(follower.handler, Transient("the handler fails"))
    follower.run()
    # The followers of an earlier test may end only now, and say so.
    own = [record for record in caplog.records if record.thread == threading.get_ident()]
    reasons = [record.reason for record in own if record.message == "list_again"]  # type: ignore[attr-defined]
    assert len(pauses) == 4
    assert all("unreachable" in reason for reason in reasons[:3])
    assert "the handler fails" in reasons[3]


class Failing:
    """A handler that fails for each object; after the error Transient, it receives the object again."""

    def __init__(self, handler: object, error: Exception) -> None:
        self._handler, self._error = handler, error

    def handle(self, _found: object) -> None:
        raise self._error

    def __getattr__(self, name: str) -> object:
        return getattr(self._handler, name)


def test_an_error_of_a_follower_ends_the_collector_with_that_error(world: Collected) -> None:
    collector = world.collector()
    follower = collector.followers[0]
    follower.handler = Failing(follower.handler, RuntimeError("a defect"))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(collector.run)
        stopped = collector.stopping.wait(20)
        collector.stop()
        with pytest.raises(RuntimeError, match="a defect"):
            running.result()
    assert stopped


def test_an_outage_of_the_queue_loses_no_change_and_stays_within_the_disk_limit(world: Collected) -> None:
    world.transport.down = True
    with world.running(spool_bytes=3 * 4096) as collector:
        for number in range(10):
            world.cluster.set_condition(NODE, {**XID_79, "message": f"error {number}"})
        assert collector.sender.outbox.spool.used_bytes <= 3 * 4096
        world.transport.down = False
        collector.sender._backoff_until = 0.0
        eventually(lambda: any("error 9" in str(message.body) for message in world.messages(EKS)))


def test_the_token_is_read_again_for_each_request(world: Collected) -> None:
    world.tokens = ["expired"]
    with pytest.raises(Exception, match="Unauthorized"):
        list(world.watch.pages(ObjectKind.NODE))
    world.tokens.append("fake-service-account-token")
    (page,) = world.watch.pages(ObjectKind.NODE)
    assert [one["metadata"]["name"] for one in page.objects] == [NODE]


def test_a_list_of_many_nodes_is_read_in_pages(world: Collected) -> None:
    for number in range(250):
        world.cluster.join(RunningInstance(f"i-{number:017x}", f"n-{number}"))
    assert [len(page.objects) for page in world.watch.pages(ObjectKind.NODE)] == [100, 100, 51]
    assert world.collector().run_once(30) is None
    assert len(world.messages()) == 251


def test_nvsentinel_conditions_are_sent_in_their_own_format(world: Collected) -> None:
    unhealthy = {
        "type": "SysLogsXIDError",
        "status": "True",
        "reason": "SysLogsXIDErrorIsNotHealthy",
        "message": "ErrorCode:79 PCI:0000:c1:00 fallen off the bus Recommended Action=RESTART_BM;",
        "lastTransitionTime": "2026-02-03T04:05:06Z",
        "lastHeartbeatTime": "2026-02-03T04:06:00Z",
    }
    world.cluster.set_condition(NODE, unhealthy)
    assert world.collector().run_once(5) is None
    (message,) = world.messages("nvsentinel")
    (fault,) = decode("nvsentinel", message.body or b"")
    assert (fault.code, fault.attributes["pci"], fault.node) == ("xid.79", "0000:c1:00", NODE)  # type: ignore[union-attr]
    assert str(fault.observed_at) == "2026-02-03 04:06:00+00:00"
    assert "SysLogsXIDError" not in world.conditions(world.messages()[0])
    healthy = {**unhealthy, "status": "False", "reason": "SysLogsXIDErrorIsHealthy", "message": "No Health Failures"}
    world.cluster.set_condition(NODE, healthy)
    assert world.collector().run_once(5) is None
    (snapshot,) = decode("nvsentinel", world.messages("nvsentinel")[-1].body or b"")
    assert "xid.79" in snapshot.covers  # type: ignore[union-attr]


def test_a_true_condition_without_a_mapping_is_named_once(world: Collected, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "faultbridge")
    world.cluster.set_condition(NODE, {"type": "OurFanStopped", "status": "True", "reason": "Fan3"})
    world.cluster.set_condition(NODE, {"type": "OurGpuHealthy", "status": "True", "reason": "Fine"})
    world.cluster.join(OTHER)
    world.cluster.set_condition(OTHER.name, {"type": "OurFanStopped", "status": "True", "reason": "Fan3"})
    assert world.collector().run_once(5) is None
    named = [record.condition for record in caplog.records if record.message == "condition_not_mapped"]  # type: ignore[attr-defined]
    assert named == ["OurFanStopped"]
    assert "OurFanStopped" in world.conditions(world.messages()[0])  # an own mapping can still read it


@pytest.mark.parametrize("value", [None, 7, "x" * 300, ["a"], {"b": {}}], ids=repr)
def test_fields_of_any_type_give_a_record_that_decodes_or_none(value: object) -> None:
    conditions = [{**XID_79, field: value} for field in ("type", "status", "reason", "message")]
    nodes = [
        {"metadata": {"name": NODE, "labels": value}, "spec": value, "status": {"conditions": [*conditions, value]}},
        {"metadata": value, "status": value},
        {"metadata": {"name": value}, "spec": {"providerID": value}},
    ]
    for node in nodes:
        list(unmapped_types(node))
        for record in records_of_node(node):
            decode(record.source, record.body)
    events = [{**agent_event("x"), field: value} for field in ("reason", "source", "message", "series", "metadata")]
    for event in (*events, {**agent_event("x"), "involvedObject": value}):
        found = record_of_event(event)
        assert found is None or isinstance(decode(found.source, found.body), tuple)


def test_no_record_contains_other_labels_or_annotations(world: Collected) -> None:
    world.cluster.patch_node(
        NODE,
        {
            "metadata": {
                "labels": {"team": "secret", "sagemaker.amazonaws.com/node-health-status": "Schedulable"},
                "annotations": {"token": "secret"},
            }
        },
    )
    assert world.collector().run_once(5) is None
    body = json.loads(world.messages()[0].body or b"")
    assert body["metadata"] == {"name": NODE, "labels": {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}}


def test_the_access_of_a_pod_is_read_from_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "ca.crt").write_text("PEM")
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    access = in_cluster_access(pod, tmp_path)
    assert (access.endpoint, access.authority, access.token) == ("https://[fd00::1]:6443", "UEVN", "abc")
    for environment, folder in (({}, tmp_path), (pod, tmp_path / "missing")):
        with pytest.raises(Misconfigured):
            in_cluster_access(environment, folder)


def test_the_manifest_grants_exactly_what_the_collector_uses(world: Collected) -> None:
    with world.running(jobs=True):
        eventually(lambda: ("watch", "pods") in world.cluster.permissions_used)
        eventually(lambda: ("watch", "events") in world.cluster.permissions_used)
        eventually(lambda: ("watch", "nodes") in world.cluster.permissions_used)
    granted = {
        (verb, kind)
        for role in (DOCUMENTS["ClusterRole"], DOCUMENTS["Role"])
        for rule in role["rules"]
        for kind in rule["resources"]
        for verb in rule["verbs"]
    }
    assert world.cluster.permissions_used == granted
    assert DOCUMENTS["Role"]["metadata"]["namespace"] == "default"  # the events about nodes


def test_the_manifest_runs_the_command_with_valid_settings_and_without_privileges() -> None:
    pod = DOCUMENTS["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] == ["faultbridge", "collect", "kubernetes", "--jobs"]
    settings = AgentSettings.load(None, variables(container))
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(settings.spool) in mounts
    assert settings.spool_bytes < 100 * 1024 * 1024
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["serviceAccountName"] == DOCUMENTS["ServiceAccount"]["metadata"]["name"]
    for binding in ("ClusterRoleBinding", "RoleBinding"):
        (subject,) = DOCUMENTS[binding]["subjects"]
        assert (subject["kind"], subject["name"], subject["namespace"]) == (
            "ServiceAccount",
            pod["serviceAccountName"],
            DOCUMENTS["Deployment"]["metadata"]["namespace"],
        )
        role = binding.removesuffix("Binding")
        assert DOCUMENTS[binding]["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role,
            "name": DOCUMENTS[role]["metadata"]["name"],
        }
    assert DOCUMENTS["Deployment"]["spec"]["replicas"] == 1
    assert DOCUMENTS["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}


def variables(container: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"]}
