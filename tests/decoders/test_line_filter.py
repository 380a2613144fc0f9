"""The filter of harmless lines, and patterns that are compiled at their first use."""

from __future__ import annotations

import re
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode.frames.values import lazy_pattern
from faultbridge.decode.kernel.line_filter import BenignLineFilter, matching_lines

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, GPU has fallen off the bus."
FREQUENT = ("audit: type=1400 audit(1): apparmor", "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready", "NVRM: ")
RELEVANT = (
    XID,
    "nvidia-nvswitch3: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Down",
    "eth0: Link is Down",
    "INFO: task python:1234 blocked for more than 120 seconds.",
    "md/raid1:md0: Disk failure on nvme0n1, disabling device.",
    "blk_update_request: I/O error, dev nvme1n1, sector 0",
)
HARMLESS = (
    "nvidia-nvswitch3: open (major=508)",
    "eth0: renamed from veth0",
    "INFO: NMI handler took too long",
    "docker0: port 1(veth1) entered forwarding state",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05",
    *FREQUENT,
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


@pytest.mark.slow
@pytest.mark.parametrize("prefix", PREFIXES)
@given(
    pieces=st.lists(
        st.lists(st.sampled_from((*RELEVANT, *HARMLESS)), min_size=1, max_size=12).map(lambda found: found * 3),
        max_size=4,
    )
)
def test_learned_words_never_change_the_lines_found(prefix: str, pieces: list[list[str]]) -> None:
    trained = BenignLineFilter()
    for _ in range(2):
        trained.remaining(piece([*FREQUENT * 200], prefix))
    for messages in pieces:
        lines = matching_lines(trained.remaining(piece(messages, prefix)))
        assert lines == [
            prefix.format(float(number)) + text for number, text in enumerate(messages) if text in RELEVANT
        ]


def test_lines_with_learned_starts_are_skipped() -> None:
    line_filter = BenignLineFilter()
    frequent = piece([*FREQUENT[:2]] * 400, PREFIXES[0])
    line_filter.remaining(frequent)
    assert line_filter.remaining(frequent) == ""
    assert XID in line_filter.remaining(frequent + piece([XID], PREFIXES[0]) + frequent)


def test_a_piece_with_an_unknown_prefix_is_returned_unchanged() -> None:
    text = f"<3>1 2026-02-03T04:05:06.502Z gpu-1 kernel - - - {XID}\n"
    assert BenignLineFilter().remaining(text.encode()) == text


def test_a_pattern_is_compiled_once_and_not_before_its_first_use() -> None:
    with mock.patch.object(re, "compile", wraps=re.compile) as compiled:
        pattern = lazy_pattern(r"(a+)b", re.IGNORECASE)
        assert compiled.call_count == 0
        assert [pattern.match(text) is not None for text in ("AAB", "b", "ab")] == [True, False, True]
        assert compiled.call_count == 1


def test_a_pattern_has_what_the_compiled_one_has() -> None:
    pattern = lazy_pattern(rb"(?P<name>a+)b")
    assert pattern.sub(b"-", b"aab") == b"-"
    assert pattern.pattern == rb"(?P<name>a+)b"
    assert pattern.groupindex == {"name": 1}
    with pytest.raises(AttributeError):
        pattern.unknown  # noqa: B018 - the access raises
