"""Converts the table of `dcgmi diag -r N` to the structure of its JSON output.

Grammar: `| Memory | Pass - GPUs: 1, 2 |`, or `| memory | Fail |` with `| | GPU0: Fail |` below. A row `| Warning | text
|` is split after 45 characters, even within a word. Source: DCGM's documentation and tables in public reports, DCGM 2
to 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from faultbridge.dataclass import dataclass

_TITLE = re.compile(r"^\| Diagnostic {1,40}\| Result {1,64}\|", re.MULTILINE)
_ROW = re.compile(r"^\|([^|\n]{27})\|([^|\n]{48})(?:\||$)", re.MULTILINE)
_STATUS = re.compile(r"(?:GPU ?(\d{1,3}): )?(Pass|Fail|Warn|Skip)\w{0,4}(?: - (?:All|GPUs?: ([\d, ]{1,256})))?$")
_TEXT_WIDTH = 46
_GPU = re.compile(r"\bGPU ?(\d{1,3})\b")
_WORST = ("Fail", "Warn", "Skip", "Pass")


@dataclass(slots=True)
class _Test:
    """One test of the table.

    `outcomes` maps each outcome to the GPUs that have it; an empty set means that the table names none. `texts` are the
    warnings and errors of the test: for each of them, the first cell of its row, followed by the pieces of its text.
    """

    name: str
    outcomes: dict[str, set[str]] = field(default_factory=dict)
    texts: list[list[str]] = field(default_factory=list)

    def results(self) -> Iterator[Mapping[str, Any]]:
        """Yield the results of the test in the structure of the JSON output.

        - Each warning gives one result, with the worst outcome of the test. If the warning names no GPU, its result
          names no GPU either, and replaces the results of all GPUs that have the worst outcome.
        - Each listed GPU that no warning is about gives one result, with the outcome of that GPU.
        - An outcome without listed GPUs gives one result that names no GPU. It gives none if it is the worst outcome
          and the test has a warning.
        """
        status = next((one for one in _WORST if one in self.outcomes), "Fail")
        explained: set[str] = set()
        for name, *chunks in self.texts:
            text = "".join(chunks).strip()
            gpu = _GPU.search(name) or _GPU.search(text)
            explained |= {gpu[1]} if gpu else self.outcomes.get(status, set())
            yield {"status": status, "gpu_ids": gpu[1] if gpu else "", "warnings": [{"warning": text}]}
        for outcome, gpus in self.outcomes.items():
            is_explained = outcome == status and (self.texts or gpus)
            yield from ({"status": outcome, "gpu_ids": one} for one in sorted(gpus - explained))
            if not gpus and not is_explained:
                yield {"status": outcome, "gpu_ids": ""}


def is_diag_table(text: str) -> bool:
    """Return whether a text is the table of `dcgmi diag`."""
    return _TITLE.search(text) is not None


def report_of_table(text: str) -> Mapping[str, Any] | None:
    """Convert the table of a diagnostics run to the structure of its JSON output; None for other text."""
    if not is_diag_table(text):
        return None
    tests = [
        {"name": test.name, "results": list(test.results())} for test in _tests(_ROW.finditer(text)) if test.outcomes
    ]
    return {"DCGM Diagnostic": {"test_categories": [{"category": "", "tests": tests}]}}


def _tests(rows: Iterable[re.Match[str]]) -> list[_Test]:
    found = [_Test("unnamed")]
    in_text = False
    for row in rows:
        name, cell = row[1].strip(), row[2]
        outcome = _STATUS.match(cell.strip())
        if outcome is not None:
            if name:
                found.append(_Test(name[:64]))
            named = outcome[1] or outcome[3] or ""
            found[-1].outcomes.setdefault(outcome[2], set()).update(re.findall(r"\d{1,3}", named))
            in_text = False
        elif name.startswith(("Warning", "Error")):
            found[-1].texts.append([name, cell[1:_TEXT_WIDTH]])
            in_text = True
        elif in_text and not name:
            found[-1].texts[-1].append(cell[1:_TEXT_WIDTH])
        else:
            in_text = False
    return found
