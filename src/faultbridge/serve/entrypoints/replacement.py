"""The replacement function: runs one step of a repair attempt. Step Functions calls the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from faultbridge.adapters.aws.telemetry import emit
from faultbridge.serve.wiring.services import wire_step_runner

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation


def replacement(event: Mapping[str, object], installation: Installation) -> dict[str, str]:
    """Run one step of a repair attempt, and return its outcome."""
    result = wire_step_runner(installation).run_step(event)
    emit({"Steps": 1}, step=event.get("step"), case=event.get("case"), outcome=result.get("outcome"))
    return result
