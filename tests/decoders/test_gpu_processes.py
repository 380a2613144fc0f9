"""The check for processes on the GPUs: its script runs here in a shell, with an `nvidia-smi` of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from faultbridge.decode.verification import DRIVER, IDLE, MARKER, MAX_NAME, UNKNOWN, GpuProcesses, occupants

IGNORED = ("nv-hostengine", "dcgm-exporter")
DIAGNOSED = b"diagnosed\n"


class Host:
    """An instance whose `nvidia-smi` prints a given text and ends with a given status."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self, printed: bytes, status: int = 0, *, prove_idle: bool = False, ignored: tuple[str, ...] = IGNORED
    ) -> bytes:
        """Run the check and then the diagnostics; returns the output."""
        script = (*GpuProcesses(ignored).script(prove_idle=prove_idle), "echo diagnosed")
        return self._run(script, printed, status)

    def look(self, printed: bytes, status: int = 0, *, driver: bool = True) -> bytes:
        """Run the check alone, with or without a loaded driver; returns the output."""
        loaded = self.folder if driver else self.folder / "absent"
        script = (line.replace(DRIVER, str(loaded)) for line in GpuProcesses(IGNORED).script_alone())
        return self._run(tuple(script), printed, status)

    def _run(self, script: tuple[str, ...], printed: bytes, status: int) -> bytes:
        (self.folder / "printed").write_bytes(printed)
        tool = self.folder / "nvidia-smi"
        tool.write_text(f"#!/bin/sh\ncat {self.folder}/printed\nexit {status}\n")
        tool.chmod(0o755)
        path, text = f"{self.folder}:/usr/bin:/bin", "\n".join(script)
        return subprocess.run(["/bin/sh", "-c", text], env={"PATH": path}, capture_output=True, check=True).stdout


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("prove_idle", [False, True])
@pytest.mark.parametrize("printed", [b"", b"\n", b"71, /usr/bin/nv-hostengine\n72, dcgm-exporter\n"])
def test_diagnostics_run_if_no_other_process_uses_a_gpu(host: Host, printed: bytes, prove_idle: bool) -> None:
    output = host.run(printed, prove_idle=prove_idle)
    assert (output, occupants(output)) == (DIAGNOSED, None)


@pytest.mark.parametrize("prove_idle", [False, True])
def test_no_diagnostics_start_beside_another_process(host: Host, prove_idle: bool) -> None:
    output = host.run(b"71, nv-hostengine\n4711, /opt/conda/bin/python3\n", prove_idle=prove_idle)
    assert DIAGNOSED not in output
    assert occupants(output) == ("process 4711 uses a GPU: /opt/conda/bin/python3",)


@pytest.mark.parametrize("printed", [b"", b"71, /usr/bin/nv-hostengine\n"])
def test_a_look_alone_shows_an_idle_instance(host: Host, printed: bytes) -> None:
    assert host.look(printed).decode().strip() == IDLE


@pytest.mark.parametrize(
    ("printed", "status"), [(b"4711, python3\n", 0), (b"NVML: Driver/library version mismatch", 18)]
)
def test_a_look_alone_that_finds_a_process_or_fails_shows_no_idle_instance(
    host: Host, printed: bytes, status: int
) -> None:
    assert occupants(host.look(printed, status))


def test_without_a_loaded_driver_no_process_can_use_a_gpu(host: Host) -> None:
    assert host.look(b"couldn't communicate with the NVIDIA driver", 9, driver=False).decode().strip() == IDLE


@pytest.mark.parametrize(
    "name", ["nv-hostengine-2", "xnv-hostengine", "nv-hostengine --x", "nvAhostengine", "[Not Found]"]
)
def test_only_exactly_the_ignored_names_are_ignored(host: Host, name: str) -> None:
    assert occupants(host.run(f"5, {name}\n".encode(), ignored=("nv-hostengine", "nv.hostengine")))


def test_nothing_is_ignored_without_names(host: Host) -> None:
    assert occupants(host.run(b"71, nv-hostengine\n", ignored=()))


@pytest.mark.parametrize(
    ("printed", "status"), [(b"", 9), (b"Unable to determine the device handle\n", 1), (b"[N/A]\n", 0)]
)
def test_only_the_diagnostics_of_a_claim_wait_if_the_processes_cannot_be_listed(
    host: Host, printed: bytes, status: int
) -> None:
    assert host.run(printed, status) == DIAGNOSED
    output = host.run(printed, status, prove_idle=True)
    assert DIAGNOSED not in output
    (finding,) = occupants(output) or ("",)
    assert finding.startswith(UNKNOWN)
    assert finding.endswith(printed.decode().strip())


def test_a_process_counts_also_if_the_list_is_incomplete(host: Host) -> None:
    assert occupants(host.run(b"4711, python3\nUnable to determine the device handle\n", 1))


def test_a_name_is_escaped_and_cut_and_many_processes_are_counted(host: Host) -> None:
    hostile = b"4711, \x1b[31m$(reboot)`reboot`'\"\xff" + b"x" * 5000
    output = host.run(hostile + b"\n" + b"".join(b"%d, python3\n" % number for number in range(50)))
    found = occupants(output) or ()
    assert len(output) < 5000
    assert found[0].startswith("process 4711 uses a GPU: ?[31m$(reboot)`reboot`'\"\\xff")
    assert len(found[0]) < MAX_NAME + 40
    assert all(line.isascii() and line.isprintable() for line in found)
    assert (len(found), found[-1]) == (6, "15 more processes")


@pytest.mark.parametrize("name", ["$(touch broken)", "'; touch broken; '", "a|b", "(", "[", "\\"])
def test_a_name_in_the_settings_is_text_and_no_command_or_pattern(host: Host, name: str) -> None:
    assert host.run(f"5, {name}\n".encode(), ignored=(name,)) == DIAGNOSED
    assert not Path("broken").exists()
    assert occupants(host.run(b"5, b\n", ignored=(name,)))


@pytest.mark.parametrize("output", [b"", b"{}", b"x\n" + MARKER.encode() + b"\n1, a\n", MARKER.encode() + b"x\n"])
def test_an_output_that_does_not_begin_with_the_marker_is_not_occupied(output: bytes) -> None:
    assert occupants(output) is None
