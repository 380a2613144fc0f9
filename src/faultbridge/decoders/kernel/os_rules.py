"""Rules for kernel messages about crashes, stalls, file servers, limits, and AWS Neuron devices."""

from __future__ import annotations

from faultbridge.decoders.kernel.rule import BDF, Rule, rule
from faultbridge.domain.faults import ComponentType

_NODE, _DISK, _NIC, _GPU = ComponentType.NODE, ComponentType.DISK, ComponentType.NIC, ComponentType.GPU
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

RULES: tuple[Rule, ...] = (
    rule("BUG: ", r"BUG: (?:unable to handle|kernel NULL pointer dereference)(?P<detail>.{0,120})", OOPS, _NODE),
    rule("nable to handle kernel", r"Unable to handle kernel (?P<detail>.{1,120})", OOPS, _NODE),
    rule("general protection fault", r"general protection fault(?:,|:)(?P<detail>.{0,120})", OOPS, _NODE),
    rule("[#", r"(?:Internal error: )?Oops(?: - \w{1,16})?: (?P<detail>.{1,80})", OOPS, _NODE),
    rule("[#", r"(?P<detail>divide error|invalid opcode|stack segment|double fault): [0-9a-f]{4} \[#\d", OOPS, _NODE),
    rule("kernel BUG at ", r"(?:\S{1,32} )?kernel BUG at (?P<detail>.{1,120})", OOPS, _NODE),
    rule(
        "stall",
        r"(?:rcu: )?INFO: rcu\w{0,16} (?:self-detected stall on CPU|detected (?:expedited )?stalls on CPUs)",
        "host.rcu_stall",
        _NODE,
    ),
    rule("anic - not syncing", r"Kernel [Pp]anic - not syncing: (?P<panic>.{1,160})", PANIC, _NODE),
    rule(
        "soft lockup",
        r"(?:watchdog: |NMI watchdog: )?BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for (?P<seconds>\d{1,6})s!"
        r"(?: \[(?P<process>.{1,64}):\d{1,10}\])?",
        "host.soft_lockup",
        _NODE,
    ),
    rule("BUG: ", r"BUG: (?P<detail>.{1,120})", "host.kernel_bug", _NODE),
    rule(
        "hard LOCKUP",
        r"(?:watchdog: |NMI watchdog: )?(?:CPU\d{1,5}: )?Watchdog detected hard LOCKUP on cpu (?P<cpu>\d{1,5})",
        "host.hard_lockup",
        _NODE,
    ),
    rule(
        "critical temperature reached",
        r"thermal \S{1,32}: (?P<detail>.{0,64}?critical temperature reached.{0,64})",
        "host.overheated",
        _NODE,
    ),
    rule(
        "blocked for more than",
        r"(?:INFO: )?task (?P<process>.{1,64}?):(?P<pid>\d{1,10}) blocked for more than (?P<seconds>\d{1,6}) ?s",
        "host.hung_task",
        _NODE,
    ),
    rule("not responding", rf"(?:nfs|NFS|lockd): server {_SERVER} not responding", "host.file_server_lost", _DISK),
    rule(": server", rf"(?:nfs|NFS|lockd): server {_SERVER} OK", "host.file_server_lost", _DISK, ends=True),
    rule(
        "Connection to",
        _LUSTRE + r"Connection to (?P<target>[^\s,]{1,128}) \(at (?P<server>.{1,64}?)\) was lost",
        "host.file_server_lost",
        _DISK,
    ),
    rule("Connection restored", _LUSTRE + r"Connection restored to ", "host.file_server_lost", _DISK, ends=True),
    rule(
        "was evicted by",
        _LUSTRE + r"This client was evicted by (?P<target>[^\s,;]{1,128})[;,] in progress operations",
        "host.file_server_lost",
        _DISK,
    ),
    rule(
        "state manager",
        r"NFS: state manager(?:: [\w ]{1,40})? failed on NFSv4 server (?P<name>(?P<server>[^\s,]{1,128}))"
        r" with error (?P<error>\d{1,5})",
        "host.file_server_lost",
        _DISK,
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
        _NODE,
    ),
    rule("file-max limit", r"VFS: file-max limit (?P<limit>\d{1,20}) reached", "host.file_limit", _NODE),
    rule("table full", r"(?:ip|nf)_conntrack: (?:nf_conntrack: )?table full", "net.conntrack_full", _NODE),
    rule(
        "unregister_netdevice",
        r"unregister_netdevice: waiting for (?P<name>[\w.-]{1,32}) to become free",
        "net.device_in_use",
        _NIC,
    ),
    rule(
        "robe",
        rf"nvidia(?:: probe of)? (?P<pci>{BDF})(?:: probe with driver \w+)? failed with error (?P<error>-?\d{{1,4}})",
        "host.gpu_init_failed",
        _GPU,
    ),
    *(
        rule("NEURON_HW_ERR=", _NEURON.format(kind), code, _NODE)
        for kind, code in {
            r"(?:SRAM|NC|HBM)_UNCORRECTABLE_ERROR": "agent.neuron_memory_error",
            "DMA_ERROR": "agent.neuron_dma_error",
            r"\w{1,40}": "agent.neuron_error",
        }.items()
    ),
)
