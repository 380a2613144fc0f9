"""What commands print for people: changes instead of everything, one row for many registrations, counts of lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.cli.commands.records.timeline import Registrations, compact
from faultbridge.repair.registry.documents import Entry
from faultbridge.serve.entrypoints.react import wire_react
from tests.builders import KEY
from tests.cli.desk import Desk
from tests.cli.orders import case_for_approval
from tests.world import XID_79

CLUSTER, NODE = KEY
XID_999 = "kernel: NVRM: Xid (PCI:0000:c1:00): 999, pid=1, a message of a new driver\n"
NO_FAULT = "kernel: docker0: port 1(veth1) entered forwarding state\n"
RING_LINE = "[    1.000000] docker0: port 1(veth1) entered forwarding state\n"
GPUS_WITH_FAULTS = (
    '<?xml version="1.0" ?>\n<nvidia_smi_log><timestamp>Tue Feb  3 12:00:00 2026</timestamp>'
    + "".join(
        f'<gpu id="00000000:C{number}:00.0"><remapped_rows><remapped_row_failure>Yes</remapped_row_failure>'
        "</remapped_rows></gpu>"
        for number in range(4)
    )
    + "</nvidia_smi_log>\n"
)


def test_set_prints_what_changed(desk: Desk) -> None:
    ran = desk("cluster", "set", CLUSTER, "--mode", "dry_run", "--trusted-sender", "AROAEXAMPLE:*")
    assert [line.split() for line in ran.out.splitlines()] == [
        ["SETTING", "BEFORE", "NOW"],
        ["mode", "act", "dry_run"],
        ["trusted", "senders", "-", "AROAEXAMPLE:*"],
    ]
    again = desk("cluster", "set", CLUSTER, "--mode", "dry_run")
    assert (again.code, again.out) == (0, "")
    assert f"no setting of {CLUSTER} changed" in again.err
    domains = desk("cluster", "set", CLUSTER, "--domain", "rack/r-1=gpu-[1-4]").out
    assert "rack/r-1=gpu-[1-4]" in domains
    assert desk.json("cluster", "set", CLUSTER, "--mode", "act")["orchestrator"]


def test_a_maintenance_that_ended_has_no_time(desk: Desk) -> None:
    started = desk("cluster", "maintain", CLUSTER, "--until", "2h").out
    assert started.splitlines()[1].split("  ")[-1].strip() == "2026-02-03 14:00:00 UTC"
    ended = desk("cluster", "maintain", CLUSTER, "--end")
    assert ended.out.splitlines()[1].split()[-1] == "-"
    assert "no maintenance" in ended.err
    assert "Maintenance until  -\n" in desk("cluster", "show", CLUSTER).out


def test_a_maintenance_whose_time_passed_is_shown_as_over(desk: Desk) -> None:
    desk.json("cluster", "maintain", CLUSTER, "--until", "2h")
    desk.world.ports.clock.advance(2 * 3600 + 1)
    assert "Maintenance until  2026-02-03 14:00:00 UTC (over)\n" in desk("cluster", "show", CLUSTER).out


@pytest.mark.parametrize("body", [b"\x7fELF\x02\x01\x01\x00\x00\x00" * 90, b"\x28\xb5\x2f\xfd" + bytes(range(32)) * 90])
def test_a_binary_input_is_not_sent(desk: Desk, tmp_path: Path, body: bytes) -> None:
    (file := tmp_path / "kern.log").write_bytes(body)
    send = ("send", "--source", "kernel-log", "--cluster", CLUSTER, "--node", NODE)
    for ran, named in ((desk(*send, str(file)), str(file)), (desk(*send, given=body), "standard input")):
        assert (ran.code, ran.out) == (65, "")
        assert f"not a text file: {named}" in ran.err
    assert desk.world.ports.queue.depth().waiting == 0


def test_a_log_with_the_nul_bytes_of_a_crash_is_sent(desk: Desk) -> None:
    body = b"\0" * 5000 + XID_79.encode()
    assert (
        desk.json("send", "--source", "kernel-log", "--cluster", CLUSTER, "--node", NODE, given=body)["accepted"] == 1
    )


def test_the_time_of_a_case_is_labeled_as_a_duration(desk: Desk) -> None:
    desk.json("node", "quarantine", NODE, "--cluster", CLUSTER)
    heading = desk("case", "list", "--wide").out.splitlines()[0]
    assert "DURATION" in heading
    assert " AGE" not in heading
    (case,) = desk.json("case", "list")
    shown = desk("case", "show", case["case_id"]).out
    assert "\nDuration " in shown
    assert "\nAge " not in shown


def test_a_quarantine_shows_no_repair_until_one_is_ordered(desk: Desk) -> None:
    desk.json("node", "quarantine", NODE, "--cluster", CLUSTER)
    (case,) = desk.json("case", "list")
    assert "replace_node" not in desk("case", "list", "--wide").out
    assert "contact_support, attempt 0" in desk("case", "show", case["case_id"]).out
    desk.json("node", "return", NODE, "--cluster", CLUSTER)
    assert "verify" in desk("case", "list", "--wide").out


def test_decode_counts_the_lines_that_it_ignores(desk: Desk) -> None:
    ran = desk("decode", "--source", "kernel-log", given=NO_FAULT * 3 + XID_79)
    assert "lines read: 4; faults and clears: 1; other lines are ignored" in ran.err
    assert "ignored" not in desk("decode", "--source", "kernel-log", given=XID_79).err
    assert desk("decode", "--source", "kernel-log", "--jsonl", given=NO_FAULT + XID_79).err == ""


def test_decode_compares_the_lines_of_logs_only_with_the_faults_in_logs(desk: Desk, tmp_path: Path) -> None:
    log, document = tmp_path / "kern.log", tmp_path / "gpus.xml"
    log.write_text(NO_FAULT * 3 + XID_79, encoding="utf-8")
    document.write_text(GPUS_WITH_FAULTS, encoding="utf-8")
    ran = desk("decode", str(log), str(document))
    assert ran.out.count("smi.row_remap_failure") == 4
    assert "lines read: 4; faults and clears: 1; other lines are ignored" in ran.err


def test_decode_of_a_capture_counts_only_the_lines_of_its_logs(desk: Desk) -> None:
    unknown = "".join(f"$ tool-{number}\n???\n" for number in range(4))
    log = f"{RING_LINE * 3}[    2.000000] NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus.\n"
    capture = f"$ dmesg\n{log}$ nvidia-smi -q -x\n{GPUS_WITH_FAULTS}{unknown}"
    ran = desk("decode", given=capture)
    assert "lines read: 4; faults and clears: 1; other lines are ignored" in ran.err


def test_decode_names_a_code_that_the_catalog_does_not_have(desk: Desk) -> None:
    ran = desk("decode", "--source", "kernel-log", given=XID_999 * 2 + XID_79)
    assert ran.err.count("code not in the catalog: xid.999; a fault of it gets the default severity and action") == 1
    assert [one["known"] for one in desk.json("decode", "--source", "kernel-log", given=XID_999 + XID_79)] == [
        False,
        True,
    ]


def test_a_timeline_shows_many_registrations_in_one_row_and_loses_none(desk: Desk) -> None:
    desk.json("cluster", "add", "lab")
    for number in range(1, 5):
        node = f"gpu-{number}"
        desk.json("node", "add", "--cluster", "lab", "--node", node, "--instance-id", f"i-0123456789abcde0{number}")
        wire_react(desk.world.app).run([("lab", node)])
    ran = desk("timeline", "--cluster", "lab")
    rows = [line for line in ran.out.splitlines() if "never verified" in line]
    assert len(rows) == 1
    assert "gpu-1 +3" in rows[0]
    assert "4 nodes new -> healthy (never verified)" in rows[0]
    assert "4 healthy" in ran.out
    assert "--wide prints each" in ran.err
    entries = desk.json("timeline", "--cluster", "lab")
    wide = desk("timeline", "--cluster", "lab", "--wide")
    assert len(wide.out.splitlines()) == len(entries) + 1
    assert sum("never verified" in line for line in wide.out.splitlines()) == 4
    assert "rows" not in wide.err


def test_a_fault_between_registrations_stays_in_its_place(desk: Desk) -> None:
    desk.json("cluster", "add", "lab")
    for number in range(1, 5):
        node = f"gpu-{number}"
        desk.json("node", "add", "--cluster", "lab", "--node", node, "--instance-id", f"i-0123456789abcde0{number}")
        desk.world.ports.clock.advance(1)
        if number == 2:
            desk.json("send", "--source", "kernel-log", "--cluster", "lab", "--node", "gpu-1", given=XID_79)
            desk.run_ingest()
            desk.world.ports.clock.advance(1)
    rows = desk("timeline", "--cluster", "lab").out.splitlines()[1:]
    assert "gpu-1 +1" in rows[0]
    assert "gpu-3 +1" in rows[-1]
    assert "xid.79 (gpu.lost) gpu 0000:c1:00 detected" in rows[1]
    assert "+1" not in "".join(rows[1:-1])


def test_a_condition_of_the_provider_between_registrations_stays_visible() -> None:
    def entry(kind: str, **data: object) -> Entry:
        metadata = {"event_type": kind, "cluster": "lab", "node": data.pop("node", None), "recorded_at": "x"}
        return Entry(metadata=metadata, data=data, hash="", late=False)

    def joined(node: str) -> Entry:
        return entry("Node Status Change", node=node, **{"from": None, "to": "healthy", "reason": ""})

    same = {"from": "recovering", "to": "recovering", "reason": ""}
    begun = entry("Cluster Status Change", **same, provider_stage="begun")
    count = entry("Cluster Status Change", **same)
    shown = list(compact([joined("a"), count, begun, count, joined("b"), joined("c")]))
    assert begun in shown
    assert [one.nodes for one in shown if isinstance(one, Registrations)] == [("b", "c")]


def test_a_new_cluster_and_a_new_node_are_printed_without_empty_values(desk: Desk) -> None:
    for ran in (
        desk("cluster", "add", "lab"),
        desk("node", "add", "--cluster", "lab", "--node", "n-1", "--group", "g"),
    ):
        assert ran.code == 0
        assert [line for line in ran.out.splitlines() if line.endswith(" -")] == []
    assert "Group " in desk("node", "add", "--cluster", "lab", "--node", "n-1").out


def test_the_action_of_a_case_names_the_repair_action_only_where_they_differ(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert "replace_node, attempt 0" in desk("case", "show", case).out
    desk.json("case", "deny", case)
    desk.json("node", "return", NODE, "--cluster", CLUSTER)
    assert "replace_node, now verify, attempt 1" in desk("case", "show", case).out
