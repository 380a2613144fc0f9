"""Rules for kernel messages about disks, their controllers, arrays and file systems."""

from __future__ import annotations

from faultbridge.decoders.kernel.rule import BDF, Rule, rule
from faultbridge.domain.faults import ComponentType

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

RULES: tuple[Rule, ...] = (
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
