"""What the fake compute plane answers, by default and as scripted."""

from __future__ import annotations

import json
from collections import Counter
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from faultbridge.adapters.compute.log_bundle import script as bundle_script
from faultbridge.local.compute_script import CommandOutput, ComputeScript, failed_diagnostics, healthy_diagnostics
from faultbridge.local.gaps.command_output import bundle_output

DIAGNOSE = ["dcgmi diag -r 2 -j"]
OUTPUT_OF_ONE_COMMAND = 24_000  # characters that GetCommandInvocation gives


@pytest.fixture
def script() -> ComputeScript:
    return ComputeScript()


def statuses(text: str) -> Counter[str]:
    categories = json.loads(text)["DCGM Diagnostic"]["test_categories"]
    return Counter(
        result["status"] for category in categories for test in category["tests"] for result in test["results"]
    )


def test_a_node_is_healthy_unless_told_otherwise(script: ComputeScript) -> None:
    output = script.output_of("i-1", DIAGNOSE)
    assert output == CommandOutput(0, healthy_diagnostics())


def test_only_diagnostics_are_answered_unasked(script: ComputeScript) -> None:
    assert script.output_of("i-1", ["uptime"]) is None


def test_a_scripted_instance_answers_as_scripted_and_others_do_not(script: ComputeScript) -> None:
    script.set_output("i-1", CommandOutput(226, "bad"))
    assert script.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    assert script.output_of("i-2", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


RESET = ["set -u", "timeout 300 nvidia-smi --gpu-reset"]
REBOOT = ["set -u", "exit 194"]


def test_a_restart_comes_to_its_end_whatever_the_diagnostics_say(script: ComputeScript) -> None:
    script.set_output("i-1", CommandOutput(226, "bad"))
    assert script.output_of("i-1", RESET) == CommandOutput(0, "")
    first = script.output_of("i-1", REBOOT)
    assert first is not None
    assert first.stdout.startswith("boot_id=")
    assert script.output_of("i-1", REBOOT) == first
    assert script.output_of("i-1", ["token=2", *REBOOT]) != first
    assert script.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")


def test_a_machine_can_be_mended_by_the_restart_that_is_scripted_and_by_no_other(script: ComputeScript) -> None:
    script.set_output("i-1", CommandOutput(226, "bad"), until="reboot")
    script.output_of("i-1", RESET)
    assert script.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    script.output_of("i-1", REBOOT)
    assert script.output_of("i-1", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


class Bucket(BaseHTTPRequestHandler):
    """A bucket (fake) that takes what is put under a signed address."""

    kept: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.kept[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_log_bundle_is_put_where_the_script_says_and_names_itself_a_fake() -> None:
    with HTTPServer(("127.0.0.1", 0), Bucket) as server:
        Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/raw/bundles/i-1/c-1.tar.gz?X-Amz-Signature=abc"
        assert bundle_output(list(bundle_script(address))) == CommandOutput(0, "")
    (kept,) = Bucket.kept.values()
    assert kept.startswith(b"a fake")


def test_a_log_bundle_that_nobody_takes_fails_as_curl_does() -> None:
    output = bundle_output(list(bundle_script("http://127.0.0.1:1/raw/bundles/x")))
    assert output is not None
    assert output.exit_code == 22
    assert bundle_output(DIAGNOSE) is None


def test_the_output_for_the_next_launch_goes_to_one_instance_only(script: ComputeScript) -> None:
    script.set_output("next", CommandOutput(226, "bad"))
    script.launched("i-1")
    script.launched("i-2")
    assert script.output_of("i-1", DIAGNOSE) == CommandOutput(226, "bad")
    assert script.output_of("i-2", DIAGNOSE) == CommandOutput(0, healthy_diagnostics())


def test_capacity_is_everywhere_until_it_is_taken_away(script: ComputeScript) -> None:
    script.set_capacity("p5.48xlarge", "us-east-1a", available=False)
    assert not script.has_capacity("p5.48xlarge", "us-east-1a")
    assert script.has_capacity("p5.48xlarge", "us-east-1b")
    assert script.has_capacity("p4d.24xlarge", "us-east-1a")
    script.set_capacity("p5.48xlarge", "us-east-1a", available=True)
    assert script.has_capacity("p5.48xlarge", "us-east-1a")


def test_a_type_can_be_gone_from_every_zone(script: ComputeScript) -> None:
    script.set_capacity("p5.48xlarge", "*", available=False)
    assert not script.has_capacity("p5.48xlarge", "us-east-1f")
    script.reset()
    assert script.has_capacity("p5.48xlarge", "us-east-1f")


def test_the_healthy_sample_passes_every_test_on_eight_gpus() -> None:
    assert statuses(healthy_diagnostics()) == {"Pass": 24}


def test_the_failed_sample_fails_one_test_of_one_gpu() -> None:
    assert statuses(failed_diagnostics()) == {"Pass": 23, "Fail": 1}


@pytest.mark.parametrize("sample", [healthy_diagnostics(), failed_diagnostics()])
def test_a_sample_fits_into_what_systems_manager_gives_back(sample: str) -> None:
    assert len(sample) < OUTPUT_OF_ONE_COMMAND
