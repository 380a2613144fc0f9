"""Rules for kernel messages about the host's network cards, PCIe ports, processors and memory.

`RULES` also contains the rules of `disk_rules` and `os_rules`.
"""

from __future__ import annotations

import re

from faultbridge.decoders.common.interfaces import VIRTUAL_NAMES
from faultbridge.decoders.kernel import disk_rules, os_rules
from faultbridge.decoders.kernel.rule import BDF, Rule
from faultbridge.decoders.kernel.rule import rule as _rule
from faultbridge.domain.faults import ComponentType

_EFA = rf"(?:infiniband (?P<name>rdmap\d{{1,4}}s\d{{1,4}}|efa_\d{{1,3}})|efa (?P<pci>{BDF})): "
_MLX5 = (
    rf"(?:mlx5_core (?P<pci>{BDF})(?: \w{{1,16}})?: )?"
    r"(?:[a-z]\w{1,40}(?::\d{1,6})?:?(?:\(pid \d{1,10}\))?: )?"
)
# The texts report a card that does not work, unless the firmware grades the error 4 to 7; older drivers print no grade.
_SYNDROME = r"(?:synd 0x[0-9a-f]{{1,4}}: |Health issue observed, )(?P<error>{})(?!, severity\([4-7]\))"
_ENA = rf"ena (?P<pci>{BDF})(?: (?P<name>[\w.-]{{1,32}}))?(?: \(\w{{1,32}}\))?: "
# Up to Linux 4.17, the service of a port has a device and a driver of its own.
_PORT = rf"(?:pcieport|pciehp|(?:pcie-)?dpc) (?P<pci>{BDF})(?::pcie\w{{1,4}})?: "
_IFACE = rf"(?!{VIRTUAL_NAMES})(?P<name>[\w.-]{{1,32}})"
_NETWORKD = r"(?:(?P<node>\S{1,255}) )?systemd-networkd\[\d{1,10}\]: "


_NIC, _NODE = ComponentType.NIC, ComponentType.NODE
TX_STUCK = "net.transmit_timeout"
_EFA_DEAD = (
    "Wait for completion (polling) timeout",
    "The device didn't send any completion for admin cmd",
    "Admin queue is closed",
    "Reset indication didn't turn on",
    "Device isn't ready, abort com init",
    "Device isn't ready, can't reset device",
    "Reset indication didn't turn off",
)

CONTAINED, DPC_REASON = "host.pcie_contained", "DPC"
# The ENA driver first states why it resets its device, and then that it resets it.
DEVICE_HANG, RESETS = "net.device_hang", "Trigger reset is on"
_ENA_HANGS = (
    r"(?:The number of lost tx|Lost TX) completions (?:is|are) above the threshold \((?P<lost>\d{1,9})",
    r"Keep alive watchdog timeout",
    r"(?:ENA )?admin queue is not in running state",
    r"Potential MSIX issue on (?:Tx|Rx) side Queue = (?P<queue>\d{1,5})",
    r"The ena device (?:didn't send a completion|sent a completion but the driver didn't receive a MSI-X interrupt)",
)

_NETWORK: tuple[Rule, ...] = (
    *(_rule("ena ", _ENA + reason, DEVICE_HANG, _NIC) for reason in _ENA_HANGS),
    _rule(RESETS, _ENA + RESETS, DEVICE_HANG, _NIC),
    _rule("an not reset", _ENA + r"(?:Reset attempt failed\. )?Can not reset", "net.nic_unhealthy", _NIC),
    *(_rule(phrase, _EFA + re.escape(phrase), "net.efa_error", _NIC) for phrase in _EFA_DEAD),
    *(
        _rule(phrase, _EFA + phrase + r"(?: (?P<command>\w{1,40}))?", "net.efa_command_failed", _NIC)
        for phrase in ("Failed to process command", "Failed to submit command")
    ),
    _rule(
        "Detected insufficient power",
        _MLX5 + r"Detected insufficient power on the PCIe slot(?: \((?P<watts>\d{1,4})W\))?",
        "net.slot_power_low",
        _NIC,
    ),
    _rule(
        "Port module event[error]",
        _MLX5 + r"Port module event\[error\]: module (?P<module>\d{1,3}), (?P<error>.{1,100})",
        "net.port_module_error",
        _NIC,
    ),
    _rule(
        "High Temperature",
        _MLX5 + r"Port module event.{0,60}(?P<error>High Temperature)",
        "net.port_module_error",
        _NIC,
    ),
    _rule(
        "mlx5_cmd_out_err",
        _MLX5 + r"(?P<command>\w{1,40})\(0x[0-9a-f]{1,8}\) op_mod\(0x[0-9a-f]{1,8}\) failed"
        r"(?:, status (?P<status>[^,]{1,64}))?",
        "net.command_failed",
        _NIC,
    ),
    _rule("device's health compromised", _MLX5 + r"device's health compromised", "net.nic_unhealthy", _NIC),
    _rule("Fatal error ", _MLX5 + r"Fatal error (?P<error>\d{1,3}) detected", "net.nic_unhealthy", _NIC),
    _rule(
        "Will cause a leak of a command resource",
        _MLX5 + r"(?P<command>\w{1,40})\(0x[0-9a-f]{1,8}\) timeout\. Will cause a leak of a command resource",
        "net.nic_unhealthy",
        _NIC,
    ),
    *(
        _rule(text, _MLX5 + _SYNDROME.format(text), "net.nic_unhealthy", _NIC)
        for text in (
            "unrecoverable hardware error",
            "HW fatal error",
            "firmware internal error",
            "firmware CRC error",
            "irisc not responding",
            "ICM fetch PCI error",
            "ICM fetch PCI data poisoned error",
        )
    ),
    # The firmware grades the other errors; 4 is a warning. Without a grade they can be those of the driver's queues.
    _rule(
        "ealth issue observed",
        _MLX5 + r"Health issue observed, (?P<error>(?!High temp)[\w ]{1,40}), severity\((?P<level>[0-3])\)",
        "net.nic_unhealthy",
        _NIC,
    ),
    _rule("PCI slot is unavailable", _MLX5 + r"PCI slot is unavailable", "net.nic_unhealthy", _NIC),
    _rule(
        "High temp",
        _MLX5 + r"(?:High temperature on sensors with bit set (?P<sensors>[0-9a-fx ]{1,40})"
        r"|(?:synd 0x[0-9a-f]{1,4}: |Health issue observed, )High temp(?:erature|rature))",
        "net.nic_hot",
        _NIC,
    ),
    _rule(
        "robe",
        rf"mlx5_core(?:: probe of)? (?P<pci>{BDF})(?:: probe with driver mlx5_core)? failed with error"
        r" (?P<error>-\d{1,4})",
        "net.nic_unhealthy",
        _NIC,
    ),
    _rule("TX timeout detected", rf"mlx5_core (?P<pci>{BDF}) \S{{1,32}}: TX timeout detected", TX_STUCK, _NIC),
    _rule(
        "RX timeout on channel",
        _MLX5 + r"RX timeout on channel: (?P<channel>\d{1,5})",
        "net.receive_timeout",
        _NIC,
    ),
    _rule("handling bad device", _MLX5 + r"handling bad device here", "net.nic_unhealthy", _NIC),
    _rule(
        "health recovery f",
        _MLX5 + r"health recovery (?:failed|flow aborted)",
        "net.nic_unhealthy",
        _NIC,
    ),
    _rule(
        "ink Down",
        rf"{_PORT}(?:pciehp: )?[Ss]lot\((?P<slot>[\w-]{{1,16}})\): Link Down(?: event)?$",
        "host.pcie_link_down",
        _NODE,
    ),
    _rule(
        "containment event, ",
        rf"{_PORT}DPC:? containment event, status:(?P<status_word>\w{{1,10}})",
        CONTAINED,
        _NODE,
    ),
    # The kernel prints the event as information and its reason as a warning, so a log of warnings has only the reason.
    _rule(
        DPC_REASON,
        rf"{_PORT}DPC:? (?P<reason>unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error)"
        r" (?:detected|triggered)",
        CONTAINED,
        _NODE,
    ),
    _rule(
        "NETDEV WATCHDOG",
        rf"(?:\S{{1,32}} (?P<pci>{BDF}) \S{{1,32}}: )?NETDEV WATCHDOG: "
        r"(?:CPU: \d{1,4}: |(?P<name>[\w.-]{1,32}) \([^)]{1,32}\): )"
        r"transmit queue (?P<queue>\d{1,5}) timed out",
        TX_STUCK,
        _NIC,
    ),
    _rule("ost carrier", _NETWORKD + _IFACE + r": [Ll]ost carrier", "net.carrier_lost", _NIC),
    _rule("Gained carrier", _NETWORKD + _IFACE + r": Gained carrier", "net.carrier_lost", _NIC, ends=True),
    _rule("Link is Down", rf"(?:\S{{1,32}} {BDF} )?{_IFACE}: (?:NIC )?Link is Down", "net.carrier_lost", _NIC),
    _rule(
        "Link is ", rf"(?:\S{{1,32}} {BDF} )?{_IFACE}: (?:NIC )?Link is [Uu]p\b", "net.carrier_lost", _NIC, ends=True
    ),
    _rule(": Link down", rf"mlx5_core {BDF} {_IFACE}: Link down", "net.carrier_lost", _NIC),
    _rule(": Link up", rf"mlx5_core {BDF} {_IFACE}: Link up", "net.carrier_lost", _NIC, ends=True),
)

_HARDWARE: tuple[Rule, ...] = (
    _rule(
        "Machine Check",
        r"mce: \[Hardware Error\]: CPU (?P<name>\d{1,4}): Machine Check(?: Exception)?: [0-9a-f]{1,16} "
        r"Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-f]{16})",
        "host.machine_check",
        ComponentType.CPU,
        corrected="host.machine_check_corrected",
    ),
    _rule(
        "event severity",
        r"(?:\{\d{1,6}\})?\[Hardware Error\]: event severity: (?P<severity>corrected|recoverable|fatal|info)",
        "host.machine_check",
        _NODE,
        corrected="host.machine_check_corrected",
    ),
    _rule(
        "EDAC ",
        r"EDAC (?P<name>MC\d{1,3}): (?P<errors>\d{1,6}) (?P<severity>UE|CE) ",
        "host.memory_uncorrected",
        ComponentType.MEMORY,
        corrected="host.memory_corrected",
    ),
    _rule(
        "Out of memory",
        r"Out of memory: Kill(?:ed)? process (?P<pid>\d{1,10})[^(]{0,40}\((?P<process>.{1,64})\)",
        "host.out_of_memory",
        _NODE,
    ),
)

RULES: tuple[Rule, ...] = _NETWORK + disk_rules.RULES + _HARDWARE + os_rules.RULES
