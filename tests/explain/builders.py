"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from typing import Any

OWN: dict[str, Any] = {
    "signals": [
        {"name": "own.license", "role": "initiating", "contains": "license server", "cases": ["no license server"]}
    ],
    "mechanisms": [
        {
            "name": "license",
            "domain": "platform",
            "outlook": "RESTART",
            "summary": "the license server did not answer",
            "initiators": {"own.license": "decisive"},
            "causes": ["elastic.*"],
            "settles": "the log of the license server",
            "source": "own",
            "cases": [{"signals": ["+0 job - own.license", "+1 job - elastic.child_failed"], "verdict": "RESTART"}],
        }
    ],
}
