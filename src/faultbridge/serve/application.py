"""The installation of a Lambda function: all its services, built once per process.

Every handler imports this module first (its name sorts before the entry points), because the module makes Python's
cyclic garbage collector run less often. With Python's default, the collector runs hundreds of times while a function
imports its modules. The imported objects are not garbage, and these runs took a seventh of a cold start.
"""

from __future__ import annotations

import gc
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation

NEW_OBJECTS = 100_000
"""Objects that may be created before the collector runs. Only reference cycles wait for it, a few megabytes at most."""

gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


@cache
def from_environment() -> Installation:
    """Return the installation that environment variables configure; each process builds it once."""
    from faultbridge.adapters.aws.telemetry import log_as_json
    from faultbridge.model.settings import Settings
    from faultbridge.serve.wiring.installation import on_aws

    log_as_json()
    return on_aws(Settings.from_environment())
