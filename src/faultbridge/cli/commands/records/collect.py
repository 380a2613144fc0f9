"""`faultbridge agent` and `collect`: run the node agent, or the collector of a Kubernetes cluster."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from faultbridge.cli.declare import EXIT_NOT_WELL, BadParameter, Exit, Group, Option, Text, command
from faultbridge.cli.errors import requires_extra
from faultbridge.cli.render.output import LogLines, print_line
from faultbridge.model.errors import Misconfigured
from faultbridge.model.log import LOGGER, logged_from
from faultbridge.node.agent.settings import AgentSettings

if TYPE_CHECKING:  # the agent does not load the collector
    from faultbridge.node.collector.collector import Collector
    from faultbridge.record.ports.object_watch import ObjectWatch


def _agent_settings(
    config: Annotated[
        Path | None,
        Option(
            "FILE",
            "TOML settings file. Default: /etc/faultbridge/agent.toml, if it exists. FAULTBRIDGE_AGENT_* "
            "variables override it.",
        ),
    ] = None,
) -> AgentSettings:
    try:
        return AgentSettings.load(config)
    except Misconfigured as error:
        # Only the options and the settings file can be wrong here, so this is wrong usage.
        raise BadParameter(str(error)) from None


AgentSettingsOptions = Annotated[AgentSettings, Group(_agent_settings)]


@command("agent", "", "--once --config /etc/faultbridge/agent.toml")
def run_agent(
    settings: AgentSettingsOptions,
    once: Annotated[bool, Option(help="Collect and send once, then exit within 45 s: with 1 if that failed.")] = False,
) -> None:
    """Collect faults of this node and send them until stopped: kernel log, GPUs, links and counters.

    Without --once, the agent limits itself to an average of 1 % of a CPU core, to 64 MB of memory and, by default, to
    64 MB of disk.
    """
    from faultbridge.node.agent.__main__ import run

    raise Exit(run(settings, once=once))


ONCE_SECONDS = 45.0


@command("collect kubernetes", "", "--once --eks-cluster gpu")
def collect_kubernetes(
    settings: AgentSettingsOptions,
    eks_cluster: Annotated[
        Text, Option("NAME", "Read this EKS cluster with AWS credentials, instead of the cluster of this pod.")
    ] = None,
    jobs: Annotated[
        bool, Option(help="Report jobs too: it then also lists and watches the pods of all namespaces.")
    ] = False,
    once: Annotated[bool, Option(help="Send the current state once, then exit: with 1 if that failed.")] = False,
    metrics_port: Annotated[
        int | None, Option("PORT", "Serve Prometheus metrics. Default: none.", min=0, max=65535)
    ] = None,
) -> None:
    """Send the conditions of all nodes, and the events about them, until stopped.

    The command reads what the EKS node monitoring agent, node-problem-detector, NVSentinel and the kubelet report. With
    --jobs, it reports when jobs with GPUs start and end, as `faultbridge job` does.
    """
    from faultbridge.node.collector.collector import build_collector
    from faultbridge.node.collector.metrics import serve_metrics

    with logged_from(logging.INFO, LogLines(sys.stderr)):
        collector = build_collector(settings, _watch(eks_cluster), jobs=jobs)
        if once:
            _run_once(collector)
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: collector.stop())
        if metrics_port is not None:
            serve_metrics(collector, metrics_port)
        collector.run()


def _run_once(collector: Collector) -> None:
    problem = collector.run_once(ONCE_SECONDS)
    outbox = collector.sender.outbox
    if problem is not None:
        LOGGER.error("records_not_sent", extra={"reason": problem, "waiting": outbox.unsent})
        raise Exit(EXIT_NOT_WELL)
    print_line(f"{collector.sender.sent} records sent")


def _watch(eks_cluster: str | None) -> ObjectWatch:
    """Watch the objects of an EKS cluster, or of this pod's cluster, with the optional package lightkube."""
    with requires_extra("eks"):
        from faultbridge.adapters.kubernetes.client import eks_access, in_cluster_access
        from faultbridge.adapters.kubernetes.object_watch import KubernetesWatch
    if eks_cluster is None:
        in_cluster_access(os.environ)  # outside of a pod this fails now, and not in each retry
        return KubernetesWatch(lambda: in_cluster_access(os.environ))
    from faultbridge.adapters.aws.clients import Clients

    clients = Clients()
    return KubernetesWatch(lambda: eks_access(clients, eks_cluster))
