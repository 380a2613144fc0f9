"""The models of orders that operators give through the API, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultbridge.api.node_models import ResponseModel
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.findings import Mark


class ApprovalAnswer(ResponseModel):
    """The body of an approval or a denial: which approval request it answers, and the reason.

    `attempt` and `repair_action` identify the approval request.
    """

    attempt: int = Field(ge=1, le=9999, description="The attempt of the approval request.")
    repair_action: RepairAction = Field(description="The repair action of the approval request.")
    reason: str = Field(default="", max_length=256)


class OrderReason(ResponseModel):
    """The reason for which an operator gives an order."""

    reason: str = Field(default="", max_length=256)


class FindingMark(ResponseModel):
    """An operator's mark on a finding: `right` if the node had a defect, otherwise `wrong`."""

    mark: Mark
    reason: str = Field(default="", max_length=256)


class ApprovalResult(ResponseModel):
    """The recorded answer to an approval request."""

    case_id: str
    attempt: int
    repair_action: RepairAction
    answer: Literal["approved", "denied"]
