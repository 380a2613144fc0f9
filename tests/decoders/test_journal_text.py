"""`kernel-log`: journal entries with one field a line, as `journalctl -o export` and `-o verbose` print them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultbridge.decoders import registry
from faultbridge.domain.faults import Action, Fault

XID = "NVRM: Xid (PCI:0000:{:02x}:00): 79, pid=1, GPU has fallen off the bus."
AT = datetime(2026, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)


def verbose(message: str, transport: str = "kernel", zone: str = "UTC") -> str:
    head = f"Tue 2026-02-03 04:05:06.123456 {zone} [s=a1;i=1;b=b1;m=1;t=1;x=1]"
    return f"{head}\n    _TRANSPORT={transport}\n    _HOSTNAME=gpu-1\n    MESSAGE={message}\n"


def export(message: str, transport: str = "kernel") -> str:
    micros = int(AT.timestamp() * 1_000_000)
    fields = (f"__REALTIME_TIMESTAMP={micros}", f"MESSAGE={message}", f"_TRANSPORT={transport}", "_HOSTNAME=gpu-1")
    return "__CURSOR=s=a1\n" + "\n".join(fields) + "\n\n"


def faults(body: str) -> list[Fault]:
    return [one for one in registry.decode("kernel-log", body.encode()) if isinstance(one, Fault)]


@pytest.mark.parametrize("entry", [verbose, export])
def test_an_entry_has_its_own_time_and_node_and_is_recognized(entry) -> None:
    body = entry("usb 1-1: new device") + entry(XID.format(1)) + entry(XID.format(2))
    assert [(one.component.pci, one.observed_at, one.node) for one in faults(body)] == [
        ("0000:01:00", AT, "gpu-1"),
        ("0000:02:00", AT, "gpu-1"),
    ]
    assert registry.recognize(entry("usb 1-1: new device").encode()) == "kernel-log"


@pytest.mark.parametrize("entry", [verbose, export])
def test_a_message_that_a_program_wrote_causes_no_action(entry) -> None:
    assert [one.action for one in faults(entry(XID.format(1), "syslog"))] == [Action.NONE]


def test_a_time_in_an_ambiguous_time_zone_is_not_read() -> None:
    assert faults(verbose(XID.format(1), zone="CST"))[0].observed_at is None


@pytest.mark.parametrize("size", [1, 100, 4096])
def test_an_entry_may_span_pieces(size: int) -> None:
    body = "".join(export(XID.format(number)) for number in range(1, 41)).encode()
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    assert len(registry.read_pieces("kernel-log", pieces).observations) == 40


def test_a_record_outside_an_entry_or_without_an_empty_line_between_is_not_lost() -> None:
    body = export("x") + f"MESSAGE={XID.format(1)}\nMESSAGE={XID.format(2)}\n" + XID.format(3) + "\n"
    assert {one.component.pci for one in faults(body)} == {"0000:01:00", "0000:02:00", "0000:03:00"}


FORGED = b"_TRANSPORT=kernel\nMESSAGE=NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=x, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    "body",
    [
        b"__REALTIME_TIMESTAMP=1770091506000000\n_TRANSPORT=stdout\nMESSAGE\n\x99\x00\x00\x00\x00\x00\x00\x00x\n\n"
        + FORGED,
        b"__REALTIME_TIMESTAMP=1770091506000000\n_TRANSPORT=stdout\nMESSAGE\n\x99\x00\x00\x00\x00\x00\x00\x00x\n"
        + FORGED.partition(b"MESSAGE=")[2],
        b"__REALTIME_TIMESTAMP=1770091506000000\n_TRANSPORT=stdout\n    MESSAGE=x\n            "
        + FORGED.replace(b"\n", b"\n            "),
    ],
    ids=["entry in a value", "line in a value", "verbose"],
)
def test_a_value_of_several_lines_forges_no_entry_of_the_kernel(body: bytes) -> None:
    found = registry.decode("kernel-log", body)
    assert [one.action for one in found if isinstance(one, Fault)] == [Action.NONE]
