"""An update of the code and the way back, each while repairs are in progress, end the repairs as without them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import version_of
from faultbridge.local.compute_control import INSTANCE_TYPE
from faultbridge.local.stack.deployment import Deployment
from faultbridge.local.stack.files import TEMPLATE, project_root
from faultbridge.model.cases import Case
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.errors import Conflict
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Equals, Put
from faultbridge.model.values import replace
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import DOUBLE_BIT
from tests.e2e.scenarios.repairs import send_fault
from tests.local.stack import PrivateStack, private_stack, stack_home
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

DEPLOYED = ("functions", "infra", "requirements", "schemas", "src")
OLDER, NEWER = "1.0.0rc1", "1.0.0"
WAITS, ARRIVES = "node-000", "node-001"
POLICY = """
rules:
  - name: lost
    release_without_capacity: true
"""
ADDED = {"written_by_a_newer_version": "kept"}


@dataclass(frozen=True)
class Drill:
    """An update and the way back: one repair waits through both, the other begins between them."""

    installation: Installation
    cluster: str
    began: datetime
    code: tuple[str, str, str]
    """The hash of the code of one function before the update, after it, and after the way back."""
    waiting: tuple[Case, Case, Case]
    """The case of the first node at the same three moments."""


def release(folder: Path, version: str) -> Deployment:
    """Return the deployment of a copy of this source tree, which says that it is of another version."""
    source = project_root()
    assert source is not None
    for name in DEPLOYED:
        shutil.copytree(
            source / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "packaged", ".terraform")
        )
    package = folder / "src" / "faultbridge" / "__init__.py"
    package.write_text(re.sub(r'(__version__ = )".*"', rf'\1"{version}"', package.read_text()))
    return Deployment(folder, folder / TEMPLATE)


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """Run two repairs through an update of the stack and the way back.

    Both versions are of this tree. What a newer one adds is an attribute of a stored case that this one does not know.
    """
    folder = tmp_path_factory.mktemp("releases")
    older, newer = release(folder / "older", OLDER), release(folder / "newer", NEWER)
    with private_stack(tmp_path_factory.mktemp("upgrade"), older) as stack:
        installation = observe(stack)
        cluster = installation.register_cluster(2, fleet=2)
        set_policy(installation, cluster)
        compute, began = stack.info.compute_endpoint, installation.application.ports.clock.now()
        local.set_capacity(compute, INSTANCE_TYPE, available=False)
        send_fault(installation, cluster, WAITS)
        eventually(lambda: step_of(installation, cluster) == "await_successor", 90)
        code, waiting = [code_of(stack)], [case_of(installation, cluster, WAITS)]
        deploy(stack, newer)
        code, waiting = [*code, code_of(stack)], [*waiting, case_of(installation, cluster, WAITS)]
        add_attributes(installation, cluster)
        send_fault(installation, cluster, ARRIVES, DOUBLE_BIT)
        deploy(stack, older)
        code, waiting = [*code, code_of(stack)], [*waiting, case_of(installation, cluster, WAITS)]
        local.set_capacity(compute, INSTANCE_TYPE, available=True)
        installation.wait_until_idle(cluster, 180)
        yield Drill(installation, cluster, began, (code[0], code[1], code[2]), (waiting[0], waiting[1], waiting[2]))


def set_policy(installation: Installation, cluster: str) -> None:
    """Let the cluster release an instance although no capacity was shown for a successor."""
    document = read_policy(POLICY)
    ports, version = installation.application.ports, version_of(document)
    ports.table.write(
        Put(items.item(keys.policy(version), ports.clock.now(), {"policy": {**document, "version": version}}))
    )
    wire_registration(installation.application).set_cluster(cluster, {"policy": version})


def deploy(stack: PrivateStack, release: Deployment) -> None:
    with stack_home(stack.home):
        local.up(deployment=release, default_ports=False)


def code_of(stack: PrivateStack) -> str:
    name = f"{stack.info.stack}-replacement"
    return str(stack.client("lambda").get_function_configuration(FunctionName=name)["CodeSha256"])


def case_of(installation: Installation, cluster: str, node: str) -> Case:
    (case,) = (view.case for view in installation.directory.cases(cluster, tuple(CaseStatus)) if view.key.node == node)
    return case


def step_of(installation: Installation, cluster: str) -> str | None:
    case = installation.states(cluster)[WAITS].live_case
    return case.attempt.step if case is not None and case.attempt is not None else None


def add_attributes(installation: Installation, cluster: str) -> None:
    """Store a node's state with attributes that this code does not know, as a newer version would."""
    table = installation.application.ports.table

    def stored() -> bool:
        state = installation.states(cluster)[WAITS]
        assert state.case is not None
        changed = replace(state, case=replace(state.case, unknown_attributes=ADDED), unknown_attributes=ADDED)
        row = items.state_item(changed, installation.application.ports.clock.now())
        try:
            table.write(Put(row, Equals("version", state.head.version)))
        except Conflict:  # a function wrote the state in between
            return False
        return True

    eventually(stored)


def test_each_deployment_replaces_the_code_of_the_functions(drill: Drill) -> None:
    before, updated, back = drill.code
    assert updated != before
    assert back == before


def test_a_repair_in_progress_is_neither_ended_nor_started_again_by_a_deployment(drill: Drill) -> None:
    attempts = [(case.id, case.attempt and (case.attempt.number, case.attempt.step)) for case in drill.waiting]
    assert len(set(attempts)) == 1, attempts


@pytest.mark.parametrize(
    ("node", "resolution", "replaced"), [(WAITS, Resolution.REPLACED, 1), (ARRIVES, Resolution.REPAIRED, 0)]
)
def test_each_repair_ends_with_a_verified_node_and_at_most_one_replacement(
    drill: Drill, node: str, resolution: Resolution, replaced: int
) -> None:
    state, case = drill.installation.states(drill.cluster)[node], case_of(drill.installation, drill.cluster, node)
    assert (case.status, case.resolution) == (CaseStatus.RESOLVED, resolution)
    assert (state.status, state.unverified, len(state.former_instances)) == (NodeStatus.HEALTHY, False, replaced)


def test_what_a_newer_version_stored_survives_the_older_one(drill: Drill) -> None:
    state = drill.installation.states(drill.cluster)[WAITS]
    assert state.unknown_attributes == ADDED
    assert state.case is not None
    assert state.case.unknown_attributes == ADDED


def test_every_entry_was_published_and_the_record_is_complete(drill: Drill) -> None:
    installation, cluster = drill.installation, drill.cluster
    entries = installation.entries(cluster)
    eventually(lambda: set(installation.events.deliveries(cluster)) == set(entries), 60)
    assert installation.cli("verify", "--cluster", cluster).returncode == 0
