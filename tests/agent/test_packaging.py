"""Agent installation: it needs only the standard library, and its scripts never fail the node."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from faultbridge.model.errors import Misconfigured
from faultbridge.node.agent.settings import AgentSettings

ROOT = Path(__file__).resolve().parents[2]
INFRA = ROOT / "infra" / "agent"
MANIFEST = ROOT / "infra" / "kubernetes" / "faultbridge.yaml"
ALONE = """
import sys
sys.path.insert(0, {source!r})
import faultbridge.node.agent.__main__
import faultbridge.node.agent.delivery.transport
from faultbridge.decode.data.patterns import packaged_texts
from faultbridge.decode.frames.decoder import NO_HINTS
from faultbridge.decode.kernel.kernel_log import decode
for line in {lines!r} + [row.row["line"] for row in packaged_texts("kernel")]:
    assert decode(b"[    1.0] " + line.encode(), NO_HINTS).observations is not None
loaded = {{name.partition(".")[0] for name in sys.modules}}
others = loaded - set(sys.stdlib_module_names) - {{"__main__", "faultbridge"}}
print(sorted(name for name in others if not name.startswith("_")))
"""
LINES = [
    "NVRM: Xid (PCI:0000:c1:00): 79, GPU has fallen off the bus.",
    "nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "pcieport 0000:40:01.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer",
    "nv-fabricmanager[811]: detected NVSwitch fatal error 20034 on fid 0",
]


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        ["bash", str(INFRA / script)], env=path | environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_agent_imports_only_the_standard_library_also_when_it_decodes_lines():
    program = ALONE.format(source=str(ROOT / "src"), lines=LINES)
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_systemd_unit_has_lowest_priority_limits_and_restarts_always():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(INFRA / "faultbridge-agent.service")
    service = unit["Service"]
    assert (service["Nice"], service["IOSchedulingClass"], service["Restart"]) == ("19", "idle", "always")
    assert {"MemoryMax", "CPUQuota", "TasksMax"} <= set(service)
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"


def test_the_daemonset_runs_on_every_node_with_the_role_of_the_node():
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    kinds = {document["kind"]: document for document in documents if document["metadata"]["name"] == "agent"}
    pod = kinds["DaemonSet"]["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["hostNetwork"] is True
    assert "annotations" not in kinds["ServiceAccount"]["metadata"]
    assert {"cpu", "memory"} == set(pod["containers"][0]["resources"]["limits"])


def test_the_config_map_contains_valid_settings(tmp_path):
    documents = list(yaml.safe_load_all(MANIFEST.read_text()))
    written = next(one for one in documents if one["kind"] == "ConfigMap")["data"]["agent.toml"]
    (tmp_path / "agent.toml").write_text(written)
    settings = AgentSettings.load(tmp_path / "agent.toml", {})
    assert (settings.cluster, dict(settings.journal_units)) == ("CLUSTER", {})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "cluster"),
        ({"FAULTBRIDGE_AGENT_CLUSTER": "train-a"}, "queue_url"),
        ({"FAULTBRIDGE_AGENT_CLUSTER": "a/b", "FAULTBRIDGE_AGENT_QUEUE_URL": "https://q"}, "a/b"),
        (
            {
                "FAULTBRIDGE_AGENT_CLUSTER": "a",
                "FAULTBRIDGE_AGENT_QUEUE_URL": "https://q",
                "FAULTBRIDGE_AGENT_SMI_SECONDS": "often",
            },
            "often",
        ),
        ({"FAULTBRIDGE_AGENT_TYPO": "x"}, "typo"),
    ],
)
def test_an_error_names_the_missing_or_invalid_setting(variables, message, tmp_path):
    (tmp_path / "empty.toml").touch()
    with pytest.raises(Misconfigured, match=message):
        AgentSettings.load(tmp_path / "empty.toml", variables)


def test_the_lifecycle_script_exits_with_0_without_settings():
    result = run("hyperpod-lifecycle.sh")
    assert (result.returncode, "not installed" in result.stdout) == (0, True)


def test_the_health_check_exits_with_0_and_runs_the_agent_once(tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $@ > {tmp_path}/arguments\nexit 3\n")
    python.chmod(0o755)
    assert (
        run("slurm-health-check.sh", FAULTBRIDGE_PYTHON=str(python), FAULTBRIDGE_LOCK=str(tmp_path / "lock")).returncode
        == 0
    )
    assert (tmp_path / "arguments").read_text().split() == ["-m", "faultbridge.node.agent", "--once"]
    assert (
        run("slurm-health-check.sh", FAULTBRIDGE_PYTHON="/nowhere", FAULTBRIDGE_LOCK=str(tmp_path / "lock")).returncode
        == 0
    )
