"""`kernel-log`: journal entries with one field a line, as `journalctl -o export` and `-o verbose` print them."""

from __future__ import annotations

import pytest

from faultbridge.decode import registry
from faultbridge.decode.frames.journal import text_fields
from faultbridge.model.fault_enums import Action
from faultbridge.model.faults import Fault
from tests.decoders.builders import AT, export, verbose

XID = "NVRM: Xid (PCI:0000:{:02x}:00): 79, pid=1, GPU has fallen off the bus."


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
    found = registry.read_pieces("kernel-log", pieces).observations
    assert [(one.observed_at, one.node) for one in found] == [(AT, "gpu-1")] * 40


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


def binary(name: bytes, value: bytes) -> bytes:
    return name + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"


def with_binary_field(name: bytes, value: bytes) -> bytes:
    """Return a journal in which the entry of a program has a binary field, and the kernel reports an Xid after it."""
    head = b"__CURSOR=s=a0\n__REALTIME_TIMESTAMP=1770091506000000\n_TRANSPORT=stdout\n"
    return head + binary(name, value) + b"\n" + export(XID.format(1)).encode()


BINARY = [
    (b"MESSAGE", b"Traceback (most recent call last):\n  x"),
    (b"MESSAGE", b"x\n\n" + FORGED),
    (b"_CMDLINE", b"python\0-c\0" + FORGED),
    (b"COREDUMP", bytes(range(256)) * 400),
    (b"MESSAGE", b""),
]


@pytest.mark.parametrize(("name", "value"), BINARY)
@pytest.mark.parametrize("size", [None, 1, 100])
def test_an_entry_after_a_binary_field_is_the_kernels(name: bytes, value: bytes, size: int | None) -> None:
    body = with_binary_field(name, value)
    pieces = [body] if size is None else [body[at : at + size] for at in range(0, len(body), size)]
    read = registry.read_pieces("kernel-log", pieces)
    acted = [one for one in read.observations if isinstance(one, Fault) and one.action is not Action.NONE]
    assert [(one.component.pci, one.node, one.observed_at) for one in acted] == [("0000:01:00", "gpu-1", AT)]
    assert read.notes == ()
    assert registry.recognize(body) == "kernel-log"


def test_a_binary_message_of_the_kernel_is_read() -> None:
    head = b"__CURSOR=s=a0\n_TRANSPORT=kernel\n_HOSTNAME=gpu-1\n"
    body = head + binary(b"MESSAGE", b"\x1b[31m" + XID.format(1).encode() + b"\n") + b"\n"
    (found,) = registry.decode("kernel-log", body)
    assert isinstance(found, Fault)
    assert (found.code, found.action is Action.NONE) == ("xid.79", False)


def test_the_lines_after_a_binary_field_keep_their_numbers() -> None:
    body = with_binary_field(b"MESSAGE", b"one\ntwo\n" * 5)
    text = b"".join(text_fields([body]))
    assert text.count(b"\n") == body.count(b"\n")
    assert text.splitlines()[-5:] == body.splitlines()[-5:]
