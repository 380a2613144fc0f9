"""An unknown cluster, node, case or other name: one text in every command, with the closest names that exist."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import pytest

import faultbridge
from faultbridge.cli.app import COMMANDS, application
from faultbridge.cli.stack.session import KNOWN_NAMES, MAX_READ_CASES
from faultbridge.decode.data.policies import default_document
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import Transient
from faultbridge.model.names import closest_names, did_you_mean
from faultbridge.repair.registry.views import CaseView, Views
from tests.builders import KEY
from tests.cli.builders import rack_incident
from tests.cli.desk import Desk
from tests.cli.orders import case_for_approval

CLUSTER, NODE = KEY
TYPO = CLUSTER[:-1]
IN_TYPO = ("--cluster", TYPO)
WITH_A_CLUSTER = {
    "cluster show": (TYPO,),
    "cluster set": (TYPO, "--mode", "act"),
    "cluster maintain": (TYPO, "--until", "4h"),
    "cluster template": (TYPO, "--instance-type", "p5.48xlarge"),
    "node list": IN_TYPO,
    "node show": (NODE, *IN_TYPO),
    "node history": (NODE, *IN_TYPO),
    "node add": ("--node", "n-1", *IN_TYPO),
    "node import": ("FILE", *IN_TYPO),
    "node replace": (NODE, *IN_TYPO),
    "node quarantine": (NODE, *IN_TYPO),
    "node return": (NODE, *IN_TYPO),
    "node retire": (NODE, *IN_TYPO),
    "node ignore": (NODE, *IN_TYPO),
    "case list": IN_TYPO,
    "stuck": IN_TYPO,
    "top": ("--once", *IN_TYPO),
    "incident list": IN_TYPO,
    "gpus": IN_TYPO,
    "finding list": IN_TYPO,
    "finding precision": IN_TYPO,
    "device offenders": IN_TYPO,
    "breaker": IN_TYPO,
    "pause": IN_TYPO,
    "resume": IN_TYPO,
    "policy backtest": ("FILE", *IN_TYPO),
    "policy diff": ("FILE", "FILE", "--since", "1d", *IN_TYPO),
    "job start": ("7", "--node", NODE, *IN_TYPO),
    "job end": ("7", *IN_TYPO),
    "job list": IN_TYPO,
    "job show": ("7", *IN_TYPO),
    "job ranks": ("7", *IN_TYPO),
    "job heartbeat": ("7", "--step", "5", *IN_TYPO),
    "job checkpoint": ("7", *IN_TYPO),
    "explain": ("--at", "1h", *IN_TYPO),
    "webhook add": ("prometheus", "--source", "alertmanager", *IN_TYPO),
    "timeline": IN_TYPO,
    "tail": IN_TYPO,
    "doctor": IN_TYPO,
    "test-page": IN_TYPO,
    "silence list": IN_TYPO,
    "silence add": (*IN_TYPO, "--until", "2h", "--reason", "x"),
    "silence end": ("s-1", *IN_TYPO),
    "report": IN_TYPO,
    "sla": IN_TYPO,
    "verify": IN_TYPO,
    "erase": (TYPO, "--yes"),
}
"""Every command that works on a registered cluster, with the arguments that name an unknown one."""

OTHERS = {
    **dict.fromkeys(
        ("cluster add", "fleet create", "connect eks", "connect hyperpod", "connect asg"), "registers the cluster"
    ),
    **dict.fromkeys(("fleet break", "fleet heal"), "works on an embedded stack only; shown below by its nodes"),
    **dict.fromkeys(("reject list", "reject show", "reject retry", "send"), "a record may name any cluster"),
    "job run": "runs the launcher of a job in any case, and names the unknown cluster in a notice",
    "decode": "works offline",
}


def test_the_table_has_every_command_that_takes_a_cluster() -> None:
    found = set()
    for name in COMMANDS:
        root = application()
        command: Any = root.get_command(click.Context(root), name)
        verbs = {f"{name} {verb}": one for verb, one in getattr(command, "commands", {}).items()} or {name: command}
        found |= {path for path, one in verbs.items() if "cluster" in {parameter.name for parameter in one.params}}
    assert found == WITH_A_CLUSTER.keys() | OTHERS.keys()


@pytest.mark.parametrize("command", WITH_A_CLUSTER)
def test_an_unknown_cluster_has_one_text_in_every_command(desk: Desk, command: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("rules: [{name: a}]" if command.startswith("policy") else "node\nn-1\n")
    ran = desk(*command.split(), *(str(file) if one == "FILE" else one for one in WITH_A_CLUSTER[command]))
    text = f"unknown cluster: {TYPO}; did you mean {CLUSTER}? (`faultbridge cluster list` lists clusters)"
    assert (ran.code, ran.err.splitlines()[-1:], ran.out) == (2, [f"faultbridge: {text}"], "")


@pytest.mark.parametrize("command", ["show", "history", "replace", "quarantine", "return", "retire", "ignore"])
def test_an_unknown_node_has_one_text_in_every_command(desk: Desk, command: str) -> None:
    ran = desk("node", command, f"{NODE}0", "--cluster", CLUSTER)
    text = f"unknown node in cluster {CLUSTER}: {NODE}0; did you mean {NODE}?"
    assert (ran.code, text in ran.err) == (2, True)


@pytest.mark.parametrize(
    "command",
    ["timeline --cluster C --node", "verify --cluster C --node", "job start 7 --cluster C --node"],
)
def test_an_unknown_node_of_an_option_has_the_same_text(desk: Desk, command: str) -> None:
    ran = desk(*command.replace(" C ", f" {CLUSTER} ").split(), f"{NODE}0")
    assert f"unknown node in cluster {CLUSTER}: {NODE}0; did you mean {NODE}?" in ran.err


@pytest.mark.parametrize("command", ["show", "watch", "approve", "deny", "cancel", "report"])
def test_a_truncated_case_id_names_the_case(desk: Desk, command: str) -> None:
    case = case_for_approval(desk)
    ran = desk("case", command, case[:9])
    assert (ran.code, f"unknown case: {case[:9]}; did you mean {case}?" in ran.err) == (2, True)


def test_other_names_have_the_same_text(desk: Desk) -> None:
    incident, version = rack_incident(desk), str(default_document()["version"])
    desk.json("job", "start", "pretrain-7", "--cluster", CLUSTER, "--node", NODE)
    for arguments, text in (
        (("incident", "show", incident[:-1]), f"unknown incident: {incident[:-1]}; did you mean {incident}?"),
        (("incident", "close", "x"), "unknown incident: x ("),
        (("policy", "show", version[:6]), f"unknown policy: {version[:6]}; did you mean {version}?"),
        (("job", "show", "pretrain", "--cluster", CLUSTER), "unknown job in cluster C: pretrain; did you mean"),
        (("finding", "show", "f-x"), "unknown finding: f-x ("),
        (("device", "history", "165"), "unknown device: 165 ("),
        (("mapping", "show", "abc"), "unknown mapping: abc ("),
        (("reject", "show", "r-1"), "unknown reject: r-1 ("),
        (("timeline", "--cause", "e-1"), "unknown event: e-1 ("),
    ):
        ran = desk(*arguments)
        assert (ran.code, text.replace(" C:", f" {CLUSTER}:") in ran.err) == (2, True), ran.err


def test_names_that_cannot_be_read_do_not_replace_the_error_about_a_name(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        raise Transient("ProvisionedThroughputExceeded")

    monkeypatch.setattr(Views, "recent_cases", fails)
    monkeypatch.setattr(Views, "cases", fails)
    ran = desk("case", "show", "c-0000000")
    assert (ran.code, "unknown case: c-0000000" in ran.err) == (2, True)


def test_proposals_read_a_limited_number_of_cases(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = case_for_approval(desk), "c-none"
    read: list[int] = []
    recent = Views.recent_cases

    def counted(self: Views, config: ClusterConfig, statuses: Sequence[CaseStatus], limit: int) -> tuple[CaseView, ...]:
        read.append(limit)
        return recent(self, config, statuses, limit)

    monkeypatch.setattr(Views, "recent_cases", counted)
    assert f"did you mean {first}?" in desk("case", "show", first[:9]).err
    assert desk("case", "show", second).code == 2
    assert set(read) == {MAX_READ_CASES}


def test_the_closest_names_start_with_the_given_one_or_are_similar_to_it() -> None:
    assert closest_names("GPU-1", ["gpu-1", "gpu-10", "gpu-2"]) == ("gpu-1", "gpu-10")
    assert closest_names("gpu1", ["gpu-1", "node-7"]) == ("gpu-1",)
    assert closest_names("", ["gpu-1"]) == ()
    assert did_you_mean("trian-a", ["train-a", "prod"]) == "; did you mean train-a?"
    assert did_you_mean("lab", ["lab-3", "lab-2", "lab-1", "lab-4"]) == "; did you mean lab-1, lab-2 or lab-3?"
    assert did_you_mean("nope", ["train-a"]) == ""


def test_every_service_raises_the_one_error_for_unknown_names() -> None:
    of_records = {"caches.py"}
    """Ingest rejects a record for a name in it, and keeps the record."""
    own = re.compile(rf'Rejected\(\s*"unknown_({"|".join((*KNOWN_NAMES, "device", "event", "mapping", "reject"))})"')
    found = [path.name for path in Path(faultbridge.__file__).parent.rglob("*.py") if own.search(path.read_text())]
    assert set(found) == of_records
