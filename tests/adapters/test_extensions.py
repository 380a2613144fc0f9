"""Extensions: the example distribution is built, installed and used; a broken one affects only who names it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultbridge.adapters.aws.ports import AwsPorts
from faultbridge.adapters.extensions import Parts
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.settings import Settings
from faultbridge.record.ports.orchestrator import Orchestrator
from faultbridge.record.ports.presence import Presence
from faultbridge.record.ports.table import Surroundings
from faultbridge.repair.registry.inventory_sync import SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.registry.retirement import Retirement
from tests.architecture.project import ROOT
from tests.cli.desk import Desk
from tests.scenarios.world import CLUSTER, GROUP, ScenarioPorts, World
from tests.sim.fakes import FakeOrchestrator, ManualClock

NAME, NEW = "rack-controller", "i-00000000000000009"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the example."""
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=ROOT / "examples" / "extension", check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the wheel where Python finds it, and return the file of the rack."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    rack = tmp_path / "rack.json"
    monkeypatch.setenv("RACK_FILE", str(rack))
    yield rack
    sys.modules.pop("rack_controller", None)


def register(folder: Path, group: str, **functions: str) -> None:
    """Install a distribution that registers these functions."""
    found = folder / f"broken{len(list(folder.iterdir()))}-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {found.name.partition('-')[0]}\nVersion: 1\n")
    lines = (f"{name} = {function}" for name, function in functions.items())
    (found / "entry_points.txt").write_text("\n".join((f"[faultbridge.{group}]", *lines)))


def orchestrators(clock: ManualClock | None = None) -> Parts[Orchestrator]:
    built_in: dict[str, Orchestrator] = {"none": FakeOrchestrator()}
    return Parts("orchestrators", Orchestrator, built_in, Surroundings(clock or ManualClock()))


class RackWorld(World):
    """A world whose instances belong to the rack; provider and orchestrator come from the installed example."""

    def __init__(self, rack: Path, **others: Any) -> None:
        self.rack = rack
        super().__init__(**others)
        changed = {"provider": NAME, "orchestrator": NAME}
        Registration(self.table, self.append, self.clock).set_cluster(CLUSTER, changed)
        self.verifier.alive = lambda _: True
        launched = self.clock.now().isoformat()
        instance = {"group": GROUP, "running": True, "takes_work": True, "launched_at": launched}
        numbered = {f"i-{number:017x}": {**instance, "position": f"p{number}"} for number in (1, 2)}
        rack.write_text(json.dumps(numbered))

    def connect(self, ports: ScenarioPorts) -> None:
        installed = AwsPorts(Settings.from_environment({}))
        installed.clock = self.clock
        ports.providers, ports.orchestrators = installed.providers, installed.orchestrators
        ports.inventories = installed.inventories

    def instances(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(self.rack.read_text())
        return found


def test_a_faulty_node_of_an_extension_is_drained_replaced_verified_and_returned(installed: Path) -> None:
    world = RackWorld(installed, nodes=2)
    world.fault_and_react()
    world.until(lambda: not world.instances()["i-00000000000000001"]["takes_work"], minutes=5)
    world.until(world.case_is(CaseStatus.RESOLVED))
    node, instances = world.node(), world.instances()
    assert (node.status, world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert node.incarnation is not None
    successor = instances[str(node.incarnation.instance_id)]
    assert (successor["running"], successor["takes_work"], successor["position"]) == (True, True, "p1")
    assert [one["running"] for one in instances.values()] == [False, True, True]


def test_a_new_instance_that_an_extension_lists_is_verified_before_it_serves(
    installed: Path,
) -> None:
    world = RackWorld(installed, nodes=2)
    registration, inventories = Registration(world.table, world.append, world.clock), world.ports.inventories
    detection = ReplacementDetection(world.table, world.append, world.rulebook)
    check = ProviderCheck(inventories, world.rollup, world.clock, registration)
    retire = Retirement(world.table, world.append, world.rulebook)
    sync = SyncInventory(world.table, registration, detection, inventories, check, retire)
    first = sync.sync(registration.cluster(CLUSTER))
    assert (first.added, first.gone, first.source_errors) == ([], [], [])
    world.clock.advance(timedelta(minutes=2))
    launched = {"position": "p9", "launched_at": world.clock.now().isoformat()}
    instances = world.instances()
    installed.write_text(json.dumps({**instances, NEW: {**instances["i-00000000000000001"], **launched}}))
    assert sync.sync(registration.cluster(CLUSTER)).added == ["p9"]
    world.process_entries()

    def added() -> NodeState:
        return world.append.read(NodeKey(CLUSTER, "p9"))

    assert added().status is NodeStatus.VALIDATING
    world.until(lambda: added().live_case is None, minutes=60)
    assert (added().status, added().unverified) == (NodeStatus.HEALTHY, False)
    assert added().incarnation is not None
    assert world.instances()[NEW]["takes_work"]


def test_a_controller_that_does_not_answer_releases_nothing(installed: Path) -> None:
    world = RackWorld(installed)
    installed.unlink()
    provider = AwsPorts(Settings.from_environment({})).providers[NAME]
    assert provider.probe("i-00000000000000001") is Presence.UNKNOWN
    world.fault_and_react(minutes=30)
    assert world.status() is NodeStatus.DEGRADED
    with pytest.raises(Transient):
        provider.candidates(GROUP, world.clock.now())


def test_the_command_line_registers_a_cluster_of_an_extension_and_imports_its_group(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    desk = Desk(monkeypatch, capfdbinary)
    instances = RackWorld(installed).instances()
    installed.write_text(json.dumps({f"{instance[:-2]}a{instance[-1]}": one for instance, one in instances.items()}))
    order = ("cluster", "add", "train-b", "--provider", NAME, "--orchestrator", NAME)
    acting = (*order, "--mode", "act", "--repair-owner", "faultbridge")
    refused = desk(*acting)
    assert (refused.code, f"{NAME!r}" in refused.err) == (2, True)
    ports = AwsPorts(Settings.from_environment({}))
    for part in ("providers", "orchestrators", "inventories"):
        monkeypatch.setattr(desk.world.ports, part, getattr(ports, part))
    assert "repairs are enabled" in desk(*acting).err
    shown = desk.json("cluster", "show", "train-b")
    assert (shown["provider"], shown["orchestrator"], shown["mode"]) == (NAME, NAME, "act")
    rows = desk.json("node", "import", "--cluster", "train-b", "--group", GROUP)
    assert [(one["node"], one["outcome"]) for one in rows] == [("p1", "registered"), ("p2", "registered")]


def test_an_installed_part_is_listed_beside_the_built_in_ones(installed: Path) -> None:
    assert installed
    ports = AwsPorts(Settings.from_environment({"FAULTBRIDGE_REPAIR_TAG": "a-stack"}))
    built_in = ["ec2-auto-scaling", "ec2-launch-template", "hyperpod", "karpenter", "parallelcluster", "pcs"]
    assert list(ports.providers) == [*built_in, NAME]
    assert NAME in ports.inventories
    assert NAME in ports.orchestrators
    assert NAME not in ports.launchers
    assert ports.launchers.get(NAME) is None


def test_an_extension_cannot_replace_a_built_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, "orchestrators", none="nowhere:missing")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(orchestrators()) == ["none"]
    assert orchestrators()["none"].applicable


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("no_such_module:part", "cannot be loaded: No module"),
        ("builtins:str", "lacks applicable, cordon, discourage, drain, idle, readiness, uncordon"),
    ],
)
def test_a_broken_extension_is_named_and_affects_only_who_uses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, reason: str
) -> None:
    register(tmp_path, "orchestrators", broken=function)
    monkeypatch.syspath_prepend(str(tmp_path))
    parts = orchestrators()
    assert list(parts) == ["none", "broken"]
    assert parts["none"].applicable
    with pytest.raises(Misconfigured, match=f"'broken' in faultbridge.orchestrators {reason}"):
        parts["broken"]


def test_two_extensions_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    register(tmp_path, "orchestrators", twice="builtins:str")
    register(tmp_path, "orchestrators", twice="builtins:int")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(Misconfigured, match="uninstall all but one"):
        orchestrators()["twice"]
