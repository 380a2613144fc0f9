"""`nvidia-smi-xml`: a health snapshot covers only readable fields."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Snapshot
from tests.decoders.captures import decoded

CODES = ("smi.recovery_action", "smi.ecc_uncorrectable", "smi.row_remap_pending", "smi.fabric_unhealthy")


def snapshot(body: str) -> Snapshot:
    (found,) = registry.decode("nvidia-smi-xml", body.encode())
    assert isinstance(found, Snapshot)
    return found


def sample(name: str) -> Snapshot:
    (found,) = decoded("nvidia-smi-xml", name)
    assert isinstance(found, Snapshot)
    return found


def gpu(fields: str, head: str = "") -> Snapshot:
    return snapshot(f'<nvidia_smi_log>{head}<gpu id="00000000:53:00.0">{fields}</gpu></nvidia_smi_log>')


def covered(found: Snapshot) -> dict[str, list[str | None]]:
    return {code: [one.pci for one in components] for code, components in found.covers.items()}


def test_a_lost_gpu_is_not_a_healthy_gpu() -> None:
    found = sample("smi-lost-and-pending.xml")
    lost = "0000:64:00"
    about = [fault.code for fault in found.present if fault.component.pci == lost]
    assert about == ["smi.gpu_lost"]
    assert [code for code, where in covered(found).items() if lost in where] == ["smi.gpu_lost"]


def test_a_responding_gpu_covers_the_code_of_a_lost_gpu() -> None:
    assert covered(sample("smi-lost-and-pending.xml"))["smi.gpu_lost"] == ["0000:53:00", "0000:64:00", "0000:75:00"]


XML = (
    '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<attached_gpus>1</attached_gpus>\n'
    '<gpu id="00000000:53:00.0">\n<processes><process_name>NAME</process_name></processes>\n'
    "</gpu>\n</nvidia_smi_log>\n"
)
MESSAGES = {
    "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system\n": "smi.gpu_lost",
    "WARNING: infoROM is corrupted at gpu 0000:02:00.0\n": "smi.inforom_corrupted",
}


@pytest.mark.parametrize(("message", "code"), MESSAGES.items(), ids=MESSAGES.values())
@pytest.mark.parametrize("place", ["<?xml", "<gpu id", "</gpu>", ""])
def test_an_error_message_beside_or_within_the_document_is_a_fault(message: str, code: str, place: str) -> None:
    found = snapshot(XML.replace(place, message + place, 1) if place else XML + message)
    assert [(one.code, one.component.pci) for one in found.present] == [(code, "0000:02:00")]
    assert covered(found)["smi.gpu_lost"] == ["0000:02:00"] * (code == "smi.gpu_lost") + ["0000:53:00"]
    assert found.devices == (), "the GPU of the message is not listed, so the list is not complete"


def test_a_message_is_a_fault_also_if_the_document_has_no_gpu() -> None:
    found = snapshot("No devices were found\n<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>")
    assert [one.code for one in found.present] == ["smi.no_devices"]


def test_the_name_of_a_process_is_no_message() -> None:
    found = snapshot(XML.replace("NAME", "python\nNo devices were found\n"))
    assert (found.present, len(found.devices)) == ((), 1)


def test_other_text_beside_the_document_is_rejected() -> None:
    with pytest.raises(Rejected):
        snapshot("Terminated\n" + XML)


def test_an_unreadable_field_clears_nothing() -> None:
    found = gpu("<gpu_recovery_action>N/A</gpu_recovery_action><remapped_rows>N/A</remapped_rows>")
    assert covered(found) == {"smi.gpu_lost": ["0000:53:00"]}


def test_a_healthy_field_clears_its_fault() -> None:
    fields = (
        "<gpu_recovery_action>None</gpu_recovery_action>"
        "<ecc_errors><volatile><dram_uncorrectable>0</dram_uncorrectable></volatile></ecc_errors>"
        "<remapped_rows><remapped_row_pending>No</remapped_row_pending></remapped_rows>"
        "<fabric><health><summary>Healthy</summary></health></fabric>"
    )
    found = gpu(fields)
    assert found.present == ()
    assert set(CODES) <= set(found.covers)


def test_lifetime_counters_are_no_faults() -> None:
    found = gpu("<ecc_errors><aggregate><dram_uncorrectable>71</dram_uncorrectable></aggregate></ecc_errors>")
    assert found.present == ()


def test_the_available_error_counters_are_added() -> None:
    fault = sample("smi-lost-and-pending.xml").present[0]
    assert fault.code == "smi.ecc_uncorrectable"
    assert fault.message == "5 uncorrectable ECC errors since the driver was loaded."
    assert fault.attributes == {"sram_uncorrectable_secded": "2", "dram_uncorrectable": "3"}


@pytest.mark.parametrize(
    ("asked", "severity", "action"),
    [
        ("Reset", Severity.FATAL, Action.RESET_GPU),
        ("Reboot", Severity.FATAL, Action.REBOOT_NODE),
        ("Drain and Reset", Severity.ERROR, Action.RESET_GPU),
        ("Recover the IMEX domain", None, None),
    ],
)
def test_the_gpus_recovery_action_decides(asked: str, severity: Severity | None, action: Action | None) -> None:
    (fault,) = gpu(f"<gpu_recovery_action>{asked}</gpu_recovery_action>").present
    assert (fault.code, fault.severity, fault.action) == ("smi.recovery_action", severity, action)
    assert fault.attributes["recovery_action_text"] == asked


def test_a_deprecated_field_is_ignored() -> None:
    text = "Requested functionality has been deprecated"
    found = gpu(f"<gpu_reset_status><reset_required>{text}</reset_required></gpu_reset_status>")
    assert "smi.recovery_action" not in found.covers


def test_a_required_reset_is_found_in_any_field() -> None:
    found = gpu("<gpu_recovery_action>None</gpu_recovery_action><fan_speed>[GPU requires reset]</fan_speed>")
    assert [(fault.code, fault.action) for fault in found.present] == [("smi.recovery_action", Action.RESET_GPU)]


def test_a_fabric_registration_in_progress_is_not_covered() -> None:
    found = gpu("<fabric><state>In Progress</state><status>N/A</status></fabric>")
    assert "smi.fabric_failed" not in found.covers


def test_an_unhealthy_route_is_found_after_a_completed_registration() -> None:
    fault = next(one for one in sample("smi-lost-and-pending.xml").present if one.code == "smi.fabric_unhealthy")
    assert fault.attributes == {"route_unhealthy": "True", "summary": "Unhealthy"}


def test_the_devices_are_all_gpus_of_the_node_or_none() -> None:
    whole = sample("smi-lost-and-pending.xml")
    assert [(one.index, one.pci, one.serial) for one in whole.devices] == [
        (0, "0000:53:00", "1650000000001"),
        (1, "0000:64:00", "1650000000002"),
        (2, "0000:75:00", "1650000000003"),
    ]
    part = sample("smi-old-reset-status.xml")
    assert part.devices == ()
    assert part.present[0].component.index is None


def test_the_domain_of_a_pci_address_is_kept() -> None:
    assert covered(sample("smi-healthy-old.xml"))["smi.gpu_lost"] == ["0008:06:00"]


def test_the_nodes_local_time_is_read_as_utc() -> None:
    assert sample("smi-lost-and-pending.xml").observed_at == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert gpu("", "<timestamp>yesterday</timestamp>").observed_at is None


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    '<nvidia_smi_log><gpu id="1">&b;</gpu></nvidia_smi_log>'
)
FILE = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><nvidia_smi_log><gpu id="1">&a;</gpu></nvidia_smi_log>'
HIDDEN = '<?xml version="1.0" encoding="utf-7"?>' + BOMB


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (BOMB, "entity_declaration"),
        (FILE, "entity_declaration"),
        (HIDDEN, "entity_declaration"),
        ("<nvidia_smi_log><gpu>&undeclared;</gpu></nvidia_smi_log>", "malformed_xml"),
        ('<nvidia_smi_log><gpu id="00000000:53:00.0"><fan_speed>ERR', "malformed_xml"),
        ("<html></html>", "wrong_shape"),
        ("<nvidia_smi_log></nvidia_smi_log>", "no_framing"),
        ("plain text", "no_framing"),
        ("<nvidia_smi_log>" + "<a>" * 40 + "</a>" * 40 + "</nvidia_smi_log>", "too_deep"),
        ("<nvidia_smi_log>" + "<a>" * 200_000 + "</a>" * 200_000 + "</nvidia_smi_log>", "too_dense"),
        ("<nvidia_smi_log>" + "<deeper_still>" * 9000 + "</deeper_still>" * 9000 + "</nvidia_smi_log>", "too_deep"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else str(value),
)
def test_xml_that_is_not_one_plain_whole_log_is_rejected(body: str, reason: str) -> None:
    with pytest.raises(Rejected) as rejected:
        snapshot(body)
    assert rejected.value.reason == reason


def test_xml_beyond_the_limit_of_its_size_is_rejected() -> None:
    with pytest.raises(Rejected) as rejected:
        snapshot("<nvidia_smi_log>" + " " * (17 * 1024 * 1024) + "</nvidia_smi_log>")
    assert rejected.value.reason == "too_large"


def test_the_doctype_that_nvidia_smi_prints_is_accepted() -> None:
    head = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n'
    assert snapshot(f'{head}<nvidia_smi_log><gpu id="00000000:53:00.0"/></nvidia_smi_log>').present == ()
