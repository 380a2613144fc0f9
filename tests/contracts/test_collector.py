"""The Collector port: the same tests for the fake and SSM Run Command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.log_bundle import SsmLogCollector, script
from faultbridge.record.ports.compute import Bundle, BundleState, Collector
from tests.contracts.aws import ON_MOTO
from tests.contracts.provider import group_of
from tests.sim.fakes import FakeCollector


@pytest.fixture(params=["fake", "ssm"])
def world(request: pytest.FixtureRequest, clients: Clients) -> tuple[Collector, str]:
    if request.param == "fake":
        return FakeCollector(), "i-1"
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    clients.s3.create_bucket(Bucket="bundles")
    return UploadingCollector(clients), group_of(clients)[1][0]


class UploadingCollector(SsmLogCollector):
    """The adapter on moto, which runs no command: the object is put where the script would upload it."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients, clients, "bundles")
        self._clients = clients

    def collect(self, instance_id: str, token: str) -> Bundle:
        self._clients.s3.put_object(Bucket="bundles", Key=f"bundles/{instance_id}/{token}.tar.gz", Body=b"logs")
        return super().collect(instance_id, token)


class TestCollector:
    def test_a_bundle_is_stored_under_the_instance_and_the_token(self, world: tuple[Collector, str]) -> None:
        collector, instance = world
        found = collector.collect(instance, "c-abc-1")
        assert found.state is BundleState.KEPT
        assert found.place.startswith("s3://bundles/")
        assert f"{instance}/c-abc-1" in found.place

    def test_the_same_token_returns_the_same_bundle(self, world: tuple[Collector, str]) -> None:
        collector, instance = world
        assert collector.collect(instance, "c-abc-1") == collector.collect(instance, "c-abc-1")
        assert collector.collect(instance, "c-abc-2").place != collector.collect(instance, "c-abc-1").place


def test_the_script_uploads_the_logs_of_the_host_to_the_presigned_url(tmp_path: Path) -> None:
    (tmp_path / "curl").write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/called\nwhile [ "$1" != -T ]; do shift; done\n'
        f'cp "$2" {tmp_path}/kept.tar.gz\nprintf 200\n'
    )
    (tmp_path / "journalctl").write_text("#!/bin/sh\necho NVRM: Xid\n")
    for tool in ("curl", "journalctl"):
        (tmp_path / tool).chmod(0o755)
    lines = "\n".join(script("https://bucket.example/key?X-Amz-Signature=it's"))
    subprocess.run(["sh", "-c", lines], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True, capture_output=True)
    assert "https://bucket.example/key?X-Amz-Signature=it's" in (tmp_path / "called").read_text()
    listed = subprocess.run(["tar", "-tzf", tmp_path / "kept.tar.gz"], check=True, capture_output=True, text=True)
    assert "./kernel.log" in listed.stdout.splitlines()


class TestRead:
    def test_an_instance_without_the_tools_shows_nothing(self, world: tuple[Collector, str]) -> None:
        collector, instance = world
        output = collector.read(instance, "c-abc check 1")
        assert output is not None
        assert (output.kernel_log, output.log_from, output.nvidia_smi) == (b"", None, b"")

    def test_the_same_token_starts_one_command(self, world: tuple[Collector, str]) -> None:
        collector, instance = world
        assert collector.read(instance, "c-abc check 1") == collector.read(instance, "c-abc check 1")
