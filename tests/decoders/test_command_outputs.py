"""Outputs of commands: tables and lists of sinfo, dcgmi, ipmitool, FreeIPMI and others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.decide.fold.fold import fold
from faultbridge.decode import registry
from faultbridge.decode.captures import may_be_capture, outputs_of, parts_of, read_parts
from faultbridge.decode.data import load_catalog
from faultbridge.model.conditions import code_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Clear, CounterSample, Fault, Observation, faults_of
from faultbridge.model.policy import Limits
from tests.builders import arrival, node
from tests.decoders.captures import SAMPLES, expected, faults_and_clears

DMESG = "[ 8123.617543] NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
LSPCI = "0000:c2:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev ff)\n"
SEL = "   3 | 02/03/2026 | 04:05:06 | Memory DIMM_A1 | Uncorrectable ECC | Asserted\n"
UPTIME = " 04:05:06 up 12 days, 3:04, 1 user, load average: 0.00, 0.01, 0.05\n"
PERFQUERY = """# Port counters: Lid 118 port 1 (CapMask: 0x5A00)
PortSelect:......................1
SymbolErrorCounter:..............{symbols}
"""
MLXLINK = """Troubleshooting Info
--------------------
Status Opcode                      : {opcode}
Recommendation                     : \x1b[31m{says}\x1b[0m

Physical Counters and BER Info
------------------------------
Symbol Errors                      : 88211
"""
SMART = """smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.8.0] (local build)

=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: {verdict}
Available Spare:                    {spare}%
Available Spare Threshold:          10%
"""
MDSTAT = "Personalities : [raid1]\nmd1 : {}\n      937560384 blocks super 1.2 {}\n\nunused devices: <none>\n"


def found(capture: str) -> list[tuple[str, str | None]]:
    observations = read_parts(parts_of(capture.encode())).observations
    faults = [fault for one in observations for fault in faults_of(one)]
    return [(one.code, one.component.pci or one.component.name) for one in faults]


@pytest.mark.parametrize(
    "heading",
    [
        "$ {}",
        "# {}",
        "$ sudo {}",
        "[root@gpu-1 ~]# {}",
        "ubuntu@gpu-1:~$ {}",
        "=== {} ===",
        "(base) user@gpu-1:/tmp$ {}",
    ],
)
def test_each_output_is_read_by_its_own_decoder_behind_every_prompt(heading: str) -> None:
    capture = f"{heading.format('dmesg')}\n{DMESG}\n{heading.format('lspci -d 10de:')}\r\n{LSPCI}"
    assert may_be_capture(capture.encode())
    assert found(capture) == [("xid.79", "0000:c1:00"), ("host.pci_device_unreadable", "0000:c2:00")]


def test_lines_before_the_first_prompt_are_an_output_too() -> None:
    assert [code for code, _ in found(f"{DMESG}$ lspci\n{LSPCI}")] == ["xid.79", "host.pci_device_unreadable"]


def test_an_output_that_no_source_recognizes_is_stated_and_counted() -> None:
    parts = parts_of(f"$ uptime\n{UPTIME}$ ipmitool sel elist\n{SEL}$ true\n".encode())
    decoded = read_parts(parts)
    assert [part.source for part in parts] == [None, "bmc-events"]
    assert (decoded.unparsed, len(decoded.notes)) == (1, 1)
    assert decoded.notes[0].startswith("`uptime` was not read: ")
    assert [one.code for one in decoded.observations if isinstance(one, Fault)] == ["host.memory_uncorrected"]


@pytest.mark.parametrize("text", [DMESG, f"$ dmesg\n{DMESG}$ dmesg\n{DMESG}", f"$ uptime\n{UPTIME}", "", DMESG + SEL])
def test_a_text_of_one_source_or_of_none_is_no_capture(text: str) -> None:
    assert parts_of(text.encode()) == ()


TIMEOUT = "[rank3]:[E203 04:05:06 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
TIMEOUT += "WorkNCCL(SeqNum={}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n"
STEPS = "".join(f"iteration {step} | loss 2.1\n" for step in range(5000))


@pytest.mark.parametrize("heading", ["=== Training ===", "== Status =="])
def test_a_section_of_a_log_belongs_to_the_log_also_if_its_fault_comes_late(heading: str) -> None:
    log = f"{TIMEOUT.format(7)}{heading}\n{STEPS}{TIMEOUT.format(9)}"
    assert parts_of(log.encode()) == ()
    parts = parts_of(f"$ lspci\n{LSPCI}$ kubectl logs job\n{log}$ uptime\n{UPTIME}".encode())
    assert [part.source for part in parts] == ["pci-devices", "training-log", None]
    decoded = read_parts(parts)
    seen = [one.attributes.get("seqnum") for one in decoded.observations if isinstance(one, Fault)]
    assert [one for one in seen if one] == ["7", "9"]
    assert decoded.unparsed == 1


def test_no_sample_of_one_source_is_taken_for_a_capture() -> None:
    for folder in (SAMPLES, SAMPLES.parent / "samples_platform"):
        for capture in expected(folder / "expectations.toml"):
            assert parts_of((folder / capture.file).read_bytes()) == (), capture.file


def test_the_command_line_names_the_device_of_a_tool_that_does_not() -> None:
    title = "perfquery -C mlx5_3 -P 2"
    (output,) = outputs_of(f"# {title}\n{PERFQUERY.format(symbols=0)}")
    (sample,) = registry.decode("rdma-counters", output.body)
    assert (output.title, sample.component.name) == (title, "mlx5_3/2")
    (output,) = outputs_of(f"$ sudo smartctl -H /dev/nvme5\n{SMART.format(verdict='FAILED!', spare=4)}")
    (failing,) = faults_of(registry.decode("disk-health", output.body)[0])
    assert failing.component.name == "nvme5"


def test_counters_of_two_tools_are_not_compared_with_each_other() -> None:
    mlxlink = MLXLINK.format(opcode=0, says="No issue was observed")
    perfquery = PERFQUERY.format(symbols=65535)
    parts = f"$ dmesg\n{DMESG}$ perfquery -C mlx5_0 -P 1\n{perfquery}$ mlxlink -d mlx5_0 -c\n{mlxlink}"
    whole = f"# mlx5_0/1\n{perfquery}# mlx5_0/1\n{mlxlink}"
    for observations in (
        read_parts(parts_of(parts.encode())).observations,
        registry.decode("rdma-counters", whole.encode()),
    ):
        samples = [one.values["symbol_error"] for one in observations if isinstance(one, CounterSample) and one.values]
        assert samples == [65535]


@pytest.mark.parametrize(
    ("says", "codes"), [("Bad signal integrity", ["net.link_integrity"]), ("No issue was observed", [])]
)
def test_bad_signal_integrity_of_a_link_is_a_fault(says: str, codes: list[str]) -> None:
    capture = f"$ dmesg\n{DMESG}$ mlxlink -d /dev/mst/mlx5_4 -c\n{MLXLINK.format(opcode=15, says=says)}"
    assert found(capture)[1:] == [(code, "mlx5_4") for code in codes]


def test_each_disk_is_named_by_its_own_output() -> None:
    nvme = "Smart Log for NVME device:nvme3 namespace-id:ffffffff\ncritical_warning : 0x4\navailable_spare : 100%\n"
    smart = SMART.format(verdict="FAILED!", spare=4)
    mdstat = MDSTAT.format("active raid1 nvme9n1p2[1] nvme8n1p2[0](F)", "[2/1] [_U]")
    body = f"$ nvme smart-log /dev/nvme3\n{nvme}$ smartctl -H /dev/nvme5\n{smart}$ cat /proc/mdstat\n{mdstat}"
    faults = [fault for one in registry.decode("disk-health", body.encode()) for fault in faults_of(one)]
    assert [(one.code, one.component.name) for one in faults] == [
        ("host.disk_failing", "nvme3"),
        ("host.disk_failing", "nvme5"),
        ("host.raid_member_failed", "md1"),
    ]
    assert parts_of(body.encode()) == ()


@pytest.mark.parametrize(
    ("state", "blocks", "severity"),
    [
        ("active raid1 nvme1n1[1] nvme0n1[0]", "[2/2] [UU]", None),
        ("active (auto-read-only) raid1 nvme1n1[1] nvme0n1[0]", "[2/2] [UU]\n      resync=PENDING", None),
        ("active raid1 nvme1n1[1] nvme0n1[0]", "[2/2] [UU]\n      [==>....]  check = 12.1% (1/2)", None),
        ("active raid0 nvme2n1[1] nvme1n1[0]", "512k chunks", None),
        ("active raid1 nvme1n1[1] nvme0n1[0](F)", "[2/2] [UU]", "error"),
        ("active raid1 nvme1n1[1]", "[2/1] [_U]\n      [==>....]  recovery = 12.1% (1/2)", "error"),
        ("broken raid0 nvme2n1[1] nvme1n1[0]", "512k chunks", "error"),
        ("inactive nvme1n1[0](S)", "", "warning"),
    ],
)
def test_an_array_that_lacks_a_disk_or_failed_is_a_fault(state: str, blocks: str, severity: str | None) -> None:
    body = MDSTAT.format(state, blocks).encode()
    assert registry.recognize(body) == "disk-health"
    faults = [fault for one in registry.decode("disk-health", body) for fault in faults_of(one)]
    shown = [(one.code, one.component.name, load_catalog().classify(one).severity) for one in faults]
    code = "host.raid_inactive" if severity == "warning" else "host.raid_member_failed"
    assert shown == ([(code, "md1", severity)] if severity else [])


ACTIVE, DEGRADED = ("active raid1 nvme1n1[1] nvme0n1[0]", "[2/2] [UU]"), ("active raid1 nvme1n1[1]", "[2/1] [_U]")
INACTIVE = ("inactive nvme1n1[0](S)", "")


@pytest.mark.parametrize(
    ("states", "codes"),
    [
        ((INACTIVE, ACTIVE), set()),
        ((DEGRADED, ACTIVE), set()),
        ((INACTIVE, DEGRADED), {"host.raid_member_failed"}),
        ((DEGRADED, INACTIVE), {"host.raid_member_failed", "host.raid_inactive"}),
    ],
)
def test_an_array_that_has_all_disks_again_ends_its_faults(
    states: tuple[tuple[str, str], ...], codes: set[str]
) -> None:
    noon, state = datetime(2026, 2, 3, 12, tzinfo=UTC), node()
    for minute, shown in enumerate(states):
        at = noon + timedelta(minutes=minute)
        (one,) = registry.decode("disk-health", MDSTAT.format(*shown).encode())
        arrivals = [arrival(one, at, f"r-{minute}")]
        state = fold(state, arrivals, now=at, catalog=load_catalog(), limits=Limits()).state
    reporters = (item for one in state.conditions.values() for item in one.reporters.items())
    assert {code_of(key) for key, one in reporters if one.active} == codes


TABLE = """| NVIDIA-SMI 550.54    Driver Version: 550.54    CUDA Version: 12.4 |
|   0  NVIDIA H200                    On  |   00000000:53:00.0 Off |                    0 |
| N/A   41C    P0             112W / 700W |       0MiB / 143771MiB |      0%      Default |
"""
GPU_LINE = "GPU 0: NVIDIA H200 (UUID: GPU-0a1b2c3d-0000-0000-0000-000000000001)\n"
LINKS = f"{GPU_LINE}\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"


@pytest.mark.parametrize("capture", [f"$ nvidia-smi\n{TABLE}$ nvidia-smi nvlink -s\n{LINKS}", TABLE + LINKS])
def test_several_outputs_of_one_tool_are_all_read(capture: str) -> None:
    parts = parts_of(capture.encode())
    observations = read_parts(parts).observations if parts else registry.decode("nvidia-smi-text", capture.encode())
    assert [fault.code for one in observations for fault in faults_of(one)] == ["smi.nvlink_inactive"]
    assert len(parts) == (2 if "$" in capture else 0)


def test_outputs_that_are_combined_are_read_together() -> None:
    smart = "$ smartctl -H /dev/nvme{0}\n" + SMART.format(verdict="PASSED", spare=99)
    assert parts_of((smart.format(0) + smart.format(1)).encode()) == ()


PARTITIONS = (
    "gpu*         up   infinite      1 {state} node002\ngpu*         up 1-00:00:00      7   idle node[001,003-008]\n"
)
NODES = "node001      1      gpu* idle \nnode002      1      gpu* {state} \n"
CELLS = "192 2:48:2 2000000 0 1 (null) none"
LONG = f"node001 1 gpu* idle {CELLS}\nnode002 1 gpu* {{state}} {CELLS}\n"
OWN_FORMAT = "node001 idle none\nnode002 {state} none\n"
FORMS = [PARTITIONS, NODES, LONG, OWN_FORMAT]


@pytest.mark.parametrize("form", FORMS)
def test_a_node_that_is_down_is_found_without_a_heading(form: str) -> None:
    found = list(faults_and_clears(registry.decode("slurm-node", form.format(state="down*").encode())))
    assert {one.node for one in found} == {"node002"}
    assert list(faults_and_clears(registry.decode("slurm-node", form.format(state="idle").encode()))) == []


def test_the_reason_of_the_long_form_is_read() -> None:
    body = LONG.replace("(null) none\n", "(null) Not responding\n").format(state="down*")
    found = list(faults_and_clears(registry.decode("slurm-node", body.encode())))
    assert any("Not responding" in (one.evidence or "") for one in found if one.node == "node002")


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_another_form_among_them_are_rejected(form: str) -> None:
    with pytest.raises(Rejected):
        registry.decode("slurm-node", (form.format(state="down*") + "the end of it\n").encode())


DIAG_TABLE = """+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Deployment  --------+------------------------------------------------|
{}
+---------------------------+------------------------------------------------+
"""


def table(*rows: tuple[str, str]) -> tuple[Fault, ...]:
    """Return the faults in a table whose cells are cut after 45 characters, as dcgmi does it."""
    lines = []
    for name, text in rows:
        chunks = [text[at : at + 45] for at in range(0, len(text), 45)]
        lines += [f"| {name if not n else '':<26}| {chunk:<47}|" for n, chunk in enumerate(chunks)]
    body = DIAG_TABLE.format("\n".join(lines)).encode()
    assert registry.recognize(body) == "dcgm-diag"
    return tuple(one for one in registry.decode("dcgm-diag", body) if isinstance(one, Fault))


def test_a_table_without_a_failure_has_no_fault() -> None:
    assert (
        table(("Denylist", "Pass"), ("GPU Memory", "Pass - All"), ("EUD Test", "Skip - All"), ("Info", "GPU 0 x")) == ()
    )
    assert table(("software", "Pass"), ("", "GPU0: Pass"), ("", "GPU1: Skip")) == ()


def test_a_failure_in_a_table_names_its_gpu_and_its_text_decides() -> None:
    text = "GPU 3 had uncorrectable memory errors and row remapping failed. Run a field diagnostic on the GPU."
    (fault,) = table(
        ("GPU Memory", "Pass - GPUs: 1, 2"), ("", "Fail - GPU: 3"), ("Warning", text), ("PCIe", "Pass - All")
    )
    assert (fault.code, fault.component.index, fault.message) == ("dcgm.row_remap_failure", 3, text)


def test_each_gpu_that_failed_without_a_text_is_a_fault() -> None:
    found = table(("memory", "Fail"), ("", "GPU0: Fail"), ("", "GPU1: Pass"), ("", "GPU2: Fail"))
    assert [(one.code, one.component.index) for one in found] == [("dcgm.diag_failed", 0), ("dcgm.diag_failed", 2)]
    assert [one.component.type for one in table(("PCIe", "Fail - All"))] == [ComponentType.NODE]


def test_a_setting_in_a_table_is_no_hardware_fault() -> None:
    text = 'Persistence mode for GPU 0 is disabled. Enable persistence mode by running "nvidia-smi -i 0 -pm 1".'
    for test in ("Persistence Mode", "software"):
        assert [one.code for one in table((test, "Fail"), ("Warning: GPU0", text))] == ["dcgm.persistence_mode"]


HEADING = "ID   | Date        | Time     | Name             | Type                     | Event\n"
WITH_STATE = "ID   | Date        | Time     | Name   | Type              | State    | Event\n"
WITH_BOTH = "ID | Date | Time | Name | Type | State | Event Direction | Event\n"
QUIET = (
    "1    | PostInit    | PostInit | Sensor #0        | OS Boot                  | C: boot completed\n"
    "2    | Jul-20-2025 | 10:29:49 | SEL              | Event Logging Disabled   | Log Area Reset/Cleared\n"
    "3    | Jul-20-2025 | 10:30:02 | PS2 Status       | Power Supply             | Presence detected\n"
    "4    | Jul-20-2025 | 10:31:02 | Chassis          | Physical Security        | General Chassis Intrusion\n"
)
ROW = "17   | Feb-03-2026 | 04:05:06 | {}  | {}   | {}\n"


def read(text: str) -> tuple[Observation, ...]:
    return registry.decode("bmc-events", text.encode())


@pytest.mark.parametrize(
    ("name", "kind", "event", "code"),
    [
        ("DIMM_A1", "Memory", "Uncorrectable memory error", "host.memory_uncorrected"),
        ("DIMM_A1", "Memory", "Correctable memory error", "host.memory_corrected"),
        ("PS2 Status", "Power Supply", "Power Supply Failure detected", "host.power_failed"),
        ("PS2 Status", "Power Supply", "Power Supply input lost (AC/DC)", "host.power_failed"),
        ("CPU1 Status", "Processor", "IERR", "host.machine_check"),
        ("CPU1 Status", "Processor", "Thermal Trip", "host.cooling_failed"),
        ("Fan 3", "Fan", "At or Below (<=) Lower Critical Threshold", "host.cooling_failed"),
        ("Slot 4", "Critical Interrupt", "Bus Fatal Error", "host.pcie_fatal"),
        ("Drive 0", "Drive Slot (Bay)", "Drive Fault", "host.disk_failing"),
    ],
)
@pytest.mark.parametrize("heading", [HEADING, ""])
def test_an_event_is_a_fault_with_the_time_of_the_controller(
    heading: str, name: str, kind: str, event: str, code: str
) -> None:
    text = heading + QUIET + ROW.format(name, kind, event)
    assert registry.recognize(text.encode()) == "bmc-events"
    (fault,) = read(text)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.attributes["sensor"]) == (code, name)
    assert fault.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    (separated,) = read(text.replace("|", ","))
    assert isinstance(separated, Fault)
    assert (separated.code, separated.component, separated.observed_at) == (code, fault.component, fault.observed_at)


def test_the_states_and_directions_of_the_options_are_columns_of_their_own() -> None:
    failed = "3 | PostInit | PostInit | PS2 | Power Supply | Critical | {}Power Supply Failure detected\n"
    (unset,) = read(WITH_STATE + failed.format(""))
    assert isinstance(unset, Fault)
    assert (unset.code, unset.observed_at) == ("host.power_failed", None)
    lost, found = read(
        WITH_BOTH + failed.format("Assertion Event | ") + failed.format("Deassertion Event | ").replace("3 |", "4 |", 1)
    )
    assert (type(lost), type(found)) == (Fault, Clear)
    assert lost.component == found.component  # type: ignore[union-attr]  # a fault and a clear


def test_a_listing_without_an_error_has_no_fault() -> None:
    assert read(HEADING + QUIET) == ()
    assert read(HEADING) == ()


@pytest.mark.parametrize("text", ["ID | Name | Type\n1 | PS2 | Power Supply\n", "ID,Date,Price\n1,Feb-03-2026,7\n"])
def test_another_table_is_not_taken_for_a_listing(text: str) -> None:
    with pytest.raises(Rejected):
        read(text)
    with pytest.raises(Rejected, match="unknown_format"):
        registry.recognize(text.encode())
