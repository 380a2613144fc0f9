"""The source `device-plugin-log`: the log of NVIDIA's Kubernetes device plugin.

The plugin marks a GPU as unhealthy after each Xid that it does not attribute to an application. Source:
k8s-device-plugin's health.go, 0.6 to 0.17.
"""

from faultbridge.decode.line_source import LineRule, LineSource

_UUID = r"(?:(?P<uuid>GPU-[0-9a-fA-F-]{8,40})|(?P<mig>MIG-[\w/-]{8,80}))"

SOURCE = LineSource(
    "the log of NVIDIA's Kubernetes device plugin: Xids after which it marks a GPU unhealthy",
    r"XidCriticalError: Xid=|device marked unhealthy: |Registered device plugin for '"
    r"|^(?!.{0,4096}_TRANSPORT\b).{0,4096}\bnvidia-device-plugin[\w./-]{0,128}"
    r"(?:\[\d{1,10}\])?(?:: |\] | {1,4}[|:]? ?[IWEF\d])",
    (
        LineRule(
            rf"XidCriticalError: Xid=0*(?P<number>\d{{1,6}})(?: on Device={_UUID}|, All devices)",
            "xid.{number}",
            "I0203 04:05:06.000000       1 health.go:159] XidCriticalError: Xid=79 on "
            "Device=GPU-0a1b2c3d-0000-0000-0000-000000000001; marking device as unhealthy.",
            near="I0203 04:05:06.000000       1 health.go:159] XidCriticalError: Xid=abc on Device=GPU-0a1b2c3d",
        ),
        LineRule(
            rf"'[\w./-]{{1,128}}' device marked unhealthy: {_UUID}",
            "agent.gpu_unhealthy",
            "2026/02/03 04:05:06 'nvidia.com/gpu' device marked unhealthy: GPU-0a1b2c3d-0000-0000-0000-000000000001",
            near="2026/02/03 04:05:06 'nvidia.com/gpu' device marked healthy: GPU-0a1b2c3d-0000-0000-0000-000000000001",
            weaker=True,
        ),
    ),
)
