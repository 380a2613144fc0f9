"""Scan the template with checkov and compare its findings with infra/waivers.yaml.

    python -m infra.scan CHECKOV

CHECKOV is the program's path. Exits with 1 if a finding has no waiver, or if no finding needs a waiver.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "infra" / "template.yaml"
WAIVERS = ROOT / "infra" / "waivers.yaml"


class Finding(NamedTuple):
    """One failed check on one resource of the template, by its logical id."""

    check: str
    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class Waiver:
    """The reason why findings of a check are accepted on resources whose logical ids match a pattern."""

    check: str
    resources: tuple[str, ...]
    reason: str

    def covers(self, finding: Finding) -> bool:
        """Return whether this waiver accepts a finding."""
        return self.check == finding.check and any(fnmatchcase(finding.resource, one) for one in self.resources)


def read_waivers(text: str) -> tuple[Waiver, ...]:
    """Return the waivers of a file's text. Raises KeyError if one has no check, resources or reason."""
    return tuple(Waiver(row["check"], tuple(row["resources"]), row["reason"]) for row in yaml.safe_load(text))


def read_findings(report: str) -> tuple[Finding, ...]:
    """Return the failed checks in checkov's JSON report."""
    results: dict[str, Any] = json.loads(report)
    failed = results["results"]["failed_checks"]
    return tuple(Finding(one["check_id"], one["resource"].rpartition(".")[2], one["check_name"]) for one in failed)


def violations(findings: Iterable[Finding], waivers: Iterable[Waiver]) -> list[str]:
    """Return a line for each finding without a waiver and for each waiver without a finding."""
    found, accepted = tuple(findings), tuple(waivers)
    open_findings = [one for one in found if not any(waiver.covers(one) for waiver in accepted)]
    unused = [one for one in accepted if not any(map(one.covers, found))]
    return [
        *(f"{one.check} {one.resource}: {one.name}" for one in open_findings),
        *(f"{one.check}: no finding needs this waiver; remove it from {WAIVERS.name}" for one in unused),
    ]


def run(checkov: str) -> str:
    """Return checkov's JSON report on the template; it is not sent anywhere. Raises CalledProcessError on a failure."""
    options = ["--framework", "cloudformation", "--skip-download", "--quiet", "--soft-fail", "--output", "json"]
    done = subprocess.run([checkov, "-f", str(TEMPLATE), *options], capture_output=True, text=True, check=True)  # noqa: S603 - our own paths
    return done.stdout


def main(arguments: list[str]) -> int:
    """Print the violations and a summary; return 1 if there are any."""
    findings = read_findings(run(arguments[0]))
    broken = violations(findings, read_waivers(WAIVERS.read_text(encoding="utf-8")))
    print(*broken, sep="\n", file=sys.stderr)
    print(f"checkov: {len(findings)} findings, {len(broken)} violations")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
