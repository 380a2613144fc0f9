"""Runs the commands of a page in one shell and compares their output with the fragments that the page shows.

python -m tests.docs.commands PAGE...    run pages on the embedded stack that is up
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z", re.DOTALL)
MARK = "=== end of block"
SECONDS = 600


@dataclass(frozen=True)
class Block:
    """One block of commands, the output fragments expected of it, and its line in the page."""

    line: int
    commands: str
    expected: tuple[str, ...] = ()
    not_run: str | None = None


def blocks(page: str) -> list[Block]:
    """Return the `bash` blocks of a page; a `text` block that follows one holds its expected output."""
    found: list[Block] = []
    end_of_last = -1
    for fence in FENCE.finditer(page):
        indent, language, body = fence.groups()
        text = "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        before = page[: fence.start()]
        if language == "bash":
            reason = NOT_RUN.search(before)
            found.append(Block(before.count("\n") + 2, text, not_run=reason[1] if reason else None))
            end_of_last = fence.end()
        elif language == "text" and found and not page[end_of_last : fence.start()].strip():
            last = found[-1]
            found[-1] = Block(last.line, last.commands, tuple(filter(str.strip, text.splitlines())), last.not_run)
    return found


def fits(fragment: str, output: str) -> bool:
    """Return whether a line of the output contains the fragment; `...` stands for any text, blanks for any blanks."""
    parts = [re.escape(" ".join(part.split())) for part in fragment.split("...")]
    pattern = re.compile(".*".join(part.replace(r"\ ", r"\s+") for part in parts))
    return any(pattern.search(" ".join(line.split())) for line in output.splitlines())


def run(page: str, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run all blocks of a page in one shell in the folder; yield one line per failure."""
    wanted = [block for block in blocks(page) if block.not_run is None]
    script = "".join(f"{block.commands}\nstatus=$?; echo; echo '{MARK}' $status\n" for block in wanted)
    ran = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    outputs = re.split(rf"^{MARK} (\d+)\n", ran.stdout, flags=re.MULTILINE)
    if len(outputs) // 2 < len(wanted):
        yield f"the shell ended early: {ran.stdout[-2000:]}"
    for block, output, status in zip(wanted, outputs[0::2], outputs[1::2], strict=False):
        if status != "0":
            yield f"line {block.line}: exit code {status}: {block.commands.strip()}\n{output.strip()}"
        yield from (
            f"line {block.line}: no output line fits {fragment.strip()!r}:\n{output.strip()}"
            for fragment in block.expected
            if not fits(fragment, output)
        )


def environment_of(home: Path | None = None) -> dict[str, str]:
    """Return an environment without AWS settings, in which `faultbridge` and `python3` are those of these tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return kept | {"FAULTBRIDGE_HOME": str(home or ROOT / ".faultbridge"), "FAULTBRIDGE_DOCS": str(ROOT)}


def main(pages: list[str]) -> int:
    """Run pages on the stack that is up; print the failures; return the exit code."""
    failed = 0
    for name in pages:
        with tempfile.TemporaryDirectory() as folder:
            found = list(run(Path(name).read_text(encoding="utf-8"), Path(folder), environment_of()))
        failed += len(found)
        sys.stdout.writelines(f"{name}: {failure}\n" for failure in found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
