"""`faultbridge agent`: runs the node agent, which collects the faults of this node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from faultbridge.cli.declare import BadParameter, Exit, Group, Option, command
from faultbridge.model.errors import Misconfigured
from faultbridge.node.agent.settings import AgentSettings


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
