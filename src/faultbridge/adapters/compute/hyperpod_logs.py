"""Report where HyperPod keeps the logs of a node, because SSM Run Command cannot collect them."""

from __future__ import annotations

from faultbridge.ports import Bundle, BundleState

REASON = (
    "SSM Run Command does not reach HyperPod nodes; the logs of the health monitoring agent and of deep health checks "
    "are in the log group /aws/sagemaker/Clusters/NAME/ID"
)


class HyperPodLogs:
    """A Collector that collects no logs, and returns where HyperPod keeps them."""

    def collect(self, instance_id: str, token: str) -> Bundle:  # noqa: ARG002 - no instance is reached
        """Return a failed log bundle; its reason names the log group in which HyperPod keeps the logs.

        The repair continues without a bundle.
        """
        return Bundle(BundleState.FAILED, reason=REASON)
