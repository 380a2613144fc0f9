"""Packing: JSON objects as compressed text, because DynamoDB charges for reads and writes by size.

Compression starts from a dictionary of texts that most items contain, so that it pays for small items too: the state
of a node with two faults fits into one write unit. Each item names the dictionary that it needs. A dictionary is never
changed: items that were stored with it could no longer be read. A better one gets the next number.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any, cast

_SEPARATOR = ","
"""Ends the number of the dictionary. It is no digit of base 64, in which earlier versions stored items."""

_CONDITION = (
    '"severity":"warning","severity":"info","action":"none","scope":"boot","ends_on":["reset_gpu","reboot_node",'
    '"replace_node","verified"],"message":"Row Remapper: New row marked for remapping","message":"GPU has fallen off '
    'the bus.","count":1,"known_incarnation":true,"reporters":{"kernel-log":{"active":true,"last_at":"2026-01-01T0",'
    '"digests":[""]}},"attributes":{"uptime":"1.000000","pid":"1","process":"python"},"reported_severity":"warning",'
    '"reported_action":"none","hours":{"2026-01-01T00":1},"event_id":"","code":"xid.79","component":{"type":"gpu","pci":'
    '"0000:9b:00"},"severity":"fatal","action":"replace_node","scope":"device","ends_on":["replace_node","verified"],'
    '"since":"2026-01-01T0","reported_severity":"fatal","reported_action":"replace_node","xid.63@gpu/pci=0000:'
)
_GPUS = ",".join(f'{{"type":"gpu","pci":"0000:0{number}:00","uuid":"GPU-","index":{number}}}' for number in range(8))
_DICTIONARIES = {
    1: (
        '"excessive_buffer_overrun_errors":0,"link_error_recovery":0,"local_link_integrity_errors":0,"port_rcv_errors":0,'
        '"port_rcv_remote_physical_errors":0,"port_xmit_discards":0,"symbol_error":0,"values":{"tx_timeout":0,'
        '"wd_expired":0,"reset_fail":0,"missing_admin_interrupt":0}},"values":{"operstate":"UP","carrier":1}},'
        '"DCGM_FI_DEV_XID_ERRORS":0,"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL":0,"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS":0}},'
        '"ports":{"nic/name=","component":{"type":"nic","name":"eth0"},"digest":"","tombstones":{"ended_at":"2026-01-01T0,'
        '"case":{"id":"c-","status":"queued","opened_at":"2026-01-01T0","code":"","component":{"type":"gpu","pci":"0000:'
        '"},"severity":"fatal","action":"replace_node","repair_action":"replace_node","rule":"catalog","policy":"","isolate":'
        'true,"waiting_for":"admission","not_before":"2026-01-01T0","attempts":0,"uncounted":0,"cancelled":false,"reason":'
        '"","marks":{"detected":"2026-01-01T0","open":"2026-01-01T0","queued":"2026-01-01T0"},"gpus":8},"case_event":'
        '{"case_id":"c-","event_id":"","attributes":{"time_source":"sent","closed_at":"2026-01-01T0","resolution":"repaired",'
        f'"conditions":{{{_CONDITION}"}}}},'
        '{"key":{"cluster":"","node":"ip-10-0-0-1"},"head":{"version":1,"epoch":1,"sequence":1,"hash":"","event_id":""},'
        '"status":"degraded","status":"healthy","shard":0,"placement":{"group":""},"incarnation":{"instance":1,"boot":1,'
        '"instance_id":"i-0","since":"2026-01-01T00:00:00.000Z"},"snapshots":{"heartbeat":"2026-01-01T0","nvidia-smi-xml":'
        '"2026-01-01T0","dcgm-health":"2026-01-01T0","dcgm-metrics":"2026-01-01T0","link-state":"2026-01-01T0",'
        '"infiniband-state":"2026-01-01T0"},"noted":{"xid.31@gpu/pci=0000:'
        f'"devices":[{_GPUS}],"isolation":"none","isolation_overdue":false,"isolation_tries":0,"unverified":true,'
        '"status_event":"","custody":["1|GPU-'
    ).encode()
}
_CURRENT = 1


def compress(value: object) -> str:
    """Return a JSON object as compressed text; equal values give equal texts."""
    packer = zlib.compressobj(level=9, zdict=_DICTIONARIES[_CURRENT])
    packed = packer.compress(json.dumps(value, separators=(",", ":")).encode()) + packer.flush()
    return f"{_CURRENT}{_SEPARATOR}{base64.b85encode(packed).decode()}"


def decompress(text: str) -> dict[str, Any]:
    """Return the JSON object of a text that `compress` made, in this version or an earlier one.

    Raises ValueError, OSError or zlib.error for another text.
    """
    number, separator, packed = text.partition(_SEPARATOR)
    if not separator:
        return cast("dict[str, Any]", json.loads(gzip.decompress(base64.b64decode(text))))
    if (dictionary := _DICTIONARIES.get(int(number))) is None:
        raise ValueError(f"the item needs dictionary {number} of a later version")
    unpacker = zlib.decompressobj(zdict=dictionary)
    content = unpacker.decompress(base64.b85decode(packed)) + unpacker.flush()
    return cast("dict[str, Any]", json.loads(content))
