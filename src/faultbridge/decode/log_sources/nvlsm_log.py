"""The source `nvlsm-log`: the log of NVIDIA's NVLink subnet manager, which programs the switches from NVLink5 on.

It has the form of OpenSM's log. Source: OpenSM, NVIDIA's fabric manager guide.
"""

from faultbridge.decode.line_source import LineRule, LineSource
from faultbridge.model.fault_enums import ComponentType

_HEAD = r"^[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{1,6} \[[0-9A-Fa-f]{1,16}\] 0x[0-9a-fA-F]{2} -> "

SOURCE = LineSource(
    "the log of NVIDIA's NVLink subnet manager (NVLSM): errors",
    _HEAD,
    (
        LineRule(
            _HEAD + r"(?:(?P<function>\w{1,64}): ERR (?P<error>[0-9A-F]{4}): |Errors during initialization)",
            "host.fabric_manager_error",
            "Feb 03 04:05:06 123456 [C4F7E740] 0x01 -> sm_port_info: ERR 0F10: received error status 0x1C for a port",
            near="Feb 03 04:05:06 123456 [C4F7E740] 0x80 -> SUBNET UP",
            component=ComponentType.NODE,
        ),
    ),
)
