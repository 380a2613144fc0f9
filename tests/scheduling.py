"""Distribution of tests over processes: which tests share a process, and which start first."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

from xdist.scheduler import LoadScopeScheduling

IS_XDIST_PROCESS = "PYTEST_XDIST_WORKER" in os.environ

_STACK_TESTS = ("tests/local/", "tests/e2e/")
_OF_SHARED_STACK = ("tests/e2e/", "tests/local/test_archive.py", "tests/local/test_product.py")
"""Tests on the product's stack, which one process starts once; the others of `tests/local` start smaller ones."""
WAITING_TESTS = (
    "tests/agent/test_agent_process.py",
    "tests/console/test_browser.py",
    "tests/contracts/test_job_callback.py",
    "tests/contracts/test_orchestrator.py",
    "tests/contracts/test_slurm_job_script.py",
    "tests/contracts/test_slurmrestd.py",
    "tests/gateway/test_alertmanager.py",
    "tests/scenarios/orchestrator/test_on_a_real_slurm.py",
)
"""Tests that wait most of their time: for processes of the agent, a browser, a real Slurm or Alertmanager."""

_SIMULATION_TESTS = "tests/simulation/"

SLOW_TESTS = (
    *WAITING_TESTS,
    "tests/simulation/test_",
    "tests/agent/test_agent_to_table.py::test_each_line_is_one_entry_when_the_agent_process_is_killed",
    "tests/agent/test_delivery.py::test_half_an_hour_without_network_loses_no_record_and_limits_the_calls",
    "tests/api/test_openapi.py::test_no_valid_or_invalid_request_breaks_the_api",
    "tests/architecture/test_language.py::test_no_file_uses_a_retired_word",
    "tests/architecture/test_language.py::test_the_sample_of_docstrings_covers_modules_classes_and_functions",
    "tests/architecture/test_template.py::test_the_source_",
    "tests/backtest/test_identity.py",
    "tests/cli/test_finding_a_stack.py::test_an_unreachable_stack_is_one_line",
    "tests/console/test_hostile_documents.py",
    "tests/console/test_reads.py",
    "tests/console/test_ten_cases.py",
    "tests/console/test_year.py",
    "tests/contracts/test_archive.py::TestArchive::test_more_keys_than_one_response_holds_are_listed",
    "tests/contracts/test_slurm_hooks.py",
    "tests/decoders/test_captures.py::test_a_damaged_sample_is_decoded_or_rejected",
    "tests/decoders/test_detection.py::test_a_kernel_log_after_a_head_of_no_format_is_found_at_any_place",
    "tests/decoders/test_detection.py::test_a_sample_is_recognized_as_its_source_or_not_at_all",
    "tests/decoders/test_limits.py",
    "tests/decoders/test_line_filter.py::test_learned_words_never_change_the_lines_found",
    "tests/decoders/test_nccl_peer_pair.py",
    "tests/decoders/test_no_silent_loss.py::test_a_record_survives_a_seeded_slice_of_all_combinations",
    "tests/decoders/test_peer_checks.py",
    "tests/decoders/test_registry.py::test_a_damaged_sample_is_decoded_or_rejected",
    "tests/decoders/test_registry.py::test_any_text_is_decoded_or_rejected",
    "tests/decoders/test_spread_documents.py::test_lines_of_open_documents_are_kept_up_to_a_limit_of_all_together",
    "tests/domain/test_safe_text.py::test_json_keeps_its_meaning",
    "tests/events/test_gate.py",
    "tests/events/test_parity.py",
    "tests/explain/test_corpus.py",
    "tests/explain/test_decisive_node_faults.py::test_a_fault_after_which_the_job_made_no_progress",
    "tests/explain/test_decisive_node_faults.py::test_no_printed_line_turns_a_decisive_fault_of_a_node_into_stop",
    "tests/explain/test_held_out.py::test_stop_is_given_exactly_where_it_is_the_label",
    "tests/explain/test_hostile_dumps.py",
    "tests/explain/test_logs_of_a_job.py",
    "tests/explain/test_old_logs_and_teardown.py::test_a_journal_larger_than_a_slab",
    "tests/findings/test_findings.py::test_a_node_far_above_its_peers_for_hours_is_found_and_nothing_else_happens",
    "tests/gateway/test_captures_through_intake.py",
    "tests/ingest/test_shared_messages.py",
    "tests/ingest/test_unchanged_counters.py::test_the_same_faults_are_found_for_every_sequence_of_samples",
    "tests/lab/test_fleet_command.py",
    "tests/lab/test_repair_queue.py",
    "tests/lab/test_same_decisions.py",
    "tests/local/test_gaps.py::test_every_gap_is_still_open_and_every_replaced_name_exists",
    "tests/packaging/test_artifacts.py",
    "tests/pipeline/correlate/test_exempt_nodes.py",
    "tests/pipeline/test_capacity.py::test_no_reachable_node_has_more_than_200_kb_and_no_commit_more_than_90_writes",
    "tests/plots/test_charts.py::test_every_point_has_its_name",
    "tests/presentation/test_pages_of_fleet.py::test_no_step_of_an_attempt_begins_in_an_earlier_case",
    "tests/scenarios/",
    "tests/tuning/test_search.py",
)
"""Tests that take more than a second of a core, all parameters of one together, files of them that take more than
five, tests that wait, and all scenarios; `make test-fast` leaves them out. Each is a start of a node id."""


class ScopeByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no type annotations
    """Runs the tests of a file in one process, those on stacks in two, those that wait in one, simulations anywhere.

    So one process waits for the shared stack while the others wait less or compute. xdist's own groups have no effect
    under pytest 9.2, which does not expose node ids to them. Two steps that xdist makes for each test search
    all tests; they are replaced, because they take seconds with 20,000 tests.
    """

    @cached_property
    def _places(self) -> dict[str, int]:
        return {nodeid: place for place, nodeid in enumerate(self.collection)}

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_STACK_TESTS):
            return "shared stack" if nodeid.startswith(_OF_SHARED_STACK) else "own stacks"
        if nodeid.startswith(WAITING_TESTS):
            return "waiting"
        return nodeid if nodeid.startswith(_SIMULATION_TESTS) else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        """Send the next scope to a process; xdist searches the place of each test in the list of all."""
        scope, tests = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[scope] = tests
        node.send_runtest_some([self._places[nodeid] for nodeid, done in tests.items() if not done])

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Record the end of a test and forget a finished scope; xdist counts all tests of the process again."""
        nodeid = self.registered_collections[node][item_index]
        work, scope = self.assigned_work[node], self._split_scope(nodeid)
        work[scope][nodeid] = True
        if all(work[scope].values()):
            del work[scope]
        self._reschedule(node)


def needs_stack(nodeid: str) -> bool:
    """Return whether a test runs on an embedded stack."""
    return nodeid.startswith(_STACK_TESTS)


class Priority:
    """Lowers the priority of each process with its first test that computes: tests that wait decide when a run ends."""

    NICENESS = 10

    def __init__(self) -> None:
        self._lowered = not IS_XDIST_PROCESS

    def lower(self, nodeid: str) -> None:
        """Lower the priority for the rest of the process, if this test neither needs a stack nor waits."""
        if not self._lowered and not nodeid.startswith((*_STACK_TESTS, *WAITING_TESTS)):
            os.nice(self.NICENESS)
            self._lowered = True


def start_order(nodeid: str) -> int:
    """Return the sort key of a test: the slowest tests start first, so that they do not delay the end."""
    if nodeid.startswith(_STACK_TESTS):
        return 0 if nodeid.startswith(_OF_SHARED_STACK) else 1
    if nodeid.startswith(WAITING_TESTS):
        return 2
    return 3 if nodeid.startswith(_SIMULATION_TESTS) else 4


def is_slow(nodeid: str) -> bool:
    """Return whether `make test-fast` leaves out a test that has no marker of its own."""
    return nodeid.startswith(SLOW_TESTS)
