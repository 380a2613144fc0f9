"""Fixtures and hooks for all tests."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from hypothesis import HealthCheck, settings

from faultbridge.model.log import LOGGER
from tests.embedded import embedded_stack, recording_proxy, stop_shared_stacks, tiny_stack
from tests.scheduling import IS_XDIST_PROCESS, Priority, StacksTogether, needs_stack, repeat_command, start_order
from tests.waiting import STACK_TIMEOUT

__all__ = ["embedded_stack", "recording_proxy", "tiny_stack"]

ROOT = Path(__file__).resolve().parents[1]
PRIORITY = Priority()

# The time of an example depends on the host's load, so none is limited. The check of a merge gives one result for one
# state of the code, so its examples are always the same; `make laws` searches with others, twenty times as many.
settings.register_profile(
    "same", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", settings.get_profile("same"), derandomize=False, max_examples=1000, database=None, print_blob=True
)
settings.load_profile("same")


# Collecting garbage rarely saves a fifth of the time of importing modules and collecting tests.
gc.set_threshold(100_000, 20, 20)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a module that creates its requests while it is collected, in runs without the tests of the night."""
    requests = ROOT / "tests" / "api" / "test_conformance.py"
    return True if collection_path == requests and "not (nightly" in config.option.markexpr else None


def pytest_collection_finish() -> None:
    """Exclude imported modules and collected tests from garbage collection, which makes the tests faster."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slowest tests first, and give those on a stack the time that a busy host needs."""
    items.sort(key=start_order)
    for item in items:
        if "MUTANT_UNDER_TEST" in os.environ:
            item._nodeid = item.nodeid  # mutmut 3.7 reads this name, which pytest 9.2 does not have
        if needs_stack(item.nodeid) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(STACK_TIMEOUT))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave the processors first to embedded stacks."""
    PRIORITY.lower(item.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stop the shared stacks of a process of xdist after the last of its tests that needs one.

    `StacksTogether` runs tests on a shared stack in a row. Without xdist, options such as `--ff` may order them
    otherwise.
    """
    if IS_XDIST_PROCESS and nextitem is not None and not needs_stack(nextitem.nodeid):
        stop_shared_stacks()


def pytest_sessionfinish() -> None:
    """Stop the shared stacks that still run."""
    stop_shared_stacks()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a line for each failure that repeats it alone, whatever its markers are, with the same random inputs."""
    failed = {one.nodeid for kind in ("failed", "error") for one in terminalreporter.stats.get(kind, ())}
    inputs = {name: config.getoption(name) for name in ("--hypothesis-profile", "--hypothesis-seed")}
    for nodeid in sorted(failed):
        terminalreporter.write_line(f"repeat: {repeat_command(nodeid, inputs)}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> StacksTogether:
    """Run the tests that share a stack in one process."""
    return StacksTogether(config, log)


@pytest.fixture(scope="session", autouse=True)
def shared_service_models() -> Iterator[None]:
    """Share the loader of service models among all sessions of botocore in this process.

    Otherwise each set of clients reads the models again, which takes most of the time of a test on clients.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", cache(botocore.session.create_loader))
        yield


@pytest.fixture(autouse=True)
def logger_without_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test log as a process that is no function of Lambda.

    `from_environment` configures the logger of the whole process: a later test would print its log lines to the
    captured, closed output of the test that logged first.
    """
    monkeypatch.setattr(LOGGER, "handlers", [logging.NullHandler()])
    monkeypatch.setattr(LOGGER, "propagate", True)
    monkeypatch.setattr(LOGGER, "level", logging.NOTSET)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real captures beside the repository; skip the test if it does not exist."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder ../shared beside the repository")
    return folder
