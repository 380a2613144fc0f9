"""Names of virtual network interfaces: those of containers, virtual machines and tunnels.

Such an interface appears and disappears with its container. The node has no fault if such an interface is down. The
names are those that Docker, Podman, LXD, libvirt, the common network plugins of Kubernetes and tunnels of Linux use.
"""

from __future__ import annotations

import re

VIRTUAL_NAMES = (
    r"(?:veth|docker|podman|br-|lxc|lxd|incusbr|virbr|vmnet|vnet|cni|cali|cilium|flannel|kube|nodelocal|eni[0-9a-f]{8,}"
    r"|tun|tap|vxlan|geneve|gre|sit|ip6tnl|wg|tailscale|dummy|ifb|vlan\.)"
)
_VIRTUAL = re.compile(VIRTUAL_NAMES)


def is_virtual(name: str) -> bool:
    """Return True if a name starts like the names of virtual interfaces."""
    return _VIRTUAL.match(name) is not None
