"""The source `health-check`: failed checks of Node Health Check (NHC) and of scripts around it.

Source: NHC 1.4, azurehpc-health-checks, ParallelCluster's health check manager.
"""

from faultbridge.decode.line_source import LineRule, LineSource
from faultbridge.model.fault_enums import ComponentType

_HEAD = r"(?:nhc: {1,4}Health check failed: {1,4}|Node Health Checks failed - (?P<node>\S{1,253}) - \S{1,64} - )"

SOURCE = LineSource(
    "output of Node Health Check (NHC) and of ParallelCluster's health checks: failed checks",
    r"\bnhc: {1,4}Health check failed: |\bNode Health Check(?:s failed - | completed| starting)|\bHealth Check '\w",
    (
        LineRule(
            rf"{_HEAD}(?:Check )?(?P<check>\w{{0,48}}gpu_?count\w{{0,16}})",
            "host.gpu_count_mismatch",
            "ERROR:  nhc:  Health check failed:  Check check_nv_gpu_count 8 returned 1",
            near='Running check:  "check_nv_gpu_count 8"',
            component=ComponentType.NODE,
        ),
        LineRule(
            rf"{_HEAD}(?P<check>\w{{1,64}}).{{0,256}}\b[Xx][Ii][Dd](?: code)?[ :(]{{1,3}}(?P<number>\d{{1,3}})\b",
            "xid.{number}",
            "ERROR:  nhc:  Health check failed:  check_gpu_xid:  GPU 3 has Xid 79",
            near='Running check:  "check_gpu_xid Xid 79"',
        ),
        LineRule(
            rf"{_HEAD}(?:Check )?(?P<check>\w{{1,64}})",
            "agent.health_check_failed",
            "ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port is ACTIVE (LinkUp 400 Gb/sec).",
            near="Node Health Check completed successfully (3s).",
            component=ComponentType.NODE,
        ),
        LineRule(
            r"Health Check '(?P<check>[^']{1,64})'.{0,64}\b(?:fail|exit code '?[1-9])",
            "agent.health_check_failed",
            "2026-02-03 04:05:06,123 - [health_check_manager.py:main] - ERROR - JobID 7 - Health Check 'Gpu' failed",
            near="2026-02-03 04:05:06,123 - [health_check_manager.py:main] - INFO - Executing Health Check 'Gpu'",
            component=ComponentType.NODE,
        ),
    ),
)
