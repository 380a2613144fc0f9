"""The embedded stack: two emulators on loopback, and the same template deployed into them.

`up`, `down` and `status` are what the command line calls; `endpoint_environment` is how any client finds a stack
that is up. The emulators are fakes of AWS: what they lack is mended in `gaps`, one module each.
"""

from faultbridge.local.compute_control import (
    forget_script,
    script_bad_on_arrival,
    script_capacity,
    script_cluster,
    script_command,
    script_weather,
)
from faultbridge.local.compute_weather import Climate
from faultbridge.local.fleet import create_fleet
from faultbridge.local.launcher import StackInfo, down, endpoint_environment, stack_info, up
from faultbridge.local.status import StackStatus, status

__all__ = [
    "Climate",
    "StackInfo",
    "StackStatus",
    "create_fleet",
    "down",
    "endpoint_environment",
    "forget_script",
    "script_bad_on_arrival",
    "script_capacity",
    "script_cluster",
    "script_command",
    "script_weather",
    "stack_info",
    "status",
    "up",
]
