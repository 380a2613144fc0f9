"""Commands on a stack: their tables, their JSON and their exit codes."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from faultbridge.adapters.hyperpod.inventory import HyperPodInventory
from faultbridge.cli.stack.session import Session
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.ingest.rejects import Rejects
from faultbridge.serve.wiring.services import wire_registration
from tests.builders import KEY
from tests.cli.desk import OPERATOR, Desk
from tests.hyperpod import GROUP as HYPERPOD_GROUP
from tests.hyperpod import hyperpod
from tests.sim.fakes import FakeInventory, FakeQueue, Seam, raise_once
from tests.sim.fakes.seam import Call
from tests.world import XID_79

CLUSTER, NODE = KEY


def send(
    desk: Desk, text: str = XID_79, *, source: str = "kernel-log", node: str = NODE, cluster: str = CLUSTER
) -> Any:
    return desk.json("send", "--source", source, "--cluster", cluster, "--node", node, given=text)


def test_a_cluster_is_registered_shown_and_changed(desk: Desk) -> None:
    added = desk("cluster", "add", "train-b")
    assert added.code == 0
    assert "observe only" in added.err
    desk("cluster", "set", "train-b", "--mode", "act", "--repair-owner", "faultbridge")
    shown = desk.json("cluster", "show", "train-b")
    assert (shown["mode"], shown["repair_owner"], shown["version"]) == ("act", "faultbridge", 2)
    assert [one["cluster"] for one in desk.json("cluster", "list")] == [CLUSTER, "train-b"]


def test_a_hyperpod_cluster_gets_its_own_verifier_and_restarter_unless_hyperpod_repairs_nodes(desk: Desk) -> None:
    ports, inventory = desk.world.ports, FakeInventory(desk.world.ports.fleet)
    ports.inventories["hyperpod"] = inventory
    for parts, part in (
        (ports.providers, "ec2-auto-scaling"),
        (ports.verifiers, "ssm-dcgm"),
        (ports.restarters, "ssm"),
    ):
        parts["hyperpod"] = parts[part]
    order = ("cluster", "add", "train-b", "--provider", "hyperpod", "--hyperpod-cluster", "hp-train")
    acting = (*order, "--repair-owner", "faultbridge", "--mode", "act")
    inventory.provider_repairs = True
    refused = desk(*acting)
    assert refused.code == 2
    assert "the provider repairs nodes of train-b itself; change its setting" in refused.err
    inventory.provider_repairs = False
    assert "repairs are enabled" in desk(*acting).err
    shown = desk.json("cluster", "show", "train-b")
    assert (shown["verifier"], shown["restarter"]) == ("hyperpod", "hyperpod")


def test_a_node_is_registered_shown_and_listed(desk: Desk) -> None:
    desk.json(
        "node", "add", "--cluster", CLUSTER, "--node", "n-2", "--instance-id", "i-0123456789abcdef0",
        "--group", "gpu", "--alias", "n-2.int", "--alias", "slurm-2",
    )  # fmt: skip
    shown = desk.json("node", "show", "n-2", "--cluster", CLUSTER)
    assert (shown["status"], shown["unverified"], shown["aliases"]) == ("healthy", True, ["n-2.int", "slurm-2"])
    assert [one["node"] for one in desk.json("node", "list", "--cluster", CLUSTER)] == [NODE, "n-2"]
    assert desk.json("node", "list", "--cluster", CLUSTER, "--status", "failed") == []


@pytest.mark.parametrize(
    "text",
    [
        "node,instance_id,group,aliases\nn-1,i-0123456789abcdef1,gpu,a;b\nn-2,i-0123456789abcdef2,gpu,\n",
        '{"node": "n-1", "instance_id": "i-0123456789abcdef1", "aliases": ["a", "b"]}\n\n{"node": "n-2"}\n',
    ],
)
def test_a_fleet_is_imported_from_a_file(desk: Desk, text: str) -> None:
    rows = desk.json("node", "import", "--cluster", CLUSTER, "-", given=text)
    assert [row["outcome"] for row in rows] == ["registered", "registered"]
    assert desk.json("node", "show", "n-1", "--cluster", CLUSTER)["aliases"] == ["a", "b"]


def test_a_rejected_node_does_not_stop_an_import(desk: Desk) -> None:
    ran = desk("node", "import", "--cluster", CLUSTER, "-", given="node\nn-1\na b\nn-3\n")
    assert ran.code == 1
    assert "registered 2 of 3 nodes" in ran.err
    assert "refused" in ran.out


def test_a_fleet_is_imported_from_a_provider_group(desk: Desk) -> None:
    inventory = FakeInventory(desk.world.ports.fleet)
    desk.world.ports.inventories = {"ec2-auto-scaling": inventory}
    serving = desk.world.ports.fleet.launch("another-group")
    (row,) = desk.json("node", "import", "--cluster", CLUSTER, "--group", "another-group")
    assert (row["node"], row["instance_id"]) == (f"ip-{serving[-4:]}", serving)
    shown = desk.json("node", "show", f"ip-{serving[-4:]}", "--cluster", CLUSTER)
    assert (shown["domain"], shown["domains"]["zone"]) == (f"nn-{serving[-1]}", "use1-az1")


@pytest.mark.parametrize(("size", "left_out"), [(100, 0), (130, 30)])
def test_an_import_says_how_many_instances_of_a_large_hyperpod_group_it_left_out(
    desk: Desk, size: int, left_out: int
) -> None:
    with hyperpod(desk.world.ports.clock, size=size) as (clients, fake):
        starting = fake.launch(HYPERPOD_GROUP)
        fake.nodes[starting.slot] = replace(starting, status="Pending")
        for number, (slot, node) in enumerate(fake.nodes.items()):  # host names follow from the last digits
            fake.nodes[slot] = replace(node, instance_id=f"i-0a{number:015x}")
        desk.world.ports.inventories["hyperpod"] = HyperPodInventory(clients)
        parts = {
            "provider": "hyperpod",
            "verifier": "hyperpod",
            "restarter": "hyperpod",
            "hyperpod_cluster": "hp-train",
        }
        wire_registration(desk.world.app).add_cluster(ClusterConfig("train-b", **parts))
        ran = desk("node", "import", "--cluster", "train-b", "--group", HYPERPOD_GROUP)
        notices = " ".join(ran.err.split())
        assert (ran.code, "registered 100 of 100 nodes" in notices) == (0, True)
        assert (f"{left_out} of {size} instances of {HYPERPOD_GROUP} were left out" in notices) is bool(left_out)
        app = desk.world.app
        wire_inventory(app).sync(wire_registration(app).cluster("train-b"))
        assert len(desk.json("node", "list", "--cluster", "train-b")) == size


def test_the_roles_of_an_imported_group_are_pinned_before_the_first_inventory(desk: Desk) -> None:
    inventory = FakeInventory(desk.world.ports.fleet)
    inventory.role_id = "AROANODES"
    desk.world.ports.inventories["ec2-auto-scaling"] = inventory
    desk.world.ports.fleet.launch("another-group")
    desk("node", "import", "--cluster", CLUSTER, "--group", "another-group")
    assert desk.json("cluster", "show", CLUSTER)["node_roles"] == ["AROANODES"]


@pytest.mark.parametrize("way", ["add", "import"])
def test_the_roles_of_nodes_that_are_named_are_pinned_before_any_of_them_reports(desk: Desk, way: str) -> None:
    inventory = FakeInventory(desk.world.ports.fleet)
    inventory.role_id = "AROANODES"
    desk.world.ports.inventories["ec2-auto-scaling"] = inventory
    instance = desk.world.ports.fleet.launch("another-group")
    named = ("--node", "n-2", "--instance-id", instance) if way == "add" else ("-",)
    desk("node", way, "--cluster", CLUSTER, *named, given=f"node,instance_id\nn-2,{instance}\n")
    assert desk.json("node", "show", "n-2", "--cluster", CLUSTER)["instance_id"] == instance
    assert desk.json("cluster", "show", CLUSTER)["node_roles"] == ["AROANODES"]


def test_a_node_whose_role_cannot_be_read_is_refused_until_the_cluster_states_its_roles(desk: Desk) -> None:
    inventory = FakeInventory(desk.world.ports.fleet, seam=Seam())
    desk.world.ports.inventories["ec2-auto-scaling"] = inventory
    instance = desk.world.ports.fleet.launch("another-group")

    def deny(call: Call) -> None:
        raise Misconfigured(f"{call.name}: AccessDenied")

    inventory.seam.before = deny
    add = ("node", "add", "--cluster", CLUSTER, "--node", "n-2", "--instance-id", instance)
    ran = desk(*add)
    assert ran.code != 0
    assert "the roles of the instances are unknown" in ran.err
    assert "cluster set --node-role" in ran.err
    assert [one["node"] for one in desk.json("node", "list", "--cluster", CLUSTER)] == [NODE]
    wire_registration(desk.world.app).set_cluster(CLUSTER, {"node_roles": ("AROABYHAND000000",)})
    assert desk(*add).code == 0


def test_an_import_for_a_provider_without_inventory_needs_a_file(desk: Desk) -> None:
    ran = desk("node", "import", "--cluster", CLUSTER, "--group", "gpu-workers")
    assert (ran.code, "give a file" in ran.err) == (2, True)


def test_template_overrides_are_set_in_order_and_removed(desk: Desk) -> None:
    shown = desk.json("cluster", "template", CLUSTER, *TWO_TYPES, "--subnet", "subnet-0a1b2c3d")
    assert (shown["instance_types"], shown["subnets"]) == (["p5.48xlarge", "p5e.48xlarge"], ["subnet-0a1b2c3d"])
    assert desk.json("cluster", "template", CLUSTER, "--instance-type", "")["instance_types"] == []
    assert desk.json("cluster", "show", CLUSTER)["subnets"] == ["subnet-0a1b2c3d"]
    shown = desk.json("cluster", "template", CLUSTER, "--spares", "2", "--spare-group", "gpu-workers")
    assert (shown["spares"], shown["spare_group"], shown["pool"]) == (2, "gpu-workers", {})


def test_a_cluster_in_another_account_has_a_provider_role(desk: Desk) -> None:
    role = "arn:aws:iam::222233334444:role/faultbridge-provider"
    options = ["--provider-role", role, "--external-id", "agreed", "--eks-cluster", "train"]
    shown = desk.json("cluster", "set", CLUSTER, *options)
    assert (shown["provider_role"], shown["eks_cluster"]) == (role, "train")
    assert "agreed" not in desk("cluster", "show", CLUSTER, "--json").out


def test_expected_rates_of_ports_become_rows_of_the_mapping(desk: Desk) -> None:
    desk("mapping", "put", "-", given='{"link_rates": {"mlx5_*": 200}, "slurm": {}}')
    desk("cluster", "set", CLUSTER, "--link-rate", "mlx5_*=400", "--link-rate", "ens*=100")
    mappings = desk.json("mapping", "show")["mappings"]
    assert list(mappings["link_rates"].items()) == [
        (f"{CLUSTER}/mlx5_*", 400),
        (f"{CLUSTER}/ens*", 100),
        ("mlx5_*", 200),
    ]
    assert mappings["slurm"] == {}
    shown = desk.json("cluster", "set", CLUSTER, "--link-rate", "ens*=0")
    assert shown["link_rates"] == {f"{CLUSTER}/mlx5_*": 400, "mlx5_*": 200}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--external-id", "agreed"], "--external-id without --provider-role"),
        (["--provider-role", "faultbridge"], "invalid --provider-role"),
        (["--provider-role", "arn:aws:iam::222233334444:role/r", "--external-id", "x"], "2 to 1224"),
    ],
)
def test_an_invalid_provider_role_is_wrong_usage(desk: Desk, options: list[str], message: str) -> None:
    ran = desk("cluster", "set", CLUSTER, *options)
    assert (ran.code, message in " ".join(ran.err.split())) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no nodes in the file: -"),
        ("node,color\nn-1,red\n", "unknown column: color; allowed: node"),
    ],
)
def test_an_import_file_of_another_format_is_wrong_usage(desk: Desk, text: str, message: str) -> None:
    ran = desk("node", "import", "--cluster", CLUSTER, "-", given=text)
    assert ran.code == 2
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node,group\nn-1,gpu\nn-2,gpu,more\nn-3,gpu\n", "line 3: more fields than the heading line"),
        ('{"node": "n-1"}\n{nonsense\n{"node": "n-3"}\n', "line 2: not a JSON object"),
        ('{"node": "n-1"}\n{"instance_id": "i-1"}\n{"node": "n-3"}\n', "line 2: no node name; fill the field `node`"),
        ('{"node": "n-1"}\n{"node": 7}\n{"node": "n-3"}\n', "line 2: value is not text; aliases are a list"),
        ('{"node": "n-1"}\n{"node": "n-2", "color": "red"}\n{"node": "n-3"}\n', "line 2: unknown field: color"),
        ("\ufeffnode,group\nn-1,gpu\n,gpu\nn-3,gpu\n", "line 3: no node name; fill the field `node`"),
    ],
)
def test_an_invalid_line_does_not_stop_an_import(desk: Desk, text: str, reason: str) -> None:
    ran = desk("node", "import", "--cluster", CLUSTER, "-", "--json", given=text)
    assert ran.code == 1
    assert [one["outcome"] for one in ran.document] == ["registered", "refused", "registered"]
    assert ran.document[1]["reason"].startswith(reason)
    assert {"n-1", "n-3"} < {one["node"] for one in desk.json("node", "list", "--cluster", CLUSTER)}


def test_a_binary_import_file_is_refused_in_one_line(desk: Desk) -> None:
    ran = desk("node", "import", "--cluster", CLUSTER, "-", given=b"\x7fELF\xff\xfe\x00")
    assert (ran.code, len(ran.err.splitlines())) == (65, 1)
    assert "not a text file" in ran.err


def test_a_fatal_record_opens_a_case_that_every_view_shows(desk: Desk) -> None:
    assert send(desk)["accepted"] == 1
    desk.run_ingest()
    (node,) = desk.json("node", "list", "--cluster", CLUSTER)
    assert (node["status"], node["severity"], node["conditions"][0]["code"]) == ("degraded", "fatal", "xid.79")
    (case,) = desk.json("case", "list")
    assert (case["node"], case["code"], case["repair_action"]) == (NODE, "xid.79", "replace_node")
    shown = desk.json("case", "show", node["case"]["case_id"])
    assert shown["case_id"] == case["case_id"]
    assert shown["phases"]
    entries = desk.json("timeline", "--case", case["case_id"])
    assert "Case Status Change" in [one["metadata"]["event_type"] for one in entries]


def test_the_timeline_is_a_table_or_events(desk: Desk) -> None:
    send(desk)
    desk.run_ingest()
    ran = desk("timeline", "--cluster", CLUSTER, "--since", "1h")
    heading, *lines = ran.out.splitlines()
    assert heading.split() == ["TIME", "(UTC)", "NODE", "WHAT", "WHY"]
    assert any("fatal xid.79 (gpu.lost) gpu 0000:c1:00 detected" in line for line in lines)
    events = [json.loads(line) for line in desk("timeline", "--cluster", CLUSTER, "--jsonl").out.splitlines()]
    assert {"metadata", "data", "hash", "late"} == set(events[0])
    faults = desk.json("timeline", "--cluster", CLUSTER, "--type", "node-fault-detected", "--severity", "fatal")
    assert [one["data"]["code"] for one in faults] == ["xid.79"]


def test_the_timeline_of_a_cause_shows_causes_and_effects(desk: Desk) -> None:
    send(desk)
    desk.run_ingest()
    opened = next(one for one in desk.json("timeline", "--cluster", CLUSTER) if one["data"].get("opened_at"))
    event = opened["metadata"]["event_id"]
    links = desk.json("timeline", "--cause", event)
    assert [(one["relation"], one["distance"]) for one in links[:2]] == [("cause", 1), ("event", 0)]
    assert {one["relation"] for one in links[2:]} == {"effect"}
    assert links[0]["metadata"]["event_id"] == opened["metadata"]["causation_id"]
    ran = desk("timeline", "--cause", event)
    assert ran.out.splitlines()[0].split() == ["LINK", "TIME", "(UTC)", "NODE", "WHAT", "WHY"]
    assert f"the chain starts with the raw record {links[0]['metadata']['causation_id']}" in ran.err


@pytest.mark.parametrize("selection", [("--cluster", CLUSTER), ("--cluster", CLUSTER, "--node", NODE)])
def test_a_limited_timeline_shows_the_newest_entries_with_the_oldest_of_them_first(
    desk: Desk, selection: tuple[str, ...]
) -> None:
    send(desk)
    desk.run_ingest()
    everything = desk("timeline", *selection, "--json").document
    ran = desk("timeline", *selection, "--limit", "2", "--json")
    assert len(everything) > 2
    assert ran.document == everything[-2:]
    assert "the newest 2 entries are shown" in ran.err
    assert desk("timeline", *selection, "--limit", str(len(everything))).err == ""


def test_following_prints_each_entry_when_it_arrives(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = iter([True, False])

    def wait() -> bool:
        send_in_between()
        return next(rounds)

    def send_in_between() -> None:
        desk.world.ports.clock.advance(1)
        wire_ingest(desk.world.app).ingest([desk.world.message(XID_79)])

    monkeypatch.setattr("faultbridge.cli.commands.records.timeline.pause", wait)
    ran = desk("timeline", "--cluster", CLUSTER, "--follow", "--jsonl")
    types = [json.loads(line)["metadata"]["event_type"] for line in ran.out.splitlines()]
    assert types[0] == "Node Status Change"
    assert types.count("Node Fault Detected") == 1


def test_audit_fails_until_every_record_has_an_outcome(desk: Desk) -> None:
    for text in (XID_79, XID_79, "nothing of interest"):
        send(desk, text)
    missing = desk("audit", "--since", "1h")
    assert missing.code == 1
    assert "3 of 3 records have no outcome" in missing.err
    desk.run_ingest()
    found = desk.json("audit", "--since", "1h")
    assert (found["sent"], found["missing"], found["complete"]) == (3, 0, True)
    assert sum(found["outcomes"].values()) == 3


def test_audit_waits_for_outcomes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    send(desk)
    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", lambda _seconds: desk.run_ingest())
    assert desk.json("audit", "--since", "1h", "--wait", "5")["complete"]


def test_audit_names_the_first_missing_records_and_counts_the_others(desk: Desk) -> None:
    send(desk, "x" * 90 + "\n")
    for _ in range(25):
        send(desk, "a line\n")
    ran = desk("audit", "--since", "1h")
    assert "and 6 more" in ran.err


def test_a_rejected_record_is_listed_shown_and_retried(desk: Desk) -> None:
    send(desk, node="unregistered")
    send(desk, "<oops", source="nvidia-smi-xml")
    desk.run_ingest()
    by_reason = {one["reason"]: one for one in desk.json("reject", "list")}
    assert len(by_reason) == 2
    unregistered = by_reason["unknown_node"]["record_id"]
    shown = desk.json("reject", "show", unregistered)
    assert XID_79 in shown["text"]
    assert desk("reject", "show", unregistered, "--raw").out == XID_79
    desk.json("node", "add", "--cluster", CLUSTER, "--node", "unregistered", "--instance-id", "i-0123456789abcdef9")
    assert desk.json("reject", "retry", unregistered) == [{"record_id": unregistered, "outcome": "sent"}]
    desk.run_ingest()
    assert desk.json("node", "show", "unregistered", "--cluster", CLUSTER)["status"] == "degraded"
    assert [one["reason"] for one in desk.json("reject", "list")] == [r for r in by_reason if r != "unknown_node"]
    assert desk.json("audit", "--since", "1h")["outcomes"]["recorded"] == 1


def test_rejected_records_with_one_reason_are_retried_together(desk: Desk) -> None:
    for _ in range(3):
        send(desk, node="unregistered")
    send(desk, cluster="nowhere")
    desk.run_ingest()
    assert len(desk.json("reject", "list", "--cluster", "-")) == 1
    retried = desk.json("reject", "retry", "--all", "--cluster", CLUSTER, "--reason", "unknown_node")
    assert len(retried) == 3


def test_a_retry_that_the_queue_refuses_exits_with_75(desk: Desk) -> None:
    send(desk, node="unregistered")
    desk.run_ingest()
    desk.world.ports.seam.before = raise_once(("queue.send", Transient("down")))
    ran = desk("reject", "retry", "--all")
    assert ran.code == 75
    assert len(desk.json("reject", "list")) == 1


def test_a_retry_of_a_record_whose_bytes_are_gone_is_not_said_to_be_temporary(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        send(desk, node="unregistered")
    desk.run_ingest()
    record = desk.json("reject", "list")[0]["record_id"]
    monkeypatch.setattr(Rejects, "raw", lambda _rejects, _reject: None)
    ran = desk("reject", "retry", record)
    assert (ran.code, ran.out, "(send the record again from its source)" in ran.err) == (2, "", True)
    ran = desk("reject", "retry", "--all", "--json")
    assert (ran.code, ["no longer exist" in one["outcome"] for one in ran.document]) == (1, [True, True])


def test_the_bytes_of_a_record_are_not_printed_to_a_terminal(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    send(desk, node="unregistered")
    desk.run_ingest()
    record = desk.json("reject", "list")[0]["record_id"]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    ran = desk("reject", "show", record, "--raw")
    assert (ran.code, ran.out, "redirect it to a file" in ran.err) == (2, "", True)


def test_a_console_on_a_port_in_use_names_the_port(desk: Desk) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        ran = desk("console", "--port", str(port))
    assert ran.code == 2
    assert f"cannot listen on port {port}: " in ran.err
    assert "choose another --port" in ran.err


def test_verify_names_the_first_break(desk: Desk) -> None:
    send(desk)
    desk.run_ingest()
    good = desk.json("verify", "--cluster", CLUSTER)
    assert good["whole"]
    assert good["entries"] > 3
    desk.world.ports.table.write(Delete(keys.entry(keys.node_partition(KEY), 1, 2)))
    bad = desk("verify", "--cluster", CLUSTER, "--json")
    assert bad.code == 1
    assert "is broken at entry 1/2" in bad.err
    assert bad.document["breaks"][0]["kind"] == "gap"


def test_a_published_policy_is_shown_in_its_file_format(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n- name: all\n  repair_actions: []\nlimits:\n  drain_deadline: 10m\n", encoding="utf-8")
    version = desk.json("policy", "put", str(file), "--yes")["version"]
    shown = desk("policy", "show")
    assert shown.out == f"# policy {version}\n{file.read_text(encoding='utf-8')}"
    assert desk.json("policy", "show", version)["limits"] == {"drain_deadline": 600}


def test_an_invalid_policy_is_rejected_and_the_current_one_stays(desk: Desk) -> None:
    before = desk.json("policy", "show")
    ran = desk("policy", "put", "-", "--json", given="rules: [{name: a, severity: fatl}]")
    assert ran.code == 1
    assert ran.document[0]["rule"] == "a (number 1)"
    assert ran.document[0]["field"] == "severity"
    assert desk.json("policy", "show") == before


def test_a_policy_is_checked_offline(desk: Desk) -> None:
    good = desk("policy", "check", "-", given="rules: [{name: a, match: {codes: [xid.79, xid.999]}}]")
    assert good.code == 0
    assert "no code of the catalog matches xid.999" in good.err
    assert desk("policy", "check", "-", given="rules: [").code == 65


def test_a_record_that_the_queue_refuses_exits_with_75(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.world.ports.queue, "send", lambda messages: tuple(body for _, body in messages))
    ran = desk("send", "--source", "kernel-log", "--cluster", CLUSTER, "--json", given="x\n")
    assert ran.code == 75
    assert ran.document["refused"] == 1


def test_a_missing_receipt_prints_a_notice(desk: Desk) -> None:
    desk.receipts.seam.before = raise_once(("receipts.write", Transient("throttled")))
    ran = desk("send", "--source", "kernel-log", "--cluster", CLUSTER, given="x\n")
    assert ran.code == 0
    assert "receipts not written" in ran.err


TWO_TYPES = ("--instance-type", "p5.48xlarge", "--instance-type", "p5e.48xlarge")
WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (("cluster", "add", "a#b"), 2, "invalid name"),
    (("cluster", "add", CLUSTER), 2, "is registered already"),
    (("cluster", "add", "x", "--provider", "magic"), 2, "unknown --provider: 'magic'; allowed: ec2-auto-scaling"),
    (("cluster", "set", CLUSTER), 2, "no setting given"),
    (("cluster", "set", CLUSTER, "--mode", "fast"), 2, "mode"),
    (("cluster", "set", CLUSTER, "--link-rate", "400"), 2, "give PORT=GBPS"),
    (("cluster", "set", CLUSTER, "--slurm-rest", "http://x"), 2, "invalid value: 'http://x'"),
    (("cluster", "template", CLUSTER), 2, "no setting given"),
    (("cluster", "template", CLUSTER, "--instance-type", "t3.micro"), 2, "without known GPUs"),
    (("cluster", "template", CLUSTER, *TWO_TYPES, "--instance-type", "p5.4xlarge"), 2, "different GPU counts"),
    (("cluster", "template", CLUSTER, "--subnet", "vpc-1"), 2, "invalid --subnet"),
    (("cluster", "template", CLUSTER, "--spares", "2"), 2, "without --spare-group"),
    (("node", "import", "--cluster", CLUSTER), 2, "give one of FILE and --group"),
    (("cluster", "add", "hp", "--provider", "hyperpod"), 2, "without --hyperpod-cluster"),
    (("timeline", "--node", "n-1"), 2, "the query selects no timeline"),
    (("timeline", "--cluster", CLUSTER, "--since", "soon"), 2, "not a time"),
    (("timeline", "--cause", "e-1", "--case", "c-1"), 2, "--cause with other filters; give one of them"),
    (("timeline", "--cause", "e-1", "--limit", "5"), 2, "conflicting options: --cause with --limit"),
    (("timeline", "--cause", "e-1", "--wait", "5"), 2, "conflicting options: --cause with --wait"),
    (("timeline", "--cluster", CLUSTER, "--follow", "--limit", "5"), 2, "conflicting options: --follow with --limit"),
    (("timeline", "--cluster", CLUSTER, "--follow", "--archive", "."), 2, "options: --follow with --archive"),
    (("timeline", "--cluster", CLUSTER, "--follow", "--json"), 2, "--follow with --json; give --jsonl"),
    (("case", "watch", "c-none", "--json"), 2, "case watch with --json; give --jsonl"),
    (("timeline", "--cluster", CLUSTER, "--type", "Gossip"), 2, "unknown --type"),
    (("audit", "--since", "x"), 2, "not a time"),
    (("reject", "retry"), 2, "give one of ID and --all"),
    (("policy", "check", "no-such-file.yaml"), 2, "no-such-file.yaml"),
    (("send", "--source", "gossip", "--cluster", CLUSTER), 2, "unknown source: 'gossip'"),
    (("send", "--source", "kernel-log", "--cluster", CLUSTER), 65, "empty input: standard input"),
    (("send", "--source", "kernel-log", "--cluster", "a#b"), 2, "invalid name"),
    (("send", "--source", "kernel-log", "--cluster", CLUSTER, "no-such-file"), 2, "no-such-file"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG)
def test_every_error_is_one_line_and_an_exit_code(
    desk: Desk, arguments: tuple[str, ...], code: int, message: str
) -> None:
    given = "text\n" if "a#b" in arguments else ""
    ran = desk(*arguments, given=given)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.startswith("faultbridge: ")
    assert len(ran.err.splitlines()) == 1


def test_a_table_that_is_down_exits_with_75(desk: Desk) -> None:
    def down(_call: object) -> None:
        raise Transient("throttled")

    desk.world.ports.seam.before = down
    ran = desk("node", "list", "--cluster", CLUSTER)
    assert (ran.code, ran.err) == (75, "faultbridge: throttled (try again later)\n")


def test_redrive_moves_each_dead_letter_to_its_own_queue(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = desk.world.ports.clock
    dead, dead_events, events = FakeQueue(clock), FakeQueue(clock), FakeQueue(clock)
    dead.send([("train-a/n-1", "an unreadable record")])
    dead_events.send([("-", '{"detail-type": "AWS Health Event"}')])
    monkeypatch.setattr(Session, "dead_letters", property(lambda _session: dead))
    monkeypatch.setattr(Session, "cloud_events", property(lambda _session: (dead_events, events)))
    assert desk.json("redrive") == {"moved": 2, "raw_records": 1, "cloud_events": 1}
    assert [one.body for one in events.messages] == ['{"detail-type": "AWS Health Event"}']
    assert [one.body for one in desk.world.ports.queue.messages] == ["an unreadable record"]


def test_published_mappings_are_shown_in_their_file_format(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    limits = {"rdma-counters": {"symbol_error": {"limit": 20, "seconds": None}}}
    mappings = {"alerts": {"node_labels": ["rack_host"]}, "thresholds": limits}
    file.write_text(json.dumps(mappings), encoding="utf-8")
    version = desk.json("mapping", "put", str(file))["version"]
    assert json.loads(desk("mapping", "show").out) == mappings
    assert desk.json("mapping", "show") == {"version": version, "mappings": mappings}


def test_invalid_mappings_are_rejected_and_the_current_ones_stay(desk: Desk) -> None:
    ran = desk("mapping", "put", "-", given='{"alerts": {"rules": [{"alert": "(a+)+"}]}}')
    assert (ran.code, "without a time bound" in ran.err) == (1, True)
    assert desk.json("mapping", "show") == {"version": None, "mappings": {}}


def test_a_node_is_ignored_until_the_end_is_ordered(desk: Desk) -> None:
    kept = desk.json("node", "ignore", NODE, "--cluster", CLUSTER, "--until", "4h", "--reason", "an experiment")
    assert (kept["ignored"]["by"], kept["ignored"]["reason"]) == (OPERATOR, "an experiment")
    assert desk.json("node", "ignore", NODE, "--cluster", CLUSTER, "--end")["ignored"] is None
    assert desk("node", "ignore", NODE, "--cluster", CLUSTER, "--until", "2020-01-01T00:00Z").code == 2


def test_maintenance_of_a_cluster_starts_and_ends(desk: Desk) -> None:
    shown = desk.json("cluster", "maintain", CLUSTER, "--until", "2h")
    assert shown["maintenance_until"] == "2026-02-03T14:00:00.000Z"
    assert "2026-02-03 14:00:00" in desk("cluster", "show", CLUSTER).out
    ended = desk.json("cluster", "maintain", CLUSTER, "--end")
    assert desk("cluster", "maintain", CLUSTER).code == 2
    assert ended["maintenance_until"] is None
