"""Rules for kernel messages about the host's network cards, disks, processors and memory."""

from __future__ import annotations

import re

from faultbridge.decoders.common.interfaces import VIRTUAL_NAMES
from faultbridge.decoders.kernel import os_rules
from faultbridge.decoders.kernel.rule import Rule
from faultbridge.decoders.kernel.rule import rule as _rule
from faultbridge.domain.faults import ComponentType

_BDF = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_EFA = rf"(?:infiniband (?P<name>rdmap\d{{1,4}}s\d{{1,4}}|efa_\d{{1,3}})|efa (?P<pci>{_BDF})): "
_MLX5 = (
    rf"(?:mlx5_core (?P<pci>{_BDF})(?: \w{{1,16}})?: )?"
    r"(?:[a-z]\w{1,40}(?::\d{1,6})?:?(?:\(pid \d{1,10}\))?: )?"
)
_ENA = rf"ena (?P<pci>{_BDF})(?: (?P<name>[\w.-]{{1,32}}))?(?: \(\w{{1,32}}\))?: "
# Linux 4.14 to 4.18 names another function than older and newer ones.
_BLOCK = r"(?:blk_update_request: |print_req_error: |end_request: )?"
# Loop devices, floppy, optical and memory disks fail alone without a fault of the node.
_DISK = r"(?!(?:loop|fd|sr|z?ram)\d)(?P<name>[\w!-]{1,32})"
_FILESYSTEM = r"(?:EXT[234]-fs|XFS|BTRFS)(?: \w{1,16})?:? \((?:device )?(?P<name>[\w-]{1,32})\):? ?"
_UNNAMED = r"(?:BTRFS[^:]{0,64}: )?"
_IFACE = rf"(?!{VIRTUAL_NAMES})(?P<name>[\w.-]{{1,32}})"
_NETWORKD = r"(?:(?P<node>\S{1,255}) )?systemd-networkd\[\d{1,10}\]: "


_NIC, _NODE, _DISKS = ComponentType.NIC, ComponentType.NODE, ComponentType.DISK
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

# The ENA driver states why it resets its device, and then that it does.
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
    _rule(
        "unrecoverable hardware error",
        _MLX5 + r"(?:synd 0x[0-9a-f]{1,4}: |Health issue observed, )(?P<error>unrecoverable hardware error)",
        "net.nic_unhealthy",
        _NIC,
    ),
    _rule("TX timeout detected", rf"mlx5_core (?P<pci>{_BDF}) \S{{1,32}}: TX timeout detected", TX_STUCK, _NIC),
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
        "pciehp: Slot",
        rf"pcieport (?P<pci>{_BDF}): pciehp: Slot\((?P<slot>[\w-]{{1,16}})\): Link Down",
        "host.pcie_link_down",
        _NODE,
    ),
    _rule(
        "DPC: containment event",
        rf"pcieport (?P<pci>{_BDF}): DPC: containment event, status:(?P<status_word>\w{{1,10}})",
        "host.pcie_contained",
        _NODE,
    ),
    _rule(
        "NETDEV WATCHDOG",
        rf"(?:\S{{1,32}} (?P<pci>{_BDF}) \S{{1,32}}: )?NETDEV WATCHDOG: "
        r"(?:CPU: \d{1,4}: |(?P<name>[\w.-]{1,32}) \([^)]{1,32}\): )"
        r"transmit queue (?P<queue>\d{1,5}) timed out",
        TX_STUCK,
        _NIC,
    ),
    _rule("ost carrier", _NETWORKD + _IFACE + r": [Ll]ost carrier", "net.carrier_lost", _NIC),
    _rule("Gained carrier", _NETWORKD + _IFACE + r": Gained carrier", "net.carrier_lost", _NIC, ends=True),
    _rule("Link is Down", rf"(?:\S{{1,32}} {_BDF} )?{_IFACE}: (?:NIC )?Link is Down", "net.carrier_lost", _NIC),
    _rule(
        "Link is ", rf"(?:\S{{1,32}} {_BDF} )?{_IFACE}: (?:NIC )?Link is [Uu]p\b", "net.carrier_lost", _NIC, ends=True
    ),
    _rule(": Link down", rf"mlx5_core {_BDF} {_IFACE}: Link down", "net.carrier_lost", _NIC),
    _rule(": Link up", rf"mlx5_core {_BDF} {_IFACE}: Link up", "net.carrier_lost", _NIC, ends=True),
)

_STORAGE: tuple[Rule, ...] = (
    _rule(
        "I/O error",
        rf"{_BLOCK}I/O error, dev {_DISK}, sector (?P<sector>\d{{1,20}})",
        "host.disk_io_error",
        _DISKS,
    ),
    _rule(
        "error, dev ",
        rf"{_BLOCK}critical (?P<error>medium|target) error, dev {_DISK}, sector (?P<sector>\d{{1,9}})",
        "host.disk_io_error",
        _DISKS,
    ),
    _rule(
        "controller is down",
        rf"nvme {_DISK}: controller is down; will reset: CSTS=(?P<csts>\w{{1,12}})",
        "host.disk_controller_down",
        _DISKS,
    ),
    _rule(
        "Removing after probe failure",
        rf"nvme {_DISK}: Removing after probe failure(?: status: (?P<error>-?\d{{1,5}}))?",
        "host.disk_failed",
        _DISKS,
    ),
    _rule(
        "beyond end of device",
        r"(?:\S{1,32}: )?attempt to access beyond end of device",
        "host.filesystem_error",
        _DISKS,
    ),
    _rule("Remounting", _UNNAMED + r"Remounting filesystem read-only", "host.filesystem_read_only", _DISKS),
    _rule("I/O error while", _UNNAMED + r"I/O error while writing superblock", "host.filesystem_error", _DISKS),
    _rule("EXT4-fs warning", _FILESYSTEM + r"(?P<error>.{1,160})", "host.filesystem_warning", _DISKS),
    _rule("I/O error", rf"Buffer I/O error on dev(?:ice)? {_DISK}, ", "host.disk_io_error", _DISKS),
    _rule(
        "I/O error",
        _FILESYSTEM + r"(?:log |metadata )?I/O error(?: (?P<error>-\d{1,3}))?",
        "host.filesystem_error",
        _DISKS,
    ),
    _rule("failing I/O", rf"block {_DISK}: no available path - failing I/O", "host.disk_io_error", _DISKS),
    _rule(
        "timeout, ",
        rf"nvme {_DISK}: I/O (?:tag )?\d{{1,10}} .{{0,80}}?QID (?P<queue>\d{{1,5}}) timeout, "
        r"(?P<reaction>[\w ]{1,40})",
        "host.disk_timeout",
        _DISKS,
    ),
    _rule(
        "Disabling device after reset failure",
        rf"nvme {_DISK}: Disabling device after reset failure: (?P<error>-?\d{{1,5}})",
        "host.disk_failed",
        _DISKS,
    ),
    _rule(
        "Disk failure on",
        r"md/raid\d{0,2}:?(?P<name>md\d{1,5}): Disk failure on (?P<member>[\w-]{1,32})",
        "host.raid_member_failed",
        _DISKS,
    ),
    _rule("Remounting", _FILESYSTEM + r"Remounting filesystem read-only", "host.filesystem_read_only", _DISKS),
    _rule("EXT4-fs error", _FILESYSTEM + r"(?P<error>.{1,160})", "host.filesystem_error", _DISKS),
    _rule(
        "XFS (",
        _FILESYSTEM
        + r"(?P<error>Corruption|Internal error|Filesystem has been shut down|xfs_do_force_shutdown|Log I/O Error"
        r"|[^:]{0,80}Shutting down filesystem)",
        "host.filesystem_error",
        _DISKS,
    ),
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

RULES: tuple[Rule, ...] = _NETWORK + _STORAGE + _HARDWARE + os_rules.RULES
