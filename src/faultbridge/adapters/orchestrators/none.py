"""A cluster without an orchestrator: nothing schedules work on it, so there is nothing to keep off a node."""

from __future__ import annotations

from datetime import datetime

from faultbridge.ports import Answer, Member

NOT_APPLICABLE = Answer(reason="not applicable: the cluster has no orchestrator")


class NoOrchestrator:
    """An Orchestrator that has nothing to do and says so."""

    @property
    def applicable(self) -> bool:
        """Tell that there is nothing to cordon."""
        return False

    def cordon(self, node: Member) -> Answer:  # noqa: ARG002 - the port's signature
        """Answer that it does not apply."""
        return NOT_APPLICABLE

    def uncordon(self, node: Member) -> Answer:  # noqa: ARG002 - the port's signature
        """Answer that it does not apply."""
        return NOT_APPLICABLE

    def drain(self, node: Member, deadline: datetime) -> Answer:  # noqa: ARG002 - the port's signature
        """Answer that it does not apply."""
        return NOT_APPLICABLE
