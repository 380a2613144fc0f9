"""The built distribution works in a clean environment, and the check of it fails where a command fails."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path

import pytest
import yaml

from faultbridge import __version__
from infra import chart, dist
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


def test_the_image_installs_what_make_dist_builds_with_locked_packages_and_is_not_root() -> None:
    recipe = (ROOT / "infra/kubernetes/Dockerfile").read_text(encoding="utf-8")
    (copied,) = re.findall(r"^COPY (.+)", recipe, re.MULTILINE)
    lock, wheel, _ = copied.split()
    assert Path("dist/faultbridge-0.1.0-py3-none-any.whl").match(wheel)
    assert "--hash=sha256:" in (ROOT / lock).read_text(encoding="utf-8")
    assert re.search(r"^USER 65534$", recipe, re.MULTILINE)
    assert re.search(r"^ARG BASE=python:\d+\.\d+\.\d+-slim-\w+$", recipe, re.MULTILINE)


def test_the_chart_has_the_version_of_the_package_and_an_archive_that_is_always_the_same() -> None:
    metadata = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert metadata["version"] == metadata["appVersion"] == __version__
    name, content = chart.archive()
    assert name == f"faultbridge-{__version__}.tgz"
    assert chart.archive() == (name, content)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert "faultbridge/Chart.yaml" in archive.getnames()
