"""An error of unknown text is judged by the class of its exception, its status, its signal and its ranks."""

from __future__ import annotations

import pytest

from faultbridge.model.enums import Outlook
from tests.explain.verdicts import verdict

OOM = "2026-07-10T10:00:00+00:00 n-2 kernel: Out of memory: Killed process 9 (python) total-vm:9kB, anon-rss:9kB\n"
DEATH = "E0710 10:00:09.000 7 api.py:869] failed (exitcode: -9) local_rank: 0 (pid: 9) of binary: python\n"


@pytest.mark.parametrize(
    ("error", "outlook", "domain"),
    [
        ("acme.conf.MyConfigurationError: no such optimizer", Outlook.STOP, "software"),
        ("acme.core.TokenTypeError: expected str", Outlook.STOP, "software"),
        ("ray.exceptions.RayTaskError(KeyError): ray::train()", Outlook.STOP, "software"),
        ("acme.data.BadShardError: no column", Outlook.RESTART, "software"),
        ("acme.net.PeerLostError: the peer is lost", Outlook.RESTART, "unknown"),
        ("AssertionError: the server is unavailable", Outlook.RESTART, "unknown"),
        ("azure.core.exceptions.ServiceRequestError: x", Outlook.RESTART, "storage"),
        ("urllib.error.HTTPError: HTTP Error 502: Bad Gateway", Outlook.RESTART, "network"),
        ("urllib.error.HTTPError: HTTP Error 403: Forbidden", Outlook.STOP, "software"),
        ("OSError: [Errno 112] Host is down: '/shared/x'", Outlook.RESTART, "storage"),
        ("OSError: [Errno 101] Network is unreachable", Outlook.RESTART, "network"),
        ("the container ended with exit code 139", Outlook.RESTART, "software"),
        ("the container ended with exit code 137", Outlook.RESTART, "unknown"),
        ("FloatingPointError: overflow", Outlook.STOP, "numerical"),
        ("ValueError: the loss of step 7 is nan", Outlook.STOP, "numerical"),
    ],
)
def test_an_unknown_text_of_a_known_class_has_the_verdict_of_its_class(
    error: str, outlook: Outlook, domain: str
) -> None:
    found = verdict(f"[rank3]: {error}\n")
    assert (found.outlook, found.domain) == (outlook, domain)


def test_an_unknown_error_stops_a_job_only_if_several_ranks_on_several_nodes_report_it() -> None:
    def outlook(*ranks: int, error: str = "acme.BadShardError: shard {} has no column") -> Outlook:
        return verdict("".join(f"[rank{rank}]: {error.format(rank)}\n" for rank in ranks)).outlook

    assert outlook(0, 8, 16) is Outlook.STOP
    assert outlook(0, 8) is Outlook.RESTART
    assert outlook(0, 1, 2) is Outlook.RESTART
    assert outlook(0, 8, 16, error="acme.StoreError: {} lost the connection") is Outlook.RESTART


def test_an_unknown_error_of_ranks_on_unknown_nodes_does_not_stop_a_job() -> None:
    job = "".join(f"[rank{rank}]: acme.BadShardError: shard {rank} has no column\n" for rank in (0, 8, 16))
    assert verdict(job, nodes={}).outlook is Outlook.RESTART
    assert verdict(job, nodes={0: "n-1"}).outlook is Outlook.RESTART
    assert verdict(job, nodes={0: "n-1", 8: "n-2"}).outlook is Outlook.STOP


@pytest.mark.parametrize(
    "hedge",
    [
        "Worker exit detail: End of file. There are some potential root causes. (1) OOM killer (2) SIGSEGV",
        "UNAVAILABLE: Either the leader task was preempted/died or this task is experiencing network issues.",
        "Task failed. This can happen if the node was preempted, had a hardware failure, or crashed.",
    ],
)
def test_a_list_of_what_may_have_happened_is_no_evidence(hedge: str) -> None:
    assert verdict(f"{hedge}\n").domain == "unknown"


@pytest.mark.parametrize("killed", ["", "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.\n"])
def test_a_node_without_free_memory_does_not_stop_a_job(killed: str) -> None:
    found = verdict(f"{DEATH}{killed}", OOM)
    assert (found.outlook, found.cause and found.cause.mechanism.name) == (Outlook.RESTART, "node_out_of_memory")


def test_a_launcher_that_ends_its_processes_is_not_the_platform() -> None:
    closing = "W0710 10:00:08.000 7 api.py:897] Sending process 9 closing signal SIGTERM\n"
    assert verdict(closing).domain == "unknown"
    assert verdict("api.py:704] Received Signals.SIGTERM death signal, shutting down workers\n").domain == "platform"


def test_a_line_of_source_code_is_no_error() -> None:
    assert verdict("    raise KeyError(name) from error\n").cause is None


@pytest.mark.parametrize(
    ("library", "error", "domain"),
    [
        ("botocore/httpsession.py", "RuntimeError: the body was cut", "storage"),
        ("google/cloud/storage/blob.py", "OSError: the upload was cut", "storage"),
        ("aiohttp/streams.py", "asyncio.exceptions.TimeoutError", "network"),
        ("urllib3/response.py", "acme.StreamProtocolError: the reply was cut", "network"),
        ("acme/model.py", "RuntimeError: the body was cut", "software"),
        ("botocore/client.py", "KeyError: 'Bucket'", "software"),
    ],
)
def test_the_innermost_frames_of_an_error_without_a_known_text_give_its_domain(
    library: str, error: str, domain: str
) -> None:
    frames = f'  File "/opt/train.py", line 7, in main\n    run()\n  File "/lib/{library}", line 9, in call\n    f()\n'
    assert verdict(f"Traceback (most recent call last):\n{frames}{error}\n").domain == domain


def traceback(*files: str) -> str:
    frames = "".join(f'  File "{file}", line 9, in call\n    f()\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}"


@pytest.mark.parametrize(
    ("first", "later", "domain"),
    [
        ("/lib/acme/model.py", "/lib/botocore/client.py", "software"),
        ("/lib/botocore/client.py", "/lib/acme/model.py", "storage"),
    ],
)
def test_only_the_frames_of_the_first_of_several_chained_tracebacks_give_the_domain(
    first: str, later: str, domain: str
) -> None:
    chained = "During handling of the above exception, another exception occurred:"
    log = f"{traceback('/opt/train.py', first)}acme.Cut: x\n\n{chained}\n\n{traceback('/opt/train.py', later)}"
    assert verdict(f"{log}RuntimeError: the body was cut\n").domain == domain


@pytest.mark.parametrize(
    ("line", "outlook", "domain"),
    [
        ("RuntimeError: cannot finish gs://bucket/step_9/params", Outlook.RESTART, "storage"),
        ("RuntimeError: s3://bucket/index.json not found! Check the path", Outlook.STOP, "software"),
        ("loading gs://bucket/step_9/params", Outlook.RESTART, "unknown"),
        ("fsspec.exceptions.FSTimeoutError", Outlook.RESTART, "storage"),
        ("acme.conf.TrainerConfigError", Outlook.STOP, "software"),
        ("OSError: [Errno 39] Directory not empty: '/ckpt/weights'", Outlook.RESTART, "storage"),
        ("OSError: [Errno 98] Address already in use", Outlook.RESTART, "software"),
        ("FloatingPointError: gradients are inconsistent between workers", Outlook.RESTART, "numerical"),
        ("slurmstepd: error: container_g_join failed: 119383", Outlook.RESTART, "platform"),
        ("init.cc:9 NCCL WARN Mismatched NCCL version detected : rank 0 22005 rank 8 21903", Outlook.STOP, "software"),
    ],
)
def test_a_line_is_judged_by_its_path_its_error_number_or_its_source(line: str, outlook: Outlook, domain: str) -> None:
    found = verdict(f"{line}\n")
    assert (found.outlook, found.domain) == (outlook, domain)


@pytest.mark.parametrize(
    "line",
    [
        "\u2502 \u2771 526 \u2502   except KeyError: \u2502",
        "    except KeyError:",
        "    raise acme.conf.TrainerConfigError",
    ],
)
def test_source_code_that_a_traceback_shows_is_no_error(line: str) -> None:
    assert verdict(f"{line}\n").outlook is Outlook.RESTART


FRAME = '  File "{}", line 9, in call\n    f()\n'


@pytest.mark.parametrize(
    ("file", "error"),
    [
        ("/opt/model.py", "RuntimeError: cusolver error: CUSOLVER_STATUS_EXECUTION_FAILED, when calling a solver"),
        ("/opt/model.py", "RuntimeError: cuFFT error: CUFFT_EXEC_FAILED"),
        ("/venv/site-packages/torch_npu/npu/utils.py", "RuntimeError: ACL stream synchronize failed, code:507015"),
        ("/venv/site-packages/jax/_src/dispatch.py", "RuntimeError: UNAVAILABLE: worker 3 of the slice was preempted"),
        ("/venv/site-packages/jax/_src/xla_bridge.py", "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: x"),
        ("/mnt/datasets/loader.py", "RuntimeError: the stream ended early"),
        ("/venv/site-packages/torch/nn/functional.py", "RuntimeError: the engine did not run"),
    ],
)
def test_a_failure_below_a_call_of_a_library_does_not_stop_the_job(file: str, error: str) -> None:
    call = FRAME.format("/venv/site-packages/torch/nn/modules/module.py")
    found = verdict(f"Traceback (most recent call last):\n{call}{FRAME.format(file)}{error}\n")
    assert found.outlook is Outlook.RESTART


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: Expected 8 local devices, got 7",
        "RuntimeError: every node must have 8 devices",
        "RuntimeError: Infiniband device mlx5_3 is required but its port is down",
        "RuntimeError: the EFA provider is required",
    ],
)
def test_a_rule_about_devices_does_not_stop_the_job_because_a_device_may_be_lost(error: str) -> None:
    assert verdict(f"{error}\n").outlook is Outlook.RESTART
