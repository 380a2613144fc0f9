"""Injected faults of the fake compute plane: command outputs, capacity, launches."""

from __future__ import annotations

import json
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from faultbridge.adapters.ec2.log_bundle import script as bundle_script
from faultbridge.local.gaps.systems_manager import upload_bundle
from faultbridge.local.servers.fault_injection import (
    CommandOutput,
    ComputeFaults,
    LaunchFault,
    LaunchFaultRates,
    LaunchFaults,
    failed_diagnostics,
    healthy_diagnostics,
)

DIAGNOSE = ["dcgmi diag -r 2 -j"]
MAX_OUTPUT = 24_000  # characters that GetCommandInvocation returns


@pytest.fixture
def faults() -> ComputeFaults:
    return ComputeFaults()


def statuses(text: str) -> Counter[str]:
    categories = json.loads(text)["DCGM Diagnostic"]["test_categories"]
    return Counter(
        result["status"] for category in categories for test in category["tests"] for result in test["results"]
    )


def test_a_node_is_healthy_by_default(faults: ComputeFaults) -> None:
    output = faults.output_of("i-1", DIAGNOSE)
    assert output == CommandOutput(0, healthy_diagnostics())


def test_only_diagnostics_have_a_default_output(faults: ComputeFaults) -> None:
    assert faults.output_of("i-1", ["uptime"]) is None


def test_an_injected_output_applies_to_one_instance_only(faults: ComputeFaults) -> None:
    faults.set_output("i-1", CommandOutput(226, "bad"))
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    assert faults.output_of("i-2", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


RESET = ["set -u", "timeout 300 nvidia-smi --gpu-reset"]
REBOOT = ["set -u", "exit 194"]


def test_a_restart_completes_even_when_diagnostics_fail(faults: ComputeFaults) -> None:
    faults.set_output("i-1", CommandOutput(226, "bad"))
    assert faults.output_of("i-1", RESET) == CommandOutput(0, "")
    first = faults.output_of("i-1", REBOOT)
    assert first is not None
    assert first.stdout.startswith("boot_id=")
    assert faults.output_of("i-1", REBOOT) == first
    assert faults.output_of("i-1", ["token=2", *REBOOT]) != first
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")


def test_only_the_given_restart_removes_a_fault(faults: ComputeFaults) -> None:
    faults.set_output("i-1", CommandOutput(226, "bad"), until="reboot")
    faults.output_of("i-1", RESET)
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    faults.output_of("i-1", REBOOT)
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


def test_the_restart_that_removes_a_fault_also_applies_to_the_next_launch(faults: ComputeFaults) -> None:
    faults.set_output("next", CommandOutput(226, "bad"), until="reboot")
    faults.on_launch("i-1")
    faults.output_of("i-1", RESET)
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    faults.output_of("i-1", REBOOT)
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


def test_a_later_fault_is_not_removed_by_the_restart_of_an_earlier_one(faults: ComputeFaults) -> None:
    faults.set_output("i-1", CommandOutput(226, "bad"), until="reboot")
    faults.output_of("i-1", REBOOT)
    faults.set_output("i-1", CommandOutput(226, "worse"))
    faults.output_of("i-1", REBOOT)
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(226, "worse")


class Bucket(BaseHTTPRequestHandler):
    """A fake bucket that stores uploads to signed URLs."""

    stored: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.stored[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def test_a_log_bundle_is_uploaded_to_the_signed_url_and_is_marked_as_fake() -> None:
    with HTTPServer(("127.0.0.1", 0), Bucket) as server:
        Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/bundles/i-1/c-1.tar.gz?X-Amz-Signature=abc"
        assert upload_bundle(list(bundle_script(address))) == CommandOutput(0, "")
    (stored,) = Bucket.stored.values()
    assert stored.startswith(b"a fake")


def test_a_failed_upload_of_a_log_bundle_has_the_exit_code_of_curl() -> None:
    output = upload_bundle(list(bundle_script("http://127.0.0.1:1/bundles/x")))
    assert output is not None
    assert output.exit_code == 22
    assert upload_bundle(DIAGNOSE) is None


def test_the_output_for_the_next_launch_applies_to_one_instance_only(faults: ComputeFaults) -> None:
    faults.set_output("next", CommandOutput(226, "bad"))
    faults.on_launch("i-1")
    faults.on_launch("i-2")
    assert faults.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    assert faults.output_of("i-2", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


def test_capacity_is_available_until_it_is_removed(faults: ComputeFaults) -> None:
    faults.set_capacity("p5.48xlarge", "us-east-1a", available=False)
    assert not faults.has_capacity("p5.48xlarge", "us-east-1a")
    assert faults.has_capacity("p5.48xlarge", "us-east-1b")
    assert faults.has_capacity("p4d.24xlarge", "us-east-1a")
    faults.set_capacity("p5.48xlarge", "us-east-1a", available=True)
    assert faults.has_capacity("p5.48xlarge", "us-east-1a")


def test_a_type_can_be_without_capacity_in_every_zone(faults: ComputeFaults) -> None:
    faults.set_capacity("p5.48xlarge", "*", available=False)
    assert not faults.has_capacity("p5.48xlarge", "us-east-1f")
    faults.reset()
    assert faults.has_capacity("p5.48xlarge", "us-east-1f")


def test_capacity_that_returns_in_every_zone_also_returns_in_a_zone_that_lost_it_alone(faults: ComputeFaults) -> None:
    for instance_type in ("p5.48xlarge", "p4d.24xlarge"):
        faults.set_capacity(instance_type, "us-east-1a", available=False)
    faults.set_capacity("p5.48xlarge", "*", available=False)
    faults.set_capacity("p5.48xlarge", "*", available=True)
    assert faults.has_capacity("p5.48xlarge", "us-east-1a")
    assert faults.has_capacity("p5.48xlarge", "us-east-1b")
    assert not faults.has_capacity("p4d.24xlarge", "us-east-1a")


def test_the_healthy_sample_passes_every_test_on_eight_gpus() -> None:
    assert statuses(healthy_diagnostics()) == {"Pass": 24}


def test_the_failed_sample_fails_one_test_of_one_gpu() -> None:
    assert statuses(failed_diagnostics()) == {"Pass": 23, "Fail": 1}


@pytest.mark.parametrize("sample", [healthy_diagnostics(), failed_diagnostics()])
def test_a_sample_fits_into_the_output_of_one_command(sample: str) -> None:
    assert len(sample) < MAX_OUTPUT


RATES = LaunchFaultRates(failing=0.1, slow=0.3, bad=0.2)


def draw(seed: int, rates: LaunchFaultRates, number: int = 1000) -> list[LaunchFault]:
    faults = LaunchFaults()
    faults.set_rates(seed, rates)
    return [faults.next() for _ in range(number)]


def test_launches_have_no_fault_by_default() -> None:
    faults = LaunchFaults()
    assert {faults.next() for _ in range(100)} == {LaunchFault()}


def test_a_seed_always_gives_the_same_faults_and_another_seed_gives_others() -> None:
    assert draw(7, RATES) == draw(7, RATES)
    assert draw(7, RATES) != draw(8, RATES)


def test_each_fault_occurs_at_its_rate() -> None:
    drawn = draw(7, RATES)
    failed = sum(fault.fails for fault in drawn)
    assert 70 <= failed <= 130
    others = len(drawn) - failed
    assert 0.25 <= sum(fault.slow for fault in drawn) / others <= 0.35
    assert 0.15 <= sum(fault.bad for fault in drawn) / others <= 0.25


def test_a_failed_launch_is_neither_slow_nor_bad() -> None:
    assert set(draw(7, LaunchFaultRates(failing=1, slow=1, bad=1))) == {LaunchFault(fails=True)}
