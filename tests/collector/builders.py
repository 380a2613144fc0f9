"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from typing import Any

STARTED, ENDED = "2026-02-03T01:00:00Z", "2026-02-05T00:05:06Z"


def pod(name: str, node: str | None = None, phase: str = "Running", gpus: int = 8, **labels: Any) -> dict[str, Any]:
    """Return a pod of Job `llm`; underscores and double underscores in labels stand for - . and /."""
    index = int(name.rpartition("-")[2])
    status: dict[str, Any] = {"phase": phase, **({"startTime": STARTED} if node else {})}
    if phase in {"Succeeded", "Failed"}:
        code = 0 if phase == "Succeeded" else 137
        end = {"exitCode": code, "reason": "OOMKilled" if code else "Completed", "finishedAt": ENDED, "message": "x"}
        status["containerStatuses"] = [{"name": "train", "state": {"terminated": end}}]
    named = {"batch.kubernetes.io/job-name": "llm", "batch.kubernetes.io/job-completion-index": str(index)}
    limits = {"nvidia.com/gpu": str(gpus), "cpu": "96"}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels or named},
        "spec": {
            "containers": [{"name": "train", "resources": {"limits": limits}}],
            **({"nodeName": node} if node else {}),
        },
        "status": status,
    }
