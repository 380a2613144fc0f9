"""Handlers for the routes of devices and findings, one method per route."""

from __future__ import annotations

import re
from dataclasses import asdict

from faultbridge.api.bodies import read_mark
from faultbridge.api.requests import Request
from faultbridge.dataclass import dataclass
from faultbridge.domain.findings import Finding
from faultbridge.domain.offenders import Odds
from faultbridge.errors import UnknownName
from faultbridge.findings.judgments import Judgments
from faultbridge.ledger.history.device_history import DeviceHistory
from faultbridge.registry.documents import Document
from faultbridge.registry.hardware_documents import finding_document, offender_document
from faultbridge.registry.views import Views

FINDING_ID = re.compile(r"f-[a-z2-7]{16}")


@dataclass(frozen=True, slots=True)
class HardwareHandlers:
    """Handles requests about the devices and findings of one cluster."""

    directory: Views
    devices: DeviceHistory
    judgments: Judgments
    odds: Odds

    def device_history(self, request: Request) -> Document:
        """Show the history of a device in one cluster: its nodes, faults, repairs and verdicts, oldest first.

        Raises `UnknownName` if the cluster has no event of the device.
        """
        request.check_parameters()
        self.directory.cluster(request.cluster)
        events = [event for event in self.devices(request.path["device"]) if event.cluster == request.cluster]
        if not events:
            raise UnknownName("device", request.path["device"], request.cluster)
        return {"items": [asdict(event) for event in events]}

    def offenders(self, request: Request) -> Document:
        """List pairs of a device (card) and a slot with repeated faults of severity error or worse.

        The pair with the most faults is first. Faults recorded before `since` do not count.
        """
        request.check_parameters("since")
        self.directory.cluster(request.cluster)
        found = self.devices.offenders(request.cluster, self.odds, request.instant("since"))
        return {"items": [offender_document(one) for one in found]}

    def findings(self, request: Request) -> Document:
        """List findings, oldest first. Findings that have ended are listed only with `ended=true`."""
        request.check_parameters("ended")
        self.directory.cluster(request.cluster)
        found = self.judgments.list([request.cluster], ended=request.flag("ended"))
        return {"items": [finding_document(one) for one in found]}

    def finding(self, request: Request) -> Document:
        """Show a finding of the cluster."""
        request.check_parameters()
        return finding_document(self._finding(request))

    def mark_finding(self, request: Request) -> Document:
        """Record whether a finding was right. The mark changes no case and replaces an earlier mark."""
        request.check_parameters()
        finding, given = self._finding(request), read_mark(request)
        return finding_document(self.judgments.mark(finding.id, given.mark, request.caller.name, given.reason))

    def _finding(self, request: Request) -> Finding:
        finding_id = request.path["finding"]
        found = self.judgments.find(request.cluster, finding_id) if FINDING_ID.fullmatch(finding_id) else None
        if found is None:
            raise UnknownName("finding", finding_id, request.cluster)
        return found
