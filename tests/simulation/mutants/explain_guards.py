"""The guards of `explain`, each left out: what leaves a node out, what stops a job, what blames or acquits hardware."""

from __future__ import annotations

from tests.simulation.mutants.planted_bug import PlantedBug, planted

_VERDICT = "explain/verdict/verdict.py"
_DOUBTS = "explain/verdict/doubts.py"
_WINDOW = "cli/commands/offline/recorded_window.py"
_JOB = "cli/commands/offline/recorded_job.py"
EXPLAIN_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _VERDICT,
        "_names_its_node",
        "a scheduler's line leaves out a node whose own log continues",
        "(mechanism.trusts_job and not continues_after(situation, one))",
        "mechanism.trusts_job",
    ),
    planted(
        _VERDICT,
        "_is_clear",
        "a scheduler that reports a lost node acquits its hardware",
        "if cause.mechanism.trusts_job:",
        "if False:",
    ),
    planted(
        _VERDICT,
        "_hardware",
        "a node with a recorded fault is acquitted",
        "elif not doubtful and not is_likely and",
        "elif not is_likely and",
    ),
    planted(
        _DOUBTS,
        "doubts",
        "a job is stopped although hardware had failed shortly before",
        "if fault is not None:",
        "if False:",
    ),
    planted(
        _DOUBTS,
        "_error_of_another_node",
        "an error of one node stops a job whose other ranks are silent",
        "if 2 * len(ranks) > len(of_node) and len(of_node) < len(situation.nodes):",
        "if False:",
    ),
    planted(
        _DOUBTS,
        "_error_of_another_node",
        "an error of a few ranks of one node does not stop a job",
        "if 2 * len(ranks) > len(of_node) and len(of_node) < len(situation.nodes):",
        "if len(of_node) < len(situation.nodes):",
    ),
    planted(
        _WINDOW,
        "RecordedRequest._ended",
        "a verdict on a job that runs is recorded",
        "if self.record and job.runs:",
        "if False:",
    ),
    planted(
        _WINDOW,
        "RecordedRequest._ended",
        "a job that succeeded is explained",
        "if job.outcome == SUCCEEDED:",
        "if False:",
    ),
    planted(
        _JOB,
        "of_job",
        "a fault from before the window is not read, although it was recorded for the job",
        "*map(hit_since, job.hits)",
        "",
    ),
    planted(
        "explain/signals/node_log.py",
        "NodeLogReader.read",
        "a line of a program with the tag of the kernel is the kernel's",
        "mark_claims(slab) if is_log else slab",
        "slab",
    ),
    planted(
        "data/patterns.py",
        "check_repetitions",
        "a pattern may repeat alternatives",
        "if _is_ambiguous(",
        "if False and _is_ambiguous(",
    ),
)
"""The guards of verdicts, each left out; tests of `tests/explain` and `tests/cli/test_explain_jobs.py` notice each."""
