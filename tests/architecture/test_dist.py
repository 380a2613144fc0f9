"""The built distribution works in a clean environment, and the check of it fails where a command fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra import dist
from tests.architecture.project import ROOT


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_the_offline_commands_run_where_only_the_wheel_is_installed(tmp_path: Path) -> None:
    assert dist.main(tmp_path / "dist") == 0


def test_a_command_that_fails_or_prints_something_else_is_named(tmp_path: Path) -> None:
    program = tmp_path / "faultbridge"
    program.write_text("#!/bin/sh\n[ $1 != sources ] && echo other || { echo broken >&2; exit 3; }\n")
    program.chmod(0o755)
    found = dist.failures(tmp_path, tmp_path)
    assert "faultbridge sources: exit code 3: broken" in found
    assert any(line.startswith("faultbridge catalog xid 79: exit code 0") for line in found)


def test_the_image_installs_what_make_dist_builds_and_starts_what_the_daemonset_starts() -> None:
    recipe = (ROOT / "infra/agent/Dockerfile").read_text(encoding="utf-8")
    daemonset = (ROOT / "infra/agent/daemonset.yaml").read_text(encoding="utf-8")
    (copied,) = re.findall(r"^COPY (\S+)", recipe, re.MULTILINE)
    assert Path("dist/faultbridge-0.1.0-py3-none-any.whl").match(copied)
    assert 'ENTRYPOINT ["python3", "-m", "faultbridge.node.agent"]' in recipe
    assert "command: [python3, -m, faultbridge.node.agent, --config, /etc/faultbridge/agent.toml]" in daemonset
