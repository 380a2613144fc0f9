"""Reads the output of the EFA tests: whether each device returned all messages, and how fast.

Grammar: `domain: NAME`, a row of `fi_pingpong`, and `exit: STATUS` for each device; `#` starts a comment. In a row,
`=N` means that as many messages were acknowledged as were sent. Units: MB/s. Errors: `Rejected` without a complete
result for each device. Source: libfabric 1.17.
"""

from __future__ import annotations

import re

from faultbridge.dataclass import dataclass
from faultbridge.decoders.verification.sections import TIMED_OUT
from faultbridge.errors import Rejected

_DOMAIN = re.compile(r"^domain: (\S{1,64})$", re.MULTILINE)
_EXIT = re.compile(r"^exit: (\d{1,3})$", re.MULTILINE)
_ROW = re.compile(
    r"^\d{1,9}[kmg]? {1,16}(\d{1,9}) {1,16}(=?\d{1,9}) {1,16}\S{1,16} {1,16}\S{1,16}s {1,16}"
    r"(\d{1,9}\.\d{1,6}) .{1,64}$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Loopback:
    """The result of one EFA device: its bandwidth in MB/s, or None and the reason why it has none.

    `complete` is False if the test of the device was stopped because it took too long.
    """

    domain: str
    megabytes_per_second: float | None
    reason: str = ""
    complete: bool = True


def read_loopback(text: str) -> tuple[Loopback, ...]:
    """Return the result of each EFA device, in the order of the output.

    Raises `Rejected` if a device was tested twice, or if the output lacks the end of a test.
    """
    parts = _DOMAIN.split(text)
    names = parts[1::2]
    if len(set(names)) != len(names):
        raise Rejected("repeated", "a device was tested twice")
    return tuple(_result(name, body) for name, body in zip(names, parts[2::2], strict=True))


def _result(domain: str, body: str) -> Loopback:
    statuses, rows = _EXIT.findall(body), _ROW.findall(body)
    if len(statuses) != 1:
        raise Rejected("incomplete", f"the test of {domain} did not end")
    if statuses[0] != "0":
        lines = (line.strip() for line in body.splitlines())
        said = next((line for line in lines if line and not line.startswith(("bytes", "#", "exit: "))), "")
        complete = int(statuses[0]) not in TIMED_OUT
        reason = f"exit status {statuses[0]}" if complete else "not complete in time"
        return Loopback(domain, None, f"{reason}: {said[:120]}".removesuffix(": "), complete)
    if len(rows) != 1 or rows[0][1] != f"={rows[0][0]}":
        return Loopback(domain, None, "not every message came back")
    return Loopback(domain, float(rows[0][2]))
