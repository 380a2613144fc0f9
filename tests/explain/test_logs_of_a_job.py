"""What is read from logs: lines, times, ranks, nodes and trust; and logs that attack the reader."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import chain, repeat

import pytest

from faultbridge.explain.signals.node_log import MAX_DOCUMENT_BYTES, kind_of
from faultbridge.explain.signals.read_files import Evidence, InputFile
from faultbridge.explain.signals.signal import MAX_SIGNALS, Signal, Trust
from tests.explain.corpus_cases import RECEIVED
from tests.explain.verdicts import evidence_in, text_file

pytestmark = pytest.mark.slow

XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus."
MEBIBYTE = 1024 * 1024


def read(*files: InputFile) -> Evidence:
    return evidence_in(files, received_at=RECEIVED)


def pieces_file(name: str, pieces: Iterable[bytes]) -> InputFile:
    return InputFile(name, lambda: iter(pieces), is_job_log=True)


def only(evidence: Evidence) -> Signal:
    (found,) = evidence.signals
    return found


def test_a_signal_has_its_line_time_rank_and_node() -> None:
    found = only(read(text_file("job.err", "start\n2026-02-03 04:05:06,123 [rank9]: KeyError: 'x'\n")))
    assert (found.name, found.line, found.rank, found.node) == ("python.user_error", 2, 9, "n-2")
    assert found.at == datetime(2026, 2, 3, 4, 5, 6, 123000, tzinfo=UTC)
    assert found.trust is Trust.JOB


@pytest.mark.parametrize(
    "line",
    [
        "[2026-02-03 04:05:06,000] KeyError: 'x'",
        "2026-02-03T04:05:06Z KeyError: 'x'",
        "2026-02-03T05:05:06+01:00 KeyError: 'x'",
        "2026/02/03 04:05:06 KeyError: 'x'",
        "E0203 04:05:06.123 7 api.py:1] KeyError: 'x'",
        "[rank0]:[E203 04:05:06.9 a.cpp:7] KeyError: 'x'",
        "Feb  3 04:05:06 n-1 python[7]: KeyError: 'x'",
        "2026-02-03 04:05:06 loading\nno time here\nKeyError: 'x'",
    ],
)
def test_the_time_of_a_line_is_its_own_or_that_of_the_closest_earlier_line(line: str) -> None:
    found = only(read(text_file("job.err", line, is_job_log=True)))
    assert found.at is not None
    assert found.at.replace(microsecond=0) == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


def test_progress_without_a_time_does_not_take_the_time_of_a_later_error() -> None:
    later = "2026-02-03 04:05:06 KeyError: 'x'\n2026-02-03 04:15:06 CUDA out of memory\n"
    (span,) = read(text_file("job.err", f"2026-02-03 04:05:00 start\nstep 7 of 9\n{later}")).spans
    assert (span.progress_at, span.progress_line) == (datetime(2026, 2, 3, 4, 5, tzinfo=UTC), 2)


def test_the_rank_is_that_of_the_file_where_the_line_has_none() -> None:
    found = only(read(text_file("logs/rank_17.err", "KeyError: 'x'\n")))
    assert (found.rank, found.node) == (17, "n-3")


def test_text_after_a_progress_bar_is_read() -> None:
    bars = "".join(f"\r{at}% done, loss=2.1" for at in range(2000))
    found = only(read(text_file("job.err", f"{bars}\rKeyError: 'x'\n")))
    assert (found.name, found.text) == ("python.user_error", "KeyError: 'x'")


def test_a_repeated_line_is_one_signal_with_a_count() -> None:
    found = only(read(text_file("job.err", "2026-02-03 04:05:06 KeyError: 'x'\n" * 500)))
    assert (found.count, found.line) == (500, 1)


def test_the_kernel_log_of_a_node_is_evidence_with_its_line_and_node() -> None:
    found = only(
        read(text_file("kern.log", f"Feb  3 04:05:06 n-7 kernel: audit: x\nFeb  3 04:05:07 n-7 kernel: {XID}\n"))
    )
    assert (found.name, found.line, found.node, found.trust) == ("xid.79", 2, "n-7", Trust.NODE)


def test_the_caller_names_the_node_of_a_log_without_host_names() -> None:
    found = only(read(text_file("dmesg.txt", f"[ 12.345678] {XID}\n", "n-8")))
    assert (found.name, found.node, found.at) == ("xid.79", "n-8", None)


@pytest.mark.parametrize(
    "text",
    [
        f"step 1 loss=2.0\n{XID}\nstep 2 loss=2.0\n",
        f"Feb  3 04:05:06 n-7 kernel: {XID}\nTraceback (most recent call last):\n",
        f"[ 12.345678] {XID}\n" * 3 + "[rank0]: KeyError: 'x'\n",
        f"{XID}\n",
    ],
)
def test_a_kernel_line_among_the_lines_of_a_program_is_a_claim(text: str) -> None:
    found = read(text_file("job.err", text))
    assert {one.trust for one in found.signals} == {Trust.JOB}
    assert "claim.xid" in {one.name for one in found.signals}


def test_a_log_given_as_the_job_log_is_never_evidence_of_a_node() -> None:
    text = f"[ 12.345678] {XID}\n[ 12.345679] audit: x\n"
    assert kind_of("x.log", text.encode()) == "kernel-log"
    assert only(read(text_file("x.log", text, is_job_log=True))).name == "claim.xid"


def test_program_output_far_into_a_kernel_log_makes_it_a_log_of_the_job() -> None:
    quiet = "".join(f"[{at:6d}.000001] audit: x\n" for at in range(9000))
    found = read(text_file("x.log", quiet + "[rank0]: KeyError: 'x'\n" + f"[ 9999.000001] {XID}\n"))
    assert {one.name for one in found.signals} == {"python.user_error", "claim.xid"}


def test_a_binary_file_is_skipped_and_named() -> None:
    found = read(text_file("core.1234", random.Random(1).randbytes(200_000)))
    assert (found.signals, found.skipped) == ((), ("core.1234: not text",))


def test_a_log_with_binary_parts_is_read() -> None:
    body = b"step 1 loss=2.0\n" * 99 + random.Random(1).randbytes(9_000) + b"\nKeyError: 'x'\n"
    assert only(read(text_file("job.err", body, is_job_log=True))).name == "python.user_error"


def test_a_damaged_dump_is_listed_and_the_other_files_are_read() -> None:
    found = read(text_file("_dump_0", b"\x80\x02cos\nsystem\n."), text_file("job.err", "KeyError: 'x'\n"))
    assert [one.partition(":")[0] for one in found.skipped] == ["_dump_0"]
    assert "opcode" in found.skipped[0]
    assert [one.name for one in found.signals] == ["python.user_error"]


def test_an_empty_file_has_no_signals() -> None:
    assert read(text_file("job.err", "")).signals == ()


def progress(count: int, head: bytes = b"") -> InputFile:
    """Return a file of so many mebibytes of progress lines after a head."""
    line = b"2026-02-03 04:05:06 step 7 loss=2.123 grad_norm=0.7 tokens=123456\n"
    piece = line * (MEBIBYTE // len(line))
    return InputFile("job.err", lambda: chain([head] if head else [], repeat(piece, count)))


def peak(file: InputFile) -> int:
    tracemalloc.start()
    read(file)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_log() -> None:
    assert peak(progress(40)) < peak(progress(10)) + MEBIBYTE


@pytest.mark.nightly
def test_a_log_of_a_gigabyte_takes_the_memory_of_a_short_one() -> None:
    assert peak(progress(1024)) < peak(progress(10)) + MEBIBYTE


@pytest.mark.nightly
@pytest.mark.parametrize(
    "head",
    [
        b'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n',
        b'{"version": "3.3.5", "DCGM GPU Diagnostic": {"test_categories": [\n',
    ],
)
def test_a_log_that_starts_like_a_document_takes_no_more_memory_than_the_longest_document(head: bytes) -> None:
    assert peak(progress(60, head)) < 3 * MAX_DOCUMENT_BYTES


def test_a_line_without_an_end_is_read_in_bounded_pieces() -> None:
    found = read(pieces_file("job.err", [b"x" * MEBIBYTE] * 12 + [b" KeyError: 'x'\n"]))
    assert only(found).name == "python.user_error"


def test_an_error_without_end_is_read_in_part_and_its_first_and_last_lines_are_kept() -> None:
    first, last = "[rank7]: KeyError: 'x'\n", "[rank8]: KeyError: 'x'\n"
    middle = "[rank9]: KeyError: 'y'\n" * 60_000
    found = read(pieces_file("job.err", [(first + middle).encode(), middle.encode(), (middle + last).encode()])).signals
    assert [one.rank for one in found] == [7, 9, 8]
    assert sum(one.count for one in found) < 20_000


def test_a_log_of_distinct_errors_keeps_the_newest() -> None:
    lines = "".join(f"[rank{rank}]: KeyError: 'x'\n" for rank in range(MAX_SIGNALS + 100))
    found = read(text_file("job.err", lines)).signals
    assert (len(found), found[-1].rank) == (MAX_SIGNALS, MAX_SIGNALS + 99)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "trap",
    [
        "CUDA error: " * 600,
        "Error: " * 1000,
        "NET/IB : " * 900,
        "loss: nan" * 800,
        "*** JOB " + "x " * 4000,
        "Watchdog " * 900,
    ],
)
def test_a_line_that_repeats_a_known_text_is_read_in_a_bounded_number_of_steps(trap: str) -> None:
    found = read(text_file("job.err", f"{trap}\n" * 200 + "KeyError: 'x'\n", is_job_log=True))
    assert "python.user_error" in {one.name for one in found.signals}


@pytest.mark.parametrize("form", ["export", "json"])
def test_a_journal_covers_the_times_of_its_entries(form: str) -> None:
    def entry(second: int, text: str) -> str:
        fields = {"__REALTIME_TIMESTAMP": f"17700915{second:02d}000000", "_TRANSPORT": "kernel", "MESSAGE": text}
        if form == "json":
            return json.dumps({**fields, "_HOSTNAME": "n-7"}) + "\n"
        return "".join(f"{name}={value}\n" for name, value in fields.items()) + "_HOSTNAME=n-7\n\n"

    forged = '2020-01-01T00:00:00Z x __REALTIME_TIMESTAMP=1500000000000000 "__REALTIME_TIMESTAMP":"1500000000000000"'
    body = entry(6, forged) + entry(7, XID) + entry(9, forged)
    (span,) = read(text_file("journal.txt", body, "n-7")).spans
    assert (span.first_at, span.last_at) == (
        datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC),
        datetime(2026, 2, 3, 4, 5, 9, tzinfo=UTC),
    )
