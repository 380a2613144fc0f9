"""Finds the processes that use the GPUs of an instance, so that no diagnostics start beside running work.

The names of processes are text that a user of the instance chooses. They are escaped and cut before they are shown.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection

from faultbridge.dataclass import dataclass

MARKER = "#faultbridge occupied"
MAX_LINES, MAX_NAME, MAX_SHOWN = 20, 100, 5
LIST = "timeout -k 5 20 nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader"
UNKNOWN = "the processes that use the GPUs cannot be listed"

_PROCESS = re.compile(r"(\d{1,10}), *(.*)")


@dataclass(frozen=True, slots=True)
class GpuProcesses:
    """Compute processes on the GPUs of an instance; those whose file has a name in `ignored` are no work."""

    ignored: Collection[str] = ()

    def script(self, *, prove_idle: bool = False) -> tuple[str, ...]:
        """Return the lines of a shell script that end it, with `MARKER`, if a process uses a GPU.

        With `prove_idle`, the script also ends if the processes cannot be listed. Otherwise it then continues.
        """
        names = "|".join(re.escape(name) for name in sorted(self.ignored))
        ours = shlex.quote(rf"^([0-9]+, *(.*/)?({names}))?$" if names else "^$")
        unlisted = '[ -z "$listed" ]' if prove_idle else "false"
        return (
            f"apps=$({LIST} 2>&1) && listed=1 || listed=",
            f"busy=$(printf '%s\\n' \"$apps\" | LC_ALL=C grep -aE '{'' if prove_idle else '^[0-9]+,'}'"
            f" | LC_ALL=C grep -avE {ours} | head -n {MAX_LINES} | LC_ALL=C cut -c1-200)",
            f"if [ -n \"$busy\" ] || {unlisted}; then printf '%s\\n' '{MARKER}' \"$busy\"; exit 0; fi",
        )


NONE_IGNORED = GpuProcesses()


def occupants(output: bytes) -> tuple[str, ...] | None:
    """Return what uses the GPUs, one line of text for each process; None if the script did not end for it."""
    first, *lines = output.decode("ascii", "backslashreplace").splitlines() or [""]
    if first != MARKER:
        return None
    found = [match for line in lines if (match := _PROCESS.fullmatch(line))]
    if not found:
        return (": ".join((UNKNOWN, *map(_printable, lines[:1]))).removesuffix(": "),)
    shown = tuple(f"process {one[1]} uses a GPU: {_printable(one[2])}" for one in found[:MAX_SHOWN])
    return (*shown, f"{len(found) - MAX_SHOWN} more processes") if len(found) > MAX_SHOWN else shown


def _printable(name: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in name)[:MAX_NAME]
