"""Rules for kernel messages about the host's network cards, PCIe ports, processors and memory.

`RULES` also contains the rules of `disk_rules` and `os_rules`.
"""

from __future__ import annotations

import re

from faultbridge.decode.frames.decoder import VIRTUAL_NAMES
from faultbridge.model.dataclass import dataclass
from faultbridge.model.fault_enums import ComponentType

# The PCI address of a device, as the kernel prints it.
BDF = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"


@dataclass(frozen=True, slots=True)
class Rule:
    """A kernel message that reports a fault or the end of a fault.

    `pattern` is tried only on a message that contains the text `phrase`. `type` is the type of the component. `ends` is
    True if the message reports that the fault has ended. If the hardware corrected the error, the fault code is
    `corrected`. Otherwise, or if `corrected` is None, the fault code is `code`.
    """

    phrase: str
    pattern: re.Pattern[str]
    code: str
    type: ComponentType
    ends: bool = False
    corrected: str | None = None


def rule(
    phrase: str, pattern: str, code: str, kind: ComponentType, *, ends: bool = False, corrected: str | None = None
) -> Rule:
    """Return a `Rule` whose pattern is compiled from text.

    The pattern must match at the start of a message. `kind` is the type of the component. The other arguments are the
    fields of `Rule`.
    """
    return Rule(phrase, re.compile(pattern, re.DOTALL), code, kind, ends, corrected)


_DISK = ComponentType.DISK
# Linux 4.14 to 4.18 names another function than older and newer ones.
_BLOCK = r"(?:blk_update_request: |print_req_error: |end_request: )?"
# Loop devices, floppy, optical and memory disks fail alone without a fault of the node.
_NAME = r"(?!(?:loop|fd|sr|z?ram)\d)(?P<name>[\w!-]{1,32})"
# Up to Linux 4.5, the driver writes the PCI address of a controller instead of its name.
_NVME = rf"nvme (?:(?P<pci>{BDF})|(?P<name>nvme\d{{1,4}})): "
_SCSI = r"sd [\d:]{7,24}: \[(?P<name>sd[a-z]{1,6})\] {1,2}(?:tag#\d{1,6} )?"
_FILESYSTEM = r"(?:EXT[234]-fs|XFS|BTRFS)(?: \w{1,16})?:? \((?:device )?(?P<name>[\w-]{1,32})\):? ?"
_UNNAMED = r"(?:BTRFS[^:]{0,64}: )?"

DISK_RULES: tuple[Rule, ...] = (
    rule(
        "I/O error",
        rf"{_BLOCK}I/O error, dev {_NAME}, sector (?P<sector>\d{{1,20}})",
        "host.disk_io_error",
        _DISK,
    ),
    rule(
        "error, dev ",
        rf"{_BLOCK}(?P<error>critical (?:medium|target)|recoverable transport|timeout|protection) error, dev {_NAME}, "
        r"sector (?P<sector>\d{1,20})",
        "host.disk_io_error",
        _DISK,
    ),
    rule(
        "controller is down",
        _NVME + r"controller is down; will reset: CSTS=(?P<csts>\w{1,12})",
        "host.disk_controller_down",
        _DISK,
    ),
    rule(
        "Removing after probe failure",
        _NVME + r"Removing after probe failure(?: status: (?P<error>-?\d{1,5}))?",
        "host.disk_failed",
        _DISK,
    ),
    # Up to Linux 4.5, the driver's thread reads the controller's status and resets a failed one.
    rule(
        "Failed status: ",
        _NVME + r"Failed status: (?P<csts>[0-9a-fx]{1,12}), reset controller",
        "host.disk_controller_down",
        _DISK,
    ),
    rule(
        "Device not ready; aborting",
        _NVME + r"Device not ready; aborting (?P<step>\w{1,20})(?:, CSTS=(?P<csts>\w{1,12}))?",
        "host.disk_controller_down",
        _DISK,
    ),
    rule(
        "frozen state error detected",
        _NVME + r"frozen state error detected, reset controller",
        "host.disk_controller_down",
        _DISK,
    ),
    rule(
        "failure state error detected",
        _NVME + r"failure state error detected, request disconnect",
        "host.disk_failed",
        _DISK,
    ),
    # The reset left no queue for reads and writes, and the driver removed the namespaces.
    rule("IO queues lost", _NVME + r"IO queues lost", "host.disk_failed", _DISK),
    # From Linux 6.4, a failed first start of a controller has no message of the driver's own.
    rule(
        "robe",
        rf"nvme(?:: probe of)? (?P<pci>{BDF})(?:: probe with driver nvme)? failed with error (?P<error>-\d{{1,4}})",
        "host.disk_failed",
        _DISK,
    ),
    # Status code type 2 contains media errors; codes above 0x84 come from a compare, or a read of unwritten blocks.
    rule(
        "(sct 0x2 / sc 0x8",
        r"(?P<name>nvme\d{1,4}(?:c\d{1,4})?n\d{1,5}): (?P<command>[\w /]{1,40})(?:\(0x[0-9a-f]{1,2}\))? @ LBA \d{1,20},"
        r" \d{1,12} blocks, (?P<error>[\w /-]{1,60}) \(sct 0x2 / sc 0x8[0-4]\)",
        "host.disk_io_error",
        _DISK,
    ),
    rule("Sense Key", _SCSI + r"Sense Key : (?P<error>Medium Error|Hardware Error)", "host.disk_io_error", _DISK),
    rule(
        "Add. Sense",
        _SCSI + r"Add\. Sense: (?P<error>Unrecovered read error.{0,60}|Write error.{0,60})",
        "host.disk_io_error",
        _DISK,
    ),
    rule(
        "beyond end of device",
        r"(?:\S{1,32}: )?attempt to access beyond end of device",
        "host.filesystem_error",
        _DISK,
    ),
    rule("Remounting", _UNNAMED + r"Remounting filesystem read-only", "host.filesystem_read_only", _DISK),
    rule("I/O error while", _UNNAMED + r"I/O error while writing superblock", "host.filesystem_error", _DISK),
    rule("EXT4-fs warning", _FILESYSTEM + r"(?P<error>.{1,160})", "host.filesystem_warning", _DISK),
    rule("I/O error", rf"Buffer I/O error on dev(?:ice)? {_NAME}, ", "host.disk_io_error", _DISK),
    rule(
        "I/O error",
        _FILESYSTEM + r"(?:log |metadata )?I/O error(?: (?P<error>-\d{1,3}))?",
        "host.filesystem_error",
        _DISK,
    ),
    rule("failing I/O", rf"block {_NAME}: no available path - failing I/O", "host.disk_io_error", _DISK),
    rule(
        "timeout, ",
        _NVME + r"I/O (?:tag )?\d{1,10} .{0,80}?QID (?P<queue>\d{1,5}) timeout, (?P<reaction>[\w ]{1,40})",
        "host.disk_timeout",
        _DISK,
    ),
    rule(
        "Disabling device after reset failure",
        _NVME + r"Disabling device after reset failure: (?P<error>-?\d{1,5})",
        "host.disk_failed",
        _DISK,
    ),
    rule(
        "Disk failure on",
        r"md/raid\d{0,2}:?(?P<name>md\d{1,5}): Disk failure on (?P<member>[\w-]{1,32})",
        "host.raid_member_failed",
        _DISK,
    ),
    rule("Remounting", _FILESYSTEM + r"Remounting filesystem read-only", "host.filesystem_read_only", _DISK),
    rule("EXT4-fs error", _FILESYSTEM + r"(?P<error>.{1,160})", "host.filesystem_error", _DISK),
    rule(
        "XFS (",
        _FILESYSTEM
        + r"(?P<error>Corruption|Internal error|Filesystem has been shut down|xfs_do_force_shutdown|Log I/O Error"
        r"|[^:]{0,80}Shutting down filesystem)",
        "host.filesystem_error",
        _DISK,
    ),
)


_OS_NODE, _OS_DISK, _OS_NIC, _GPU = ComponentType.NODE, ComponentType.DISK, ComponentType.NIC, ComponentType.GPU
# The name is that of the component; `server` is the remote end, which an incident of many nodes names.
_SERVER = r"(?P<name>(?P<server>[^\s,]{1,128}))"
# A client's import is named after its target; what the server calls itself in a message differs between versions.
_LUSTRE = (
    r"Lustre(?:Error)?: (?:\d{1,10}:\d{1,10}:\(.{1,80}?\) |[\w-]{1,16}: )?"
    r"(?P<name>[^\s,]{1,128}?)(?:-(?:osc|mdc|lwp|osp)(?:-[\w-]{1,40})?)?: "
)
# AWS Neuron's driver and runtime name the device of an error behind its kind.
_NEURON = (
    r"(?:.{{0,160}}?\W)?NEURON_HW_ERR=(?P<error>{})\b"
    r"(?:.{{0,160}}?\bnd-id=(?P<device>\d{{1,4}}))?(?:.{{0,40}}?\bnc-id=(?P<core>\d{{1,4}}))?"
    r"(?:.{{0,80}}?\baction=(?P<suggested>\w{{1,40}}))?"
)
OOPS, PANIC = "host.kernel_oops", "host.kernel_panic"
MEMORY_LOST = "host.memory_uncorrected"

OS_RULES: tuple[Rule, ...] = (
    rule("BUG: ", r"BUG: (?:unable to handle|kernel NULL pointer dereference)(?P<detail>.{0,120})", OOPS, _OS_NODE),
    rule("nable to handle kernel", r"Unable to handle kernel (?P<detail>.{1,120})", OOPS, _OS_NODE),
    rule("general protection fault", r"general protection fault(?:,|:)(?P<detail>.{0,120})", OOPS, _OS_NODE),
    rule("[#", r"(?:Internal error: )?Oops(?: - \w{1,16})?: (?P<detail>.{1,80})", OOPS, _OS_NODE),
    rule(
        "[#", r"(?P<detail>divide error|invalid opcode|stack segment|double fault): [0-9a-f]{4} \[#\d", OOPS, _OS_NODE
    ),
    rule("kernel BUG at ", r"(?:\S{1,32} )?kernel BUG at (?P<detail>.{1,120})", OOPS, _OS_NODE),
    rule(
        "stall",
        r"(?:rcu: )?INFO: rcu\w{0,16} (?:self-detected stall on CPU|detected (?:expedited )?stalls on CPUs)",
        "host.rcu_stall",
        _OS_NODE,
    ),
    rule("anic - not syncing", r"Kernel [Pp]anic - not syncing: (?P<panic>.{1,160})", PANIC, _OS_NODE),
    rule(
        "soft lockup",
        r"(?:watchdog: |NMI watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for (?P<seconds>\d{1,6})s!"
        r"(?: \[(?P<process>.{1,64}):\d{1,10}\])?",
        "host.soft_lockup",
        _OS_NODE,
    ),
    rule("BUG: ", r"BUG: (?P<detail>.{1,120})", "host.kernel_bug", _OS_NODE),
    rule(
        "hard LOCKUP",
        r"(?:watchdog: |NMI watchdog: )?(?:CPU\d{1,5}: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})",
        "host.hard_lockup",
        _OS_NODE,
    ),
    rule(
        "critical temperature reached",
        r"thermal \S{1,32}: (?P<detail>.{0,64}?critical temperature reached.{0,64})",
        "host.overheated",
        _OS_NODE,
    ),
    rule(
        "blocked for more than",
        r"(?:INFO: )?task (?P<process>.{1,64}?):(?P<pid>\d{1,10}) blocked for more than (?P<seconds>\d{1,6}) ?s",
        "host.hung_task",
        _OS_NODE,
    ),
    rule("not responding", rf"(?:nfs|NFS|lockd): server {_SERVER} not responding", "host.file_server_lost", _OS_DISK),
    rule(": server", rf"(?:nfs|NFS|lockd): server {_SERVER} OK", "host.file_server_lost", _OS_DISK, ends=True),
    rule(
        "Connection to",
        _LUSTRE + r"Connection to (?P<target>[^\s,]{1,128}) \(at (?P<server>.{1,64}?)\) was lost",
        "host.file_server_lost",
        _OS_DISK,
    ),
    rule("Connection restored", _LUSTRE + r"Connection restored to ", "host.file_server_lost", _OS_DISK, ends=True),
    rule(
        "was evicted by",
        _LUSTRE + r"This client was evicted by (?P<target>[^\s,;]{1,128})[;,] in progress operations",
        "host.file_server_lost",
        _OS_DISK,
    ),
    rule(
        "state manager",
        r"NFS: state manager(?:: [\w ]{1,40})? failed on NFSv4 server (?P<name>(?P<server>[^\s,]{1,128}))"
        r" with error (?P<error>\d{1,5})",
        "host.file_server_lost",
        _OS_DISK,
    ),
    # A processor read memory that it could not correct; most instances have no driver of the memory controller.
    rule(
        "ardware memory error",
        r"mce: Uncorrected hardware memory error in user-access at (?P<address>[0-9a-f]{1,16})",
        MEMORY_LOST,
        ComponentType.MEMORY,
    ),
    rule(
        "ardware memory corruption",
        r"Memory failure: (?P<page>0x[0-9a-f]{1,16}): (?:Sending SIGBUS to|Killing) (?P<process>.{1,64}):\d{1,10}"
        r" due to hardware memory corruption",
        MEMORY_LOST,
        ComponentType.MEMORY,
    ),
    rule(
        "segfault at ",
        r"(?P<process>.{1,64}?)\[(?P<pid>\d{1,10})\]: segfault at .{1,120} in (?P<library>libnccl\.so[\w.]{0,16})",
        "train.nccl_error",
        _OS_NODE,
    ),
    rule("file-max limit", r"VFS: file-max limit (?P<limit>\d{1,20}) reached", "host.file_limit", _OS_NODE),
    rule("table full", r"(?:ip|nf)_conntrack: (?:nf_conntrack: )?table full", "net.conntrack_full", _OS_NODE),
    rule(
        "unregister_netdevice",
        r"unregister_netdevice: waiting for (?P<name>[\w.-]{1,32}) to become free",
        "net.device_in_use",
        _OS_NIC,
    ),
    rule(
        "robe",
        rf"nvidia(?:: probe of)? (?P<pci>{BDF})(?:: probe with driver \w+)? failed with error (?P<error>-?\d{{1,4}})",
        "host.gpu_init_failed",
        _GPU,
    ),
    *(
        rule("NEURON_HW_ERR=", _NEURON.format(kind), code, _OS_NODE)
        for kind, code in {
            r"(?:SRAM|NC|HBM)_UNCORRECTABLE_ERROR": "agent.neuron_memory_error",
            "DMA_ERROR": "agent.neuron_dma_error",
            r"\w{1,40}": "agent.neuron_error",
        }.items()
    ),
)


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
    *(rule("ena ", _ENA + reason, DEVICE_HANG, _NIC) for reason in _ENA_HANGS),
    rule(RESETS, _ENA + RESETS, DEVICE_HANG, _NIC),
    rule("an not reset", _ENA + r"(?:Reset attempt failed\. )?Can not reset", "net.nic_unhealthy", _NIC),
    *(rule(phrase, _EFA + re.escape(phrase), "net.efa_error", _NIC) for phrase in _EFA_DEAD),
    *(
        rule(phrase, _EFA + phrase + r"(?: (?P<command>\w{1,40}))?", "net.efa_command_failed", _NIC)
        for phrase in ("Failed to process command", "Failed to submit command")
    ),
    rule(
        "Detected insufficient power",
        _MLX5 + r"Detected insufficient power on the PCIe slot(?: \((?P<watts>\d{1,4})W\))?",
        "net.slot_power_low",
        _NIC,
    ),
    rule(
        "Port module event[error]",
        _MLX5 + r"Port module event\[error\]: module (?P<module>\d{1,3}), (?P<error>.{1,100})",
        "net.port_module_error",
        _NIC,
    ),
    rule(
        "High Temperature",
        _MLX5 + r"Port module event.{0,60}(?P<error>High Temperature)",
        "net.port_module_error",
        _NIC,
    ),
    rule(
        "mlx5_cmd_out_err",
        _MLX5 + r"(?P<command>\w{1,40})\(0x[0-9a-f]{1,8}\) op_mod\(0x[0-9a-f]{1,8}\) failed"
        r"(?:, status (?P<status>[^,]{1,64}))?",
        "net.command_failed",
        _NIC,
    ),
    rule("device's health compromised", _MLX5 + r"device's health compromised", "net.nic_unhealthy", _NIC),
    rule("Fatal error ", _MLX5 + r"Fatal error (?P<error>\d{1,3}) detected", "net.nic_unhealthy", _NIC),
    rule(
        "Will cause a leak of a command resource",
        _MLX5 + r"(?P<command>\w{1,40})\(0x[0-9a-f]{1,8}\) timeout\. Will cause a leak of a command resource",
        "net.nic_unhealthy",
        _NIC,
    ),
    *(
        rule(text, _MLX5 + _SYNDROME.format(text), "net.nic_unhealthy", _NIC)
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
    rule(
        "ealth issue observed",
        _MLX5 + r"Health issue observed, (?P<error>(?!High temp)[\w ]{1,40}), severity\((?P<level>[0-3])\)",
        "net.nic_unhealthy",
        _NIC,
    ),
    rule("PCI slot is unavailable", _MLX5 + r"PCI slot is unavailable", "net.nic_unhealthy", _NIC),
    rule(
        "High temp",
        _MLX5 + r"(?:High temperature on sensors with bit set (?P<sensors>[0-9a-fx ]{1,40})"
        r"|(?:synd 0x[0-9a-f]{1,4}: |Health issue observed, )High temp(?:erature|rature))",
        "net.nic_hot",
        _NIC,
    ),
    rule(
        "robe",
        rf"mlx5_core(?:: probe of)? (?P<pci>{BDF})(?:: probe with driver mlx5_core)? failed with error"
        r" (?P<error>-\d{1,4})",
        "net.nic_unhealthy",
        _NIC,
    ),
    rule("TX timeout detected", rf"mlx5_core (?P<pci>{BDF}) \S{{1,32}}: TX timeout detected", TX_STUCK, _NIC),
    rule(
        "RX timeout on channel",
        _MLX5 + r"RX timeout on channel: (?P<channel>\d{1,5})",
        "net.receive_timeout",
        _NIC,
    ),
    rule("handling bad device", _MLX5 + r"handling bad device here", "net.nic_unhealthy", _NIC),
    rule(
        "health recovery f",
        _MLX5 + r"health recovery (?:failed|flow aborted)",
        "net.nic_unhealthy",
        _NIC,
    ),
    rule(
        "ink Down",
        rf"{_PORT}(?:pciehp: )?[Ss]lot\((?P<slot>[\w-]{{1,16}})\): Link Down(?: event)?$",
        "host.pcie_link_down",
        _NODE,
    ),
    rule(
        "containment event, ",
        rf"{_PORT}DPC:? containment event, status:(?P<status_word>\w{{1,10}})",
        CONTAINED,
        _NODE,
    ),
    # The kernel prints the event as information and its reason as a warning, so a log of warnings has only the reason.
    rule(
        DPC_REASON,
        rf"{_PORT}DPC:? (?P<reason>unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error)"
        r" (?:detected|triggered)",
        CONTAINED,
        _NODE,
    ),
    rule(
        "NETDEV WATCHDOG",
        rf"(?:\S{{1,32}} (?P<pci>{BDF}) \S{{1,32}}: )?NETDEV WATCHDOG: "
        r"(?:CPU: \d{1,4}: |(?P<name>[\w.-]{1,32}) \([^)]{1,32}\): )"
        r"transmit queue (?P<queue>\d{1,5}) timed out",
        TX_STUCK,
        _NIC,
    ),
    rule("ost carrier", _NETWORKD + _IFACE + r": [Ll]ost carrier", "net.carrier_lost", _NIC),
    rule("Gained carrier", _NETWORKD + _IFACE + r": Gained carrier", "net.carrier_lost", _NIC, ends=True),
    rule("Link is Down", rf"(?:\S{{1,32}} {BDF} )?{_IFACE}: (?:NIC )?Link is Down", "net.carrier_lost", _NIC),
    rule("Link is ", rf"(?:\S{{1,32}} {BDF} )?{_IFACE}: (?:NIC )?Link is [Uu]p\b", "net.carrier_lost", _NIC, ends=True),
    rule(": Link down", rf"mlx5_core {BDF} {_IFACE}: Link down", "net.carrier_lost", _NIC),
    rule(": Link up", rf"mlx5_core {BDF} {_IFACE}: Link up", "net.carrier_lost", _NIC, ends=True),
)

_HARDWARE: tuple[Rule, ...] = (
    rule(
        "Machine Check",
        r"mce: \[Hardware Error\]: CPU (?P<name>\d{1,4}): Machine Check(?: Exception)?: [0-9a-f]{1,16} "
        r"Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-f]{16})",
        "host.machine_check",
        ComponentType.CPU,
        corrected="host.machine_check_corrected",
    ),
    rule(
        "event severity",
        r"(?:\{\d{1,6}\})?\[Hardware Error\]: event severity: (?P<severity>corrected|recoverable|fatal|info)",
        "host.machine_check",
        _NODE,
        corrected="host.machine_check_corrected",
    ),
    rule(
        "EDAC ",
        r"EDAC (?P<name>MC\d{1,3}): (?P<errors>\d{1,6}) (?P<severity>UE|CE) ",
        "host.memory_uncorrected",
        ComponentType.MEMORY,
        corrected="host.memory_corrected",
    ),
    rule(
        "Out of memory",
        r"Out of memory: Kill(?:ed)? process (?P<pid>\d{1,10})[^(]{0,40}\((?P<process>.{1,64})\)",
        "host.out_of_memory",
        _NODE,
    ),
)

RULES: tuple[Rule, ...] = _NETWORK + DISK_RULES + _HARDWARE + OS_RULES
