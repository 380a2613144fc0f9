"""Builds the script that runs the tests of a deep verification, and divides its output by test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from faultbridge.data.deep_tests import DeepTest
from faultbridge.dataclass import dataclass

TIMED_OUT = frozenset({124, 137})
"""The exit statuses of `timeout`: the command was ended, or had to be killed."""

NOT_STARTED = 127
"""The exit status of a tool that is not installed, or that lacks a shared library."""

_BEGIN = re.compile(rb"^#faultbridge begin ([a-z-]{1,40})$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """The output of one test, and its exit status. The status is None if the output ends within the test."""

    text: str
    status: int | None

    @property
    def last_line(self) -> str:
        """Return the last line that is not empty, cut to 160 characters, or an empty text if there is none."""
        return next((line.strip()[:160] for line in reversed(self.text.splitlines()) if line.strip()), "")


def script_of(tests: Sequence[DeepTest]) -> tuple[str, ...]:
    """Return the lines of a shell script that runs each test within its time limit and marks its output."""
    lines: list[str] = []
    for test in tests:
        lines += [
            f"echo; echo '#faultbridge begin {test.name}'",
            f"timeout -k 10 {test.seconds} sh -c {shlex.quote(test.script)} 2>&1; status=$?",
            f"echo; echo '#faultbridge end {test.name}' $status",
        ]
    return tuple(lines)


def split(output: bytes) -> tuple[bytes, Mapping[str, Section]]:
    """Return the output before the first test, and a mapping from each test to its section.

    A test that occurs twice has no section, because its output is ambiguous.
    """
    parts = _BEGIN.split(output)
    sections: dict[str, Section] = {}
    names = [name.decode() for name in parts[1::2]]
    for name, body in zip(names, parts[2::2], strict=True):
        text, end, rest = body.decode(errors="replace").partition(f"\n#faultbridge end {name} ")
        status = re.match(r"\d{1,3}$", rest.partition("\n")[0])
        sections[name] = Section(text, int(status[0]) if end and status else None)
    return parts[0], {name: one for name, one in sections.items() if names.count(name) == 1}
