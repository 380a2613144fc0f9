"""What is left out of a kernel log unread: the same lines whatever the log has taught, and none that matters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decoders.kernel_lines import telling
from faultbridge.decoders.kernel_sieve import Sieve

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus."
CHATTER = ("audit: type=1400 audit(1): apparmor", "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready", "NVRM: ")
MATTERS = (
    XID,
    "nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Down",
    "eth0: Link is Down",
    "INFO: task python:1234 blocked for more than 120 seconds.",
    "md/raid1:md0: Disk failure on nvme0n1, disabling device.",
    "blk_update_request: I/O error, dev nvme1n1, sector 0",
)
BENIGN = (
    "nvidia-nvswitch3: open (major=508)",
    "eth0: renamed from veth0",
    "INFO: NMI handler took too long",
    "docker0: port 1(veth1) entered forwarding state",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
    *CHATTER,
)
PREFIXES = (
    "[{0:12.6f}] ",
    "Feb  3 04:05:06 gpu-1 kernel: ",
    "Feb  3 04:05:06 gpu-1 kernel: [{0:12.6f}] ",
    "<6>[{0:12.6f}] ",
    "kern  :warn  : 2026-02-03T04:05:06,502716+00:00 ",
)


def piece(messages: list[str], prefix: str) -> bytes:
    return "".join(prefix.format(float(number)) + text + "\n" for number, text in enumerate(messages)).encode()


@pytest.mark.parametrize("prefix", PREFIXES)
@given(
    pieces=st.lists(
        st.lists(st.sampled_from((*MATTERS, *BENIGN)), min_size=1, max_size=12).map(lambda found: found * 3), max_size=4
    )
)
def test_what_a_log_has_taught_changes_no_line_that_is_found(prefix: str, pieces: list[list[str]]) -> None:
    taught = Sieve()
    for _ in range(2):
        taught.concerning(piece([*CHATTER * 200], prefix))
    for messages in pieces:
        lines = telling(taught.concerning(piece(messages, prefix)))
        assert lines == [prefix.format(float(number)) + text for number, text in enumerate(messages) if text in MATTERS]


def test_words_that_most_lines_begin_with_are_passed_over_once_they_are_known() -> None:
    sieve = Sieve()
    chatter = piece([*CHATTER[:2]] * 400, PREFIXES[0])
    sieve.concerning(chatter)
    assert sieve.concerning(chatter) == ""
    assert XID in sieve.concerning(chatter + piece([XID], PREFIXES[0]) + chatter)


def test_a_piece_with_another_kind_of_prefix_is_read_whole() -> None:
    text = f"<3>1 2026-02-03T04:05:06.502Z gpu-1 kernel - - - {XID}\n"
    assert Sieve().concerning(text.encode()) == text
