"""The embedded stack: Faultbridge's template, deployed into two AWS emulators on this machine.

Modules in reading order: `stack` starts, deploys and stops a stack; `servers` runs the two emulators; `gaps` patches
the emulators where they differ from AWS; `kubernetes` and `hyperpod` are fakes of the Kubernetes and HyperPod APIs.
`environment` defines ports and variables, `clients` calls a stack, `compute_control` creates instances and injects
faults.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faultbridge.local.compute_control import (
        break_diagnostics,
        configure_hyperpod,
        configure_kubernetes,
        create_fleet,
        heal_instance,
        make_next_instance_bad,
        reset_faults,
        set_capacity,
        set_command_output,
        set_launch_faults,
    )
    from faultbridge.local.servers.fault_injection import LaunchFaultRates
    from faultbridge.local.stack.lifecycle import (
        StackInfo,
        StackStatus,
        down,
        endpoint_environment,
        stack_info,
        stack_names,
        status,
        up,
    )

__all__ = [
    "LaunchFaultRates",
    "StackInfo",
    "StackStatus",
    "break_diagnostics",
    "configure_hyperpod",
    "configure_kubernetes",
    "create_fleet",
    "down",
    "endpoint_environment",
    "heal_instance",
    "make_next_instance_bad",
    "reset_faults",
    "set_capacity",
    "set_command_output",
    "set_launch_faults",
    "stack_info",
    "stack_names",
    "status",
    "up",
]


# A command that only looks for a stack imports neither the deployment nor AWS clients.
def __getattr__(name: str) -> Any:  # noqa: ANN401 - any name of `__all__`
    """Import the module of a name of `__all__` at its first use."""
    for module in ("stack.lifecycle", "compute_control", "servers.fault_injection") if name in __all__ else ():
        found = getattr(import_module(f"{__name__}.{module}"), name, None)
        if found is not None:
            return found
    raise AttributeError(name)
