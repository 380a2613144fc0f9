"""`nvidia-smi-text` and `nvidia-smi-query-csv`: the same health snapshot as from the XML, and error messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from faultbridge.decide.normalize.compare import differences
from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, CounterSample, Fault, Snapshot
from tests.decoders.captures import SAMPLES, decoded

TEXT, CSV = "nvidia-smi-text", "nvidia-smi-query-csv"
HEAD = "==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:53:00.0\n"


def snapshot(source: str, body: str, hints: Hints | None = None) -> Snapshot:
    (found,) = registry.decode(source, body.encode(), hints or Hints())
    assert isinstance(found, Snapshot)
    return found


def sample(source: str, name: str) -> Snapshot:
    (found,) = decoded(source, name)
    assert isinstance(found, Snapshot)
    return found


def where(found: Snapshot, code: str) -> list[str | None]:
    return [one.pci for one in found.covers.get(code, ())]


def test_a_field_is_identified_by_its_whole_path() -> None:
    found = sample(TEXT, "smi-q.txt")
    ecc = next(fault for fault in found.present if fault.code == "smi.ecc_uncorrectable")
    assert ecc.attributes == {"sram_uncorrectable_parity": "1", "dram_uncorrectable": "2"}
    assert found.observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert [one.serial for one in found.devices] == ["1650000000001", None, None]


def test_a_lost_gpu_covers_nothing_but_its_loss() -> None:
    found = sample(TEXT, "smi-q.txt")
    assert [code for code, components in found.covers.items() if "0000:75:00" in [one.pci for one in components]] == [
        "smi.gpu_lost"
    ]


def test_an_unknown_addressing_mode_is_no_sensor_fault() -> None:
    assert "smi.sensor_unreadable" not in [fault.code for fault in sample(TEXT, "smi-q.txt").present]


def test_errors_of_mig_instances_count_if_the_gpu_has_no_count() -> None:
    faults = {fault.component.pci: fault for fault in sample(TEXT, "smi-q.txt").present if "ecc" in fault.code}
    assert faults["0000:64:00"].attributes == {"mig_sram_uncorrectable": "3"}


def test_a_part_of_an_output_is_decoded_without_a_gpu_address() -> None:
    found = snapshot(TEXT, "    GPU Recovery Action   : None\n\n    GPU Recovery Action   : Reboot\n")
    assert [(fault.code, fault.component.pci) for fault in found.present] == [("smi.recovery_action", None)]
    assert found.devices == ()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (HEAD + "    ECC Errors\n            DRAM Uncorrectable : 0\n        Volatile\n", "bad_indentation"),
        (HEAD + "    Fan Speed : N/A\n      Product Name : H200\n", "bad_indentation"),
        (HEAD + "    Fan Speed : N/A\n    ECC Errors\n        Volat", "truncated"),
        (HEAD + "    Fan Speed : N/A\n    !!\n", "malformed_text"),
        (HEAD, "truncated"),
        (HEAD + "GPU 00000000:64:00.0\n    Fan Speed : N/A\n", "truncated"),
        (HEAD + "    Product Name : H200\n    Fan Speed : N/A\n", "truncated"),
        (HEAD + "Fan Speed : N/A\n", "bad_indentation"),
        (HEAD + "    Retired Pages\n    Single Bit ECC : 60\n", "bad_indentation"),
        ("==============NVSMI LOG==============\n\nDriver Version : 570\n", "no_framing"),
        ("hello", "no_framing"),
        ("Failed to initialize NVML: Insufficient Permissions", "insufficient_permissions"),
    ],
)
def test_text_that_is_cut_off_or_wrongly_indented_is_rejected(body: str, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        snapshot(TEXT, body)
    assert rejected.value.reason == reason


def all_cuts(body: str) -> list[str]:
    lines = body.splitlines(keepends=True)
    return ["".join(lines[:count]) for count in range(1, len(lines))]


def accepted(body: str) -> Decoded | None:
    try:
        return registry.read(TEXT, body.encode())
    except Rejected:
        return None


@pytest.mark.parametrize("name", ["smi-q-pages.txt", "smi-q.txt"])
@pytest.mark.parametrize("indent", [lambda line: line.strip(), lambda line: line.replace(" " * 8, " " * 4)])
def test_an_output_with_other_indentation_is_rejected(name: str, indent: Callable[[str], str]) -> None:
    whole = (SAMPLES / name).read_text(encoding="utf-8")
    assert accepted(whole) is not None
    assert accepted("\n".join(map(indent, whole.split("\n")))) is None


@pytest.mark.parametrize("name", ["smi-q-pages.txt", "smi-q.txt"])
def test_a_cut_output_is_rejected_or_noted_if_it_lost_anything_but_processes(name: str) -> None:
    body = (SAMPLES / name).read_text(encoding="utf-8")
    whole = accepted(body)
    assert whole is not None
    assert whole.notes == ()
    for cut in all_cuts(body):
        found = accepted(cut)
        if found is not None and found.observations != whole.observations:
            assert found.notes, cut[-200:]


def test_gpus_that_are_attached_but_not_listed_are_noted() -> None:
    gpu = "GPU 00000000:{:02x}:00.0\n    Product Name : NVIDIA H200\n    Processes : None\n"
    head = HEAD.replace(": 1", ": 8").partition("GPU 0")[0]
    seven, eight = (accepted(head + "".join(map(gpu.format, range(count)))) for count in (7, 8))
    assert seven is not None
    assert seven.notes == ("the output lists 7 of 8 attached GPUs; nothing is known about the others",)
    assert eight is not None
    assert eight.notes == ()


@pytest.mark.parametrize("source", [TEXT, CSV, "nvidia-smi-xml"])
def test_error_messages_are_decoded_for_every_output_format(source: str) -> None:
    found = snapshot(source, "Unable to determine the device handle for GPU0000:0B:00.0: Unknown Error\n")
    assert [(fault.code, fault.component.pci) for fault in found.present] == [("smi.gpu_lost", "0000:0b:00")]
    assert set(found.covers) == {"smi.gpu_lost"}


def test_a_card_without_any_active_link_is_not_checked() -> None:
    links = sample(TEXT, "smi-nvlink.txt")
    assert [one.index for one in links.covers["smi.nvlink_inactive"]] == [0, 1]


def test_a_list_with_an_unreachable_gpu_is_not_complete() -> None:
    found = sample(TEXT, "smi-list.txt")
    assert found.devices == ()
    assert len(found.covers["smi.gpu_lost"]) == 3


def test_a_complete_snapshot_compares_the_gpus_with_the_instance_type() -> None:
    body = "".join(f"GPU {n}: NVIDIA H200 (UUID: GPU-0a1b2c3d-{n})\n" for n in range(7))
    short = snapshot(TEXT, body, Hints(instance_type="ml.p5en.48xlarge"))
    assert [(fault.code, fault.attributes["gpus"]) for fault in short.present] == [("host.gpu_count_mismatch", "7")]
    whole = snapshot(TEXT, body + "GPU 7: NVIDIA H200 (UUID: GPU-7)\n", Hints(instance_type="p5en.48xlarge"))
    assert (whole.present, whole.covers["host.gpu_count_mismatch"]) == ((), (NODE_COMPONENT,))
    for unknown in ("x9.large", None):
        assert "host.gpu_count_mismatch" not in snapshot(TEXT, body, Hints(instance_type=unknown)).covers


def test_rows_are_read_by_the_field_names_of_the_header() -> None:
    found = sample(CSV, "smi-query.csv")
    assert found.observed_at == datetime(2026, 2, 3, 4, 5, 6, 250_000, tzinfo=UTC)
    assert found.node == "ip-10-0-0-7"
    assert [one.index for one in found.devices] == [0, 1, 2, 3]
    assert where(found, "smi.fabric_unhealthy") == ["0000:64:00"]
    ecc = next(fault for fault in found.present if fault.code == "smi.ecc_uncorrectable")
    assert ecc.message.startswith("5 ")


def test_a_healthy_gpus_row_has_no_retired_page() -> None:
    found = sample(CSV, "smi-retired.csv")
    assert found.present == ()
    assert where(found, "smi.retired_pages_limit") == ["0000:83:00", "0000:84:00"]
    row = "0x{:016x}, Double Bit ECC, 00000000:83:00.0\n"
    many = "retired_pages.address, retired_pages.cause, gpu_bus_id\n" + "".join(row.format(n) for n in range(60))
    assert [fault.code for fault in snapshot(CSV, many).present] == ["smi.retired_pages_limit"]


def test_a_field_outside_the_query_is_not_covered() -> None:
    assert set(snapshot(CSV, "pci.bus_id, remapped_rows.pending\n00000000:53:00.0, [N/A]\n").covers) == {"smi.gpu_lost"}
    assert set(snapshot(CSV, "pci.bus_id, remapped_rows.pending\n00000000:53:00.0, No\n").covers) == {
        "smi.gpu_lost",
        "smi.row_remap_pending",
    }


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("0, 00000000:53:00.0, No, Yes\n", "no_framing"),
        ("pci.bus_id, remapped_rows.pending\n00000000:53:00.0\n", "malformed_row"),
        ("a, b\n1, 2\n", "no_framing"),
    ],
)
def test_rows_without_a_header_are_rejected(body: str, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        snapshot(CSV, body)
    assert rejected.value.reason == reason


GPUS = ["GPU 0: NVIDIA H200 (UUID: GPU-0a1b2c3d-0000-0000-0000-000000000001)", "GPU 1: NVIDIA H200"]


def links(*lines: str) -> str:
    return "".join(f"{gpu}\n" + "".join(f"\t Link {line}\n" for line in lines) for gpu in GPUS)


def test_links_beside_an_error_message_are_a_check_of_their_own() -> None:
    text = links("0: 26.562 GB/s", "1: 26.562 GB/s").replace("26.562 GB/s", "<inactive>", 1)
    text += "WARNING: infoROM is corrupted at gpu 0000:02:00.0\n"
    found = [one for one in registry.decode("nvidia-smi-text", text.encode()) if isinstance(one, Snapshot)]
    codes = [fault.code for one in found for fault in one.present]
    assert codes == ["smi.inforom_corrupted", "smi.nvlink_inactive"]
    # Ingest takes only one snapshot of a reporter at a time.
    assert len({one.reporter_key for one in found}) == 2


def test_the_errors_of_nvlinks_are_counters_and_no_inactive_links() -> None:
    errors = links("0: Replay Errors: 0", "0: CRC Errors: 2", "1: Replay Errors: 3", "1: CRC Errors: 5")
    for body in (errors, links("0: 26.562 GB/s", "1: 26.562 GB/s") + errors):
        *snapshots, first, second = registry.decode(TEXT, body.encode())
        assert isinstance(first, CounterSample)
        assert isinstance(second, CounterSample)
        assert first.values == {
            "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": 3,
            "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": 7,
        }
        assert (first.component.index, second.component.index) == (0, 1)
        assert [one.present for one in snapshots if isinstance(one, Snapshot)] == [()] * len(snapshots)
        assert registry.recognize(body.encode()) == TEXT


def test_more_errors_of_an_nvlink_than_before_are_a_fault() -> None:
    before, after = (registry.decode(TEXT, links(f"0: Replay Errors: {count}").encode()) for count in (3, 9))
    found = differences([*before, *after])
    assert [one.code for one in found if isinstance(one, Fault)] == ["dcgm.nvlink_replays"] * 2


def test_two_listings_of_errors_in_one_text_are_compared() -> None:
    text = "".join(links(f"0: Replay Errors: {count}") for count in (3, 9))
    found = differences(registry.decode(TEXT, text.encode()))
    assert [one.code for one in found if isinstance(one, Fault)] == ["dcgm.nvlink_replays"] * 2


WIDTHS = "index, name, pcie.link.width.current\n0, NVIDIA L40S, {}\n1, NVIDIA L40S, {}\n2, NVIDIA L4, 8\n"


@pytest.mark.parametrize(
    ("lanes", "narrow"), [((16, 8), [1]), ((4, 16), [0]), ((8, 8), []), (("[N/A]", 8), []), ((16, 16), [])]
)
def test_a_gpu_with_fewer_lanes_than_another_of_its_model_is_a_fault(
    lanes: tuple[object, object], narrow: list[int]
) -> None:
    found = snapshot(CSV, WIDTHS.format(*lanes))
    assert [(one.code, one.component.index) for one in found.present] == [
        ("host.pcie_width_reduced", at) for at in narrow
    ]
    covered = [one.index for one in found.covers.get("host.pcie_width_reduced", ())]
    assert covered == ([] if "[N/A]" in lanes else [0, 1])


def test_the_lanes_of_gpus_without_a_model_are_not_compared() -> None:
    found = snapshot(CSV, "index, pcie.link.width.current\n0, 16\n1, 8\n")
    assert (found.present, found.covers.get("host.pcie_width_reduced")) == ((), None)


def test_the_links_of_a_gpu_do_not_hide_those_of_a_gpu_of_another_node() -> None:
    gpu = (
        "GPU 0: NVIDIA H200 (UUID: GPU-0a1b2c3d-0000-0000-0000-00000000000{})\n\t Link 0: 26.562 GB/s\n\t Link 1: {}\n"
    )
    found = snapshot(TEXT, gpu.format(1, "<inactive>") + gpu.format(2, "26.562 GB/s"))
    assert [(one.code, (one.component.uuid or "")[-1]) for one in found.present] == [("smi.nvlink_inactive", "1")]


def test_the_lanes_are_read_from_the_text_and_the_xml_too() -> None:
    gpu = "GPU 00000000:{:02x}:00.0\n    Product Name : NVIDIA L40S\n"
    gpu += "    PCI\n        GPU Link Info\n            Link Width\n"
    gpu += "                Current : {}x\n    Processes : None\n"
    text = HEAD.replace(": 1", ": 2").partition("GPU 0")[0] + gpu.format(1, 16) + gpu.format(2, 8)
    width = "<gpu id='00000000:{:02x}:00.0'><product_name>NVIDIA L40S</product_name><pci>"
    width += "<pci_gpu_link_info><link_widths><current_link_width>{}x"
    width += "</current_link_width></link_widths></pci_gpu_link_info></pci></gpu>"
    xml = f"<nvidia_smi_log>{width.format(1, 16)}{width.format(2, 8)}</nvidia_smi_log>"
    for source, body in ((TEXT, text), ("nvidia-smi-xml", xml)):
        assert [one.component.pci for one in snapshot(source, body).present] == ["0000:02:00"]


def eight_gpus(*lines: str) -> str:
    gpu = "GPU {0}: NVIDIA H200 (UUID: GPU-0a1b2c3d-{0})\n" + "".join(f"{line}\n" for line in lines)
    return "".join(gpu.format(number) for number in range(8))


ACTIVE = "\t Link 0: 26.562 GB/s"


@pytest.mark.parametrize("other", [eight_gpus("\t Link 0: Replay Errors: 0"), eight_gpus()])
@pytest.mark.parametrize("order", [1, -1])
def test_a_gpu_whose_link_states_are_not_in_the_text_has_no_fault(other: str, order: int) -> None:
    of_one_gpu = f"GPU 0: NVIDIA H200 (UUID: GPU-0a1b2c3d-0)\n{ACTIVE}\n"
    first, *samples = registry.decode(TEXT, "".join([other, of_one_gpu][::order]).encode())
    assert isinstance(first, Snapshot)
    assert (first.present, [one.index for one in first.covers["smi.nvlink_inactive"]]) == ((), [0])
    assert len(samples) == (8 if "Replay" in other else 0)


@pytest.mark.parametrize("name", ["NVLink", "Nvlink"])
@pytest.mark.parametrize("state", ["inactive", "inActive"])
def test_a_gpu_whose_links_are_all_reported_as_inactive_is_a_fault(name: str, state: str) -> None:
    message = f"NVML: Unable to retrieve {name} information as all links are {state}"
    body = eight_gpus(ACTIVE).replace(f"d-3)\n{ACTIVE}", f"d-3)\n{message}")
    found = snapshot(TEXT, body)
    assert [(one.code, one.component.index) for one in found.present] == [("smi.nvlink_inactive", 3)]


@pytest.mark.parametrize("lines", [ACTIVE, "\t Link 0: Replay Errors: 0"])
def test_a_lost_gpu_is_reported_beside_a_list_of_links(lines: str) -> None:
    lost = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover it\n"
    for body in (lost + eight_gpus(lines), eight_gpus(lines) + lost):
        first, *others = registry.decode(TEXT, body.encode())
        assert isinstance(first, Snapshot)
        assert [(one.code, one.component.pci) for one in first.present] == [("smi.gpu_lost", "0000:02:00")]
        assert set(first.covers) == {"smi.gpu_lost"}
        assert others == list(registry.decode(TEXT, eight_gpus(lines).encode()))
