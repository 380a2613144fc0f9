"""Logs of HyperPod nodes: SSM Run Command does not reach them, so no bundle can be collected."""

from __future__ import annotations

from faultbridge.ports import Bundle, BundleState

REASON = (
    "SSM Run Command does not reach HyperPod nodes; the logs of the health monitoring agent and of deep health checks "
    "are in the log group /aws/sagemaker/Clusters/NAME/ID"
)


class HyperPodLogs:
    """A Collector that returns where HyperPod keeps its logs, and collects none."""

    def collect(self, instance_id: str, token: str) -> Bundle:  # noqa: ARG002 - no instance is reached
        """Return a failed bundle with the reason; the repair continues without it."""
        return Bundle(BundleState.FAILED, reason=REASON)
