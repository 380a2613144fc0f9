"""Commands without a stack: decode, sources, catalog, agent settings and mapping check."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.decode import registry
from tests.cli.desk import Ran

SAMPLES = Path(__file__).parents[1] / "decoders" / "samples"
AT = "2026-02-03T12:00:00Z"
XID = "[ 8123.6] NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
FIELDS = {
    "kind", "source", "code", "failure_mode", "severity", "action", "component", "observed_at", "node", "cluster",
    "message", "evidence", "attributes", "catalog", "record_id", "instance_id", "boot_id",
}  # fmt: skip


Call = Callable[..., Ran]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    def called(*arguments: str, text: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        code = run(arguments)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return called


def test_a_fault_has_the_fields_that_scripts_depend_on(call: Call) -> None:
    ran = call("decode", "--source", "kernel-log", "--cluster", "train-a", "--node", "ip-10-0-0-7",
               "--received-at", AT, "--jsonl", text=XID.encode())  # fmt: skip
    (fault,) = ran.lines
    assert (ran.code, ran.err) == (0, "")
    assert fault.keys() >= FIELDS
    assert fault | {"evidence": "", "count": 1} == {
        "kind": "fault", "source": "kernel-log", "code": "xid.79", "severity": "fatal", "action": "replace_node",
        "failure_mode": "gpu.lost",
        "component": {"type": "gpu", "pci": "0000:c1:00"} | dict.fromkeys(("uuid", "index", "serial", "link", "name")),
        "observed_at": "2026-02-03T12:00:00.000Z", "node": "ip-10-0-0-7", "cluster": "train-a",
        "message": "GPU has fallen off the bus.", "evidence": "", "count": 1,
        "attributes": {"pid": "1234", "process": "python", "uptime": "8123.6", "time_source": "received"},
        "catalog": "2026.2", "known": True, "record_id": None, "instance_id": None, "boot_id": None,
    }  # fmt: skip


@pytest.mark.parametrize("source", [(), ("--source", "kernel-log")])
def test_a_compressed_log_of_any_length_is_decoded(call: Call, source: tuple[str, ...]) -> None:
    log = XID + "".join(f"[ {8200 + n}.5] audit: type=1400 audit({n}): x\n" for n in range(9000)) + XID
    ran = call("decode", *source, "--jsonl", text=gzip.compress(log.encode()))
    assert [fault["code"] for fault in ran.lines] == ["xid.79", "xid.79"]


def test_a_node_name_in_the_input_overrides_the_option(call: Call) -> None:
    line = f"Feb  3 04:05:06 ip-10-0-0-9 kernel: {XID}".encode()
    (fault,) = call("decode", "--node", "claimed", "--received-at", AT, "--jsonl", text=line).lines
    assert (fault["node"], fault["observed_at"]) == ("ip-10-0-0-9", "2026-02-03T04:05:06.000Z")


def test_a_clear_has_neither_severity_nor_action(call: Call) -> None:
    lines = call("decode", "--jsonl", str(SAMPLES / "kernel-nvlink5.log")).lines
    assert [(one["kind"], one["severity"]) for one in lines][-1] == ("clear", None)


def test_an_instance_id_in_the_input_has_its_own_field(call: Call) -> None:
    body = {"logStream": "SagemakerHealthMonitoringAgent/g/i-0123456789abcdef0", "logEvents": [
        {"message": '{"msg":"DCGM Policy Violation found ","data: ":{"ErrNum":79},'
                    '"HealthMonitoringAgentDetectionEvent":"HealthEvent"}'}]}  # fmt: skip
    (fault,) = call("decode", "--source", "hyperpod-agent-log", "--jsonl", text=json.dumps(body).encode()).lines
    assert fault["instance_id"] == "i-0123456789abcdef0"
    assert "instance_id" not in fault["attributes"]


def test_json_is_one_array_and_jsonl_one_object_per_line(call: Call) -> None:
    file = str(SAMPLES / "kernel-printk.log")
    arguments = ("--received-at", AT, file)
    assert json.loads(call("decode", "--json", *arguments).out) == call("decode", "--jsonl", *arguments).lines


def test_the_default_output_is_an_aligned_table(call: Call) -> None:
    head, *rows = call("decode", "--received-at", AT, str(SAMPLES / "kernel-printk.log")).out.splitlines()
    assert head.split() == ["TIME", "(UTC)", "WHAT", "SEVERITY", "ACTION", "MESSAGE", "NODE", "FAILURE", "MODE"]
    place = head.index("WHAT")
    assert [row[place:].split()[0] for row in rows] == ["xid.79", "sxid.20034", "sxid.22013", "sxid.20034"]


def test_auto_prints_the_recognized_source(call: Call) -> None:
    ran = call("decode", "-", text=XID.encode())
    assert ran.err == "faultbridge: recognized standard input as kernel-log\n"


@pytest.mark.parametrize("lines", [300, 3000, 40_000])
def test_auto_finds_a_kernel_log_behind_a_head_of_no_format_and_refuses_a_text_without_one(
    call: Call, lines: int
) -> None:
    head = "".join(f"step {n}: fetched the layer of an image, 12 of 13 done\n" for n in range(lines))
    ran = call("decode", "--jsonl", "-", text=f"{head}{XID}\n{head}".encode())
    assert [line["code"] for line in ran.lines] == ["xid.79"]
    assert "recognized standard input as kernel-log\n" in ran.err
    refused = call("decode", "--jsonl", "-", text=head.encode())
    assert (refused.code, refused.out) == (65, "")


def test_a_capture_of_several_commands_is_read_output_by_output(call: Call) -> None:
    lost = "0000:c2:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)\n"
    capture = f"$ uptime\n up 12 days\n$ dmesg\n{XID}\n$ lspci\n{lost}"
    ran = call("decode", "--jsonl", "-", text=capture.encode())
    assert [line["code"] for line in ran.lines] == ["xid.79", "host.pci_device_unreadable"]
    assert "as the outputs of several commands: kernel-log, pci-devices\n" in ran.err
    assert "`uptime` was not read: " in ran.err


def test_a_log_with_a_heading_may_be_longer_than_a_body_that_is_read_at_once(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_BYTES", 200_000)
    log = f"{XID}\n=== Status ===\n" + "[ 2.0] eth0: up\n" * 30_000 + f"{XID.replace('79', '48')}\n"
    ran = call("decode", "--jsonl", "-", text=log.encode())
    assert (ran.code, [line["code"] for line in ran.lines]) == (0, ["xid.79", "xid.48"])


def test_a_system_log_in_which_a_program_reports_the_gpu_too_is_a_kernel_log(call: Call) -> None:
    prefix = "2026-10-09T22:18:07+0000 gpu-1"
    program = f"{prefix} slurmstepd[7]: [rank6]: CUDA error: uncorrectable ECC error encountered\n"
    log = f"{prefix} kernel: NVRM: Xid (PCI:0000:a0:1d): 94, pid=7, name=python3, Contained: CE\n{program}"
    ran = call("decode", "--jsonl", "-", text=log.encode())
    assert ran.code == 0
    assert "xid.94" in [line["code"] for line in ran.lines]
    assert "recognized standard input as training-log\n" in call("decode", "-", text=program.encode()).err


def test_what_was_not_understood_is_a_warning_and_a_summary(call: Call) -> None:
    result = call(
        "decode", "--all", "--jsonl", "--source", "kernel-log", text=b"[ 1.0] NVRM: Xid (PCI:0000:c1:00): abc"
    )
    assert [(one["kind"], one["parsed"], one["unparsed"]) for one in result.lines] == [("summary", 0, 1)]
    assert "not understood" in result.err
    assert "no faults found" not in call("decode", "--source", "kernel-log", text=b"[ 1.0] NVRM: Xid (PCI:): x").err


def test_health_snapshots_and_counter_samples_are_printed_with_all(call: Call) -> None:
    file = str(SAMPLES / "dcgm-metrics.prom")
    kinds = [one["kind"] for one in call("decode", "--all", "--jsonl", file).lines]
    assert kinds == ["fault", "fault", "fault", "snapshot", "counter_sample", "counter_sample"]
    assert "snapshot" not in {one["kind"] for one in call("decode", "--jsonl", file).lines}
    assert "covers 3 codes, 3 present" in call("decode", "--all", file).out


def test_a_file_that_cannot_be_read_does_not_stop_the_others(call: Call) -> None:
    ran = call("decode", "--jsonl", "no.log", str(SAMPLES / "kernel-printk.log"), "other.log")
    assert (ran.code, len(ran.lines)) == (2, 4)
    assert "faultbridge: No such file or directory: no.log\n" in ran.err
    assert "faultbridge: No such file or directory: other.log (check the path)\n" in ran.err


@pytest.mark.parametrize("command", [("decode",), ("explain", str(SAMPLES / "kernel-printk.log"))])
@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"{", 2, "invalid --mappings: "),
        (b'{"nothing": {}}', 2, "unknown mapping: 'nothing'"),
        (b'{"alerts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 2, "invalid JSON in the mappings"),
        (b"\x7fELF\xff\xfe\x00", 65, "not a text file"),
    ],
)
def test_an_invalid_mappings_file_is_named_in_one_line(
    call: Call, tmp_path: Path, command: tuple[str, ...], body: bytes, code: int, message: str
) -> None:
    own = tmp_path / "own.json"
    own.write_bytes(body)
    ran = call(*command, "--mappings", str(own), text=XID.encode())
    assert (ran.code, ran.out, ran.err.count("\n")) == (code, "", 1)
    assert message in ran.err
    assert str(own) in ran.err


def test_two_counter_samples_in_two_files_give_their_difference(call: Call, tmp_path: Path) -> None:
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("ens5\nNIC statistics:\n     tx_timeout: 1\n", "utf-8")
    second.write_text("ens5\nNIC statistics:\n     tx_timeout: 2\n", "utf-8")
    found = call("decode", "--source", "ethtool-stats", "--jsonl", str(first), str(second)).lines
    assert [(one["code"], one["component"]["name"]) for one in found] == [("net.device_hang", "ens5")]
    assert call("decode", "--source", "ethtool-stats", "--jsonl", str(second), str(first)).lines == []
    joined = (first.read_text("utf-8") + second.read_text("utf-8")).encode()
    assert [one["code"] for one in call("decode", "--source", "ethtool-stats", "--jsonl", text=joined).lines] == [
        "net.device_hang"
    ]
    twice = joined.replace(b"ens5\n", b"")
    assert [one["code"] for one in call("decode", "--source", "ethtool-stats", "--jsonl", text=twice).lines] == [
        "net.device_hang"
    ]


def test_two_counter_samples_in_one_input_give_their_difference(call: Call) -> None:
    series = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0a",Hostname="n"} '
    (fault,) = call("decode", "--jsonl", text=f"{series}0\n{series}79\n".encode()).lines
    assert (fault["code"], fault["component"]["uuid"]) == ("xid.79", "GPU-0a")


@pytest.mark.parametrize("name", ["kernel-healthy.log", "dcgm-health-healthy.json"])
@pytest.mark.parametrize("form", ["--jsonl", "--json", None])
def test_valid_input_without_faults_is_empty_output_and_exit_code_0(call: Call, name: str, form: str | None) -> None:
    ran = call("decode", *filter(None, [form]), str(SAMPLES / name))
    assert ran.code == 0
    assert ran.out.strip() == ("[]" if form == "--json" else "")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("auto", b""),
        ("auto", b"words"),
        ("auto", b"\x00\x01"),
        ("auto", b"[ 1.0] NVRM: x\nDCGM_FI_DEV_GPU_TEMP{} 3\n"),
        ("kernel-log", b"words"),
        ("nvidia-smi-xml", b"<nvidia_smi_log><gpu>"),
        ("nvidia-smi-xml", b'<!DOCTYPE a [<!ENTITY b "c">]><nvidia_smi_log/>'),
        ("dcgm-diag", b'{"wrong": "shape"}'),
    ],
)
def test_input_that_cannot_be_decoded_is_one_line_and_exit_code_65(call: Call, source: str, text: bytes) -> None:
    ran = call("decode", "--source", source, text=text)
    assert (ran.code, ran.out) == (65, "")
    assert ran.err.startswith("faultbridge: ")
    assert ran.err.endswith(")\n")
    assert ran.err.count("\n") == 1


def test_an_unreadable_file_does_not_stop_the_others(call: Call, tmp_path: Path) -> None:
    bad = tmp_path / "bad.log"
    bad.write_text("nothing of a kernel")
    ran = call("decode", "--source", "kernel-log", "--jsonl", str(bad), str(SAMPLES / "kernel-printk.log"))
    assert ran.code == 65
    assert len(ran.lines) == 4
    assert str(bad) in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("decode", "--source", "crystal-ball"),
        ("decode", "--json", "--jsonl"),
        ("decode", "--received-at", "yesterday"),
        ("decode", "--received-at", "2026-02-03T04:05:06"),
        ("decode", "--no-such-option"),
        ("decode", "/no/such/file"),
        ("decode", "/"),
        ("no-such-command",),
        ("catalog", "nonsense"),
        ("catalog", "xid", "seventy-nine"),
        ("catalog", "ouija", "79"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(call: Call, arguments: tuple[str, ...]) -> None:
    ran = call(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("faultbridge: ")
    assert ran.err.count("\n") == 1


def test_sources_lists_every_source_with_a_decodable_example(call: Call) -> None:
    listed = call("sources", "--jsonl").lines
    assert [one["source"] for one in listed] == list(registry.names())
    for one in listed:
        assert call("decode", "--source", one["source"], text=one["example"].encode()).code == 0
    assert call("sources").out.startswith("SOURCE")


def test_catalog_shows_public_recommendations_and_our_reason(call: Call) -> None:
    row = json.loads(call("catalog", "xid", "79", "--json").out)
    assert (row["severity"], row["action"], row["conflict"]) == ("fatal", "replace_node", True)
    assert {"source": "NVIDIA", "says": "RESTART_BM"} in row["recommendations"]
    table = call("catalog", "xid", "79").out
    assert "NVIDIA: RESTART_BM" in table
    assert row["reason"] in table


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("sxid", "20034"), "sxid.20034"),
        (("dcgm", "45"), "dcgm.pcie_generation"),
        (("dcgm", "persistence_mode"), "dcgm.persistence_mode"),
        (("smi.gpu_lost",), "smi.gpu_lost"),
        (("xid", "0079"), "xid.79"),
        (("XID.79",), "xid.79"),
        (("SXid", "20034"), "sxid.20034"),
        (("xid.145:rlw_remap:0X00000040",), "xid.145:RLW_REMAP:0x00000040"),
    ],
)
def test_catalog_finds_a_code_by_number_or_name(call: Call, arguments: tuple[str, ...], code: str) -> None:
    row = json.loads(call("catalog", *arguments, "--jsonl").out)
    assert (row["code"], row["known"]) == (code, True)


def test_catalog_shows_the_default_decision_for_an_unknown_code(call: Call) -> None:
    ran = call("catalog", "xid", "4242", "--json")
    row = json.loads(ran.out)
    assert ran.code == 1
    assert "code not in the catalog: xid.4242" in ran.err
    assert (row["known"], row["severity"], row["action"]) == (False, "warning", "contact_support")
    assert row["failure_mode"] == "unclassified.xid.4242"


def test_catalog_explains_a_failure_mode_with_its_codes_and_those_that_judge_for_themselves(call: Call) -> None:
    mode = json.loads(call("catalog", "mode", "gpu.reset_required", "--json").out)
    assert (mode["work"], mode["severity"], mode["action"]) == ("at_risk", "error", "reset_gpu")
    assert {"xid.154", "xid.154:0x1", "smi.recovery_action"} <= set(mode["codes"])
    own = {one["code"]: one["work"] for one in mode["own"]}
    assert (own["xid.154:0x1"], own["xid.154:0x2"]) == ("device", "node")
    assert "gpu.ecc_uncorrectable" in call("catalog", "mode", "gpu.lost").out + call("catalog", "mode").out


def test_catalog_lists_the_failure_modes_and_names_one_that_it_does_not_have(call: Call) -> None:
    listed = call("catalog", "mode", "--jsonl").lines
    assert len(listed) > 100
    assert {"failure_mode", "meaning", "work", "domain_role", "explains", "lost_after"} <= listed[0].keys()
    unknown = call("catalog", "mode", "gpu.los")
    assert (unknown.code, unknown.out) == (1, "")
    assert "did you mean gpu.lost?" in unknown.err


def test_catalog_lists_nvlink5_details_with_their_code(call: Call) -> None:
    row = json.loads(call("catalog", "xid", "145", "--json").out)
    assert {detail["code"] for detail in row["details"]} >= {"xid.145:Fatal", "xid.145:RLW_REMAP:0x00000040"}


def test_catalog_lists_one_family(call: Call) -> None:
    assert {one["code"].split(".")[0] for one in call("catalog", "smi", "--jsonl").lines} == {"smi"}
    assert len(call("catalog", "--jsonl").lines) > 500


@pytest.mark.parametrize("written", [None, "cluster =", 'color = "red"'])
def test_invalid_agent_settings_are_wrong_usage(call: Call, tmp_path: Path, written: str | None) -> None:
    file = tmp_path / "agent.toml"
    if written is not None:
        file.write_text(written)
    called = call("agent", "--once", "--config", str(file))
    assert called.code == 2
    assert called.err.startswith("faultbridge: ")


def test_a_mapping_is_checked_offline(call: Call, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"alerts": {"rules": [{"alert": "NicFlapping.{0,32}", "code": "net.nothing"}]}}')
    bad.write_text('{"alerts": {"rules": [{"alert": "(a+)+", "code": "net.link_flapping"}]}}')
    checked = call("mapping", "check", str(good), "--json")
    assert (checked.code, json.loads(checked.out), "net.nothing" in checked.err) == (0, {"mappings": ["alerts"]}, True)
    checked = call("mapping", "check", str(bad))
    assert (checked.code, checked.out, "without a time bound" in checked.err) == (1, "", True)
    (problem,) = json.loads(call("mapping", "check", str(bad), "--json").out)
    assert "without a time bound" in problem["problem"]


@pytest.mark.parametrize(("limit", "found"), [(100, []), (20, ["dcgm.pcie_replays"])])
def test_decode_compares_counters_with_the_thresholds_of_a_mappings_file(
    call: Call, tmp_path: Path, limit: int, found: list[str]
) -> None:
    line = 'DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0",UUID="GPU-5fd4"}'
    files = [tmp_path / "before.prom", tmp_path / "after.prom"]
    for file, count in zip(files, (0, 50), strict=True):
        file.write_text(f"{line} {count}\n")
    own = tmp_path / "own.json"
    own.write_text(json.dumps({"thresholds": {"dcgm-metrics": {"DCGM_FI_DEV_PCIE_REPLAY_COUNTER": {"limit": limit}}}}))
    assert call("mapping", "check", str(own)).code == 0
    ran = call("decode", "--jsonl", "--mappings", str(own), *map(str, files))
    assert [one["code"] for one in ran.lines] == found


@pytest.mark.parametrize("given", ["2h", "2026-02-03T04:05:06Z"])
def test_received_at_takes_a_time_or_an_age(call: Call, given: str) -> None:
    ran = call("decode", "--source", "kernel-log", "--received-at", given, "--jsonl", text=XID.encode())
    assert (ran.code, ran.lines[0]["attributes"]["time_source"]) == (0, "received")


@pytest.mark.parametrize("command", ["decode", "explain"])
def test_a_received_at_after_the_year_2199_is_wrong_usage(call: Call, command: str, tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(f"Dec 31 23:59:59 n-1 kernel: {XID}", encoding="utf-8")
    ran = call(command, str(log), "--received-at", "9999-12-31T23:59:59Z")
    expected = "faultbridge: invalid --received-at: '9999-12-31T23:59:59Z'; allowed: times before the year 2200 (see "
    assert (ran.code, ran.out, ran.err.startswith(expected)) == (2, "", True)
    assert call(command, str(log), "--received-at", "2199-12-31T23:59:59Z").code == 0


@pytest.mark.parametrize("option", [("--node", "a b"), ("--cluster", "a/b"), ("--received-at", "yesterday")])
def test_an_invalid_name_or_time_is_wrong_usage(call: Call, option: tuple[str, str]) -> None:
    ran = call("decode", *option, text=XID.encode())
    assert (ran.code, ran.out) == (2, "")


def test_no_faults_found_is_printed_for_people_only(call: Call) -> None:
    healthy = b"[    1.000000] docker0: port 1(veth1) entered forwarding state\n"
    ran = call("decode", "--source", "kernel-log", text=healthy)
    assert (ran.code, ran.out, ran.err) == (
        0,
        "",
        "faultbridge: no faults found\nfaultbridge: lines read: 1; faults and clears: 0; other lines are ignored\n",
    )
    ran = call("decode", "--source", "kernel-log", "--jsonl", text=healthy)
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_counters_of_one_sample_are_named_because_only_a_second_one_shows_a_rise(call: Call, tmp_path: Path) -> None:
    file, later = str(SAMPLES / "dcgm-metrics.prom"), tmp_path / "later.prom"
    later.write_bytes((SAMPLES / "dcgm-metrics.prom").read_bytes())
    sentence = "counters of 2 devices were read once: only a later sample beside it shows a rise; --all prints them"
    assert sentence in call("decode", file).err
    assert "read once" not in call("decode", "--all", file).err
    assert "read once" not in call("decode", file, str(later)).err
    assert "read once" not in call("decode", "--jsonl", file).err
