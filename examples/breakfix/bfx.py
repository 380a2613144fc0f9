"""A provider for NVIDIA's break-fix validation (BFX01 to BFX06): each step prints one JSON document from the HTTP API.

    python bfx.py --step query_repair_history --region us-east-1

It needs only the standard library, and a token in FAULTBRIDGE_API_TOKEN (none for the embedded stack). FAULTBRIDGE_API
is the address of the API, FAULTBRIDGE_CLUSTER the cluster. A document contains what the record shows. A capability
that the record or AWS does not show is a structured skip with its reason. The steps that change something run only
with FAULTBRIDGE_BREAKFIX_MUTATE=1, on the node of `--machine-id` or FAULTBRIDGE_BREAKFIX_NODE.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

Json = dict[str, Any]
PLATFORM = "faultbridge"
IN_SERVICE = {"healthy", "degraded"}
PLANNED = {"cloud.retirement_scheduled", "cloud.reboot_scheduled", "cloud.maintenance_scheduled"}
RETIREMENT = "cloud.retirement_scheduled"
KERNEL_LOGS = {"kernel-log", "nvrm", "dmesg"}
POLL_SECONDS, MAX_WAIT_SECONDS = 5, 840


class Skip(Exception):  # noqa: N818 - a result, not an error
    """What the record or the platform does not show."""


class Api:
    """Reads and orders over the HTTP API of a stack, about one cluster."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.address = environment["FAULTBRIDGE_API"].rstrip("/")
        self.cluster = environment["FAULTBRIDGE_CLUSTER"]
        token = environment.get("FAULTBRIDGE_API_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, *path: str, **query: object) -> Json:
        """Return a document about the cluster."""
        given = urlencode({name: value for name, value in query.items() if value is not None}, doseq=True)
        return self._send(self._url(path) + (f"?{given}" if given else ""), self.headers)

    def items(self, *path: str, **query: object) -> Iterator[Json]:
        """Yield all items of a list."""
        token = None
        while True:
            page = self.get(*path, **query, token=token)
            yield from page["items"]
            token = page.get("next")
            if token is None:
                return

    def order(self, *path: str, **body: object) -> Json:
        """Give an order once: a repetition of the request has the same key."""
        key = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        return self._send(self._url(path), {**self.headers, **key}, json.dumps(body).encode())

    def entries(self, **query: object) -> Iterator[Json]:
        """Yield the metadata and data of entries."""
        return self.items("entries", limit=500, **query)

    def _url(self, path: tuple[str, ...]) -> str:
        return "/".join((self.address, "clusters", *(quote(part, safe="") for part in (self.cluster, *path))))

    def _send(self, url: str, headers: dict[str, str], body: bytes | None = None) -> Json:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - the address of the operator
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
                document: Json = json.load(answer)
        except urllib.error.HTTPError as error:
            detail = json.loads(error.read() or b"{}").get("detail", error.reason)
            raise OSError(f"HTTP {error.code}: {detail}") from None
        return document


def serial_numbers(api: Api, _: argparse.Namespace) -> Json:
    """BFX03-01: the serial numbers or UUIDs of the devices that reports named."""
    machines = []
    for node in api.items("nodes", limit=500):
        found: dict[str, list[str]] = {"gpu": [], "nic": []}
        for device in node["devices"]:
            if device["type"] in found and (device["serial"] or device["uuid"]):
                found[device["type"]].append(device["serial"] or device["uuid"])
        absent = {name: {"present": False, "identifiers": []} for name in ("chassis", "baseboard", "cpu")}
        known = {name: {"present": bool(ids), "identifiers": ids} for name, ids in found.items()}
        if found["gpu"]:
            machines.append({"machine_id": node["node"], "components": {**absent, **known}})
    if not machines:
        raise Skip("no report has named a device with a serial number yet")
    return {"machines": machines, "machines_checked": len(machines)}


def switch_firmware(_: Api, __: argparse.Namespace) -> Json:
    """BFX03-02: EC2 shows no NVSwitch tray."""
    raise Skip("EC2 does not show the firmware of NVSwitch trays to a tenant")


def kernel_logs(api: Api, _: argparse.Namespace) -> Json:
    """BFX03-03: the hosts whose kernel log led to entries, with the time of the first and of the last one."""
    hosts: dict[str, list[str]] = {}
    for entry in api.entries(type="Node Fault Detected"):
        if KERNEL_LOGS & set(entry["data"]["reporters"]):
            hosts.setdefault(entry["metadata"]["node"], []).append(entry["metadata"]["occurred_at"])
    if not hosts:
        raise Skip("no line of a kernel log has led to an entry yet")
    return {
        "hosts": [
            {
                "host_id": name,
                "kernel_log_available": True,
                "entries_returned": len(times),
                "window_start": min(times),
                "window_end": max(times),
            }
            for name, times in sorted(hosts.items())
        ]
    }


def _planned(api: Api, codes: set[str]) -> Iterator[Json]:
    for code in sorted(codes):
        for entry in api.entries(code=code, type="Node Fault Detected"):
            stated = entry["data"]["attributes"]
            yield {
                "machine_id": entry["metadata"]["node"],
                "status": "scheduled",
                "type": code,
                "message": entry["data"]["message"],
                "window_start": stated.get("not_before") or stated.get("start_time"),
                "event_id": entry["metadata"]["event_id"],
                "notified_at": entry["metadata"]["recorded_at"],
            }


def maintenance_events(api: Api, _: argparse.Namespace) -> Json:
    """BFX02-01: scheduled events of the provider, and nodes that an operator took out of service."""
    events = list(_planned(api, PLANNED))
    for entry in api.entries(type="Node Note Recorded"):
        if entry["data"]["facts"].get("order") in {"quarantine", "cordon"}:
            text = entry["data"]["text"]
            events.append({"machine_id": entry["metadata"]["node"], "status": "in maintenance", "message": text})
    return {"events_queryable": True, "events": events}


def retirement_notices(api: Api, _: argparse.Namespace) -> Json:
    """BFX02-02: the hardware that AWS retires."""
    notices = [{**one, "retire_after": one["window_start"]} for one in _planned(api, {RETIREMENT})]
    return {"notices_queryable": True, "notices": notices}


def repair_history(api: Api, given: argparse.Namespace) -> Json:
    """BFX02-03: the repairs of each node: when a case opened, which action was taken, and how it ended."""
    records: dict[str, list[Json]] = {}
    for entry in api.entries(type="Case Status Change", node=given.machine_id or None):
        data, metadata = entry["data"], entry["metadata"]
        if data["from"] is None or data["resolution"]:
            line = {"at": metadata["occurred_at"], "ticket_id": metadata["case_id"], "status": data["to"]}
            what = {"category": data["cause"]["failure_mode"], "action": data["repair_action"]}
            records.setdefault(metadata["node"], []).append({**line, **what, "resolution": data["resolution"]})
    found = [{"machine_id": name, "entries": entries} for name, entries in sorted(records.items())]
    return {"history_queryable": True, "records": found}


def health_agents(api: Api, _: argparse.Namespace) -> Json:
    """BFX04-01: the agent of each node, which runs if the last report of the node is its heartbeat."""
    agents = []
    for node in api.items("nodes", limit=500):
        if node["status"] != "retired":
            last, is_silent = node["last_report"], any(one["code"] == "host.silent" for one in node["conditions"])
            running = last is not None and last["source"] == "heartbeat" and not is_silent
            seen = last["at"] if last else None
            agents.append({"node_id": node["node"], "agent_name": PLATFORM, "running": running, "last_report": seen})
    return {"agents_observable": True, "agents": agents}


def _notifications(api: Api, *, planned: bool) -> Iterator[Json]:
    statuses = ["open", "queued", "in_progress", "escalated", "absorbed", "resolved"]
    for case in api.items("cases", status=statuses, limit=500):
        if (case["code"] in PLANNED) is planned:
            for page in api.items("cases", case["case_id"], "pages"):
                yield {
                    "machine_id": case["node"],
                    "type": page["kind"],
                    "message": f"{case['code']}: {case['status']}{', ' if case['reason'] else ''}{case['reason']}",
                    "detected_at": case["opened_at"],
                    "notified_at": page["sent_at"],
                }


def planned_notifications(api: Api, _: argparse.Namespace) -> Json:
    """BFX05-01: events on the bus, and pages, about maintenance that the provider scheduled."""
    events = list(_planned(api, PLANNED))
    starts = {one["machine_id"]: one["window_start"] for one in events}
    pages = [{**one, "window_start": starts.get(one["machine_id"])} for one in _notifications(api, planned=True)]
    return {"notification_channel_observable": True, "notifications": [*events, *pages]}


def failure_notifications(api: Api, _: argparse.Namespace) -> Json:
    """BFX06-01: pages about failures."""
    return {"notification_channel_observable": True, "notifications": list(_notifications(api, planned=False))}


def _changed_node(given: argparse.Namespace) -> str:
    if os.environ.get("FAULTBRIDGE_BREAKFIX_MUTATE") != "1":
        raise Skip("it changes a node; set FAULTBRIDGE_BREAKFIX_MUTATE=1 to permit that")
    node = given.machine_id or os.environ.get("FAULTBRIDGE_BREAKFIX_NODE")
    if not node:
        raise Skip("it changes a node; name the node with --machine-id or FAULTBRIDGE_BREAKFIX_NODE")
    return str(node)


def _awaited(api: Api, node: str, holds: Callable[[Json], bool]) -> Json:
    """Return the node when the condition holds, or as it is after the longest wait."""
    deadline = time.monotonic() + float(os.environ.get("FAULTBRIDGE_BREAKFIX_WAIT", MAX_WAIT_SECONDS))
    while True:
        found = api.get("nodes", node)
        if holds(found) or time.monotonic() >= deadline:
            return found
        time.sleep(POLL_SECONDS)


def _blocks_new_work(node: Json) -> bool:
    return node["isolation"] == "confirmed" or node["status"] not in IN_SERVICE


def return_node(api: Api, given: argparse.Namespace) -> Json:
    """BFX01-02: take a node out of service for maintenance."""
    node = _changed_node(given)
    api.order("nodes", node, "quarantine", reason="break-fix validation: maintenance")
    found = _awaited(api, node, _blocks_new_work)
    operation = {"requested": True, "accepted": _blocks_new_work(found), "machine_id": node}
    return {"operation": {**operation, "maintenance_mode": "quarantine", "instance_id": found["instance_id"]}}


def return_rack(_: Api, __: argparse.Namespace) -> Json:
    """BFX01-03: a tenant of EC2 cannot return a rack."""
    raise Skip("EC2 has no call that returns a rack; POST /domains/DOMAIN/maintain takes its nodes out of service")


def replace_host(api: Api, given: argparse.Namespace) -> Json:
    """BFX01-05: replace the instance of a node, and wait until the node is out of the pool."""
    node = _changed_node(given)
    before = api.get("nodes", node)
    if before["instance_id"] is None:
        raise Skip(f"{node} has no instance")
    api.order("nodes", node, "replace", instance=before["instance_id"], reason="break-fix validation: replacement")
    found = _awaited(api, node, lambda one: one["status"] not in IN_SERVICE or one["instance"] > before["instance"])
    removed = found["status"] not in IN_SERVICE or found["instance"] > before["instance"]
    operation = {"requested": True, "node_removed_from_pool": removed, "machine_id": node}
    return {"operation": {**operation, "instance_id": before["instance_id"]}}


def cordon(api: Api, given: argparse.Namespace) -> Json:
    """BFX01-04: keep new work off a node, while its work continues."""
    node = _changed_node(given)
    running = {one["job_id"] for one in _jobs(api, node)}
    if not running:
        raise Skip(f"no job runs on {node}, so nothing shows that running work continues")
    api.order("nodes", node, "cordon", reason="break-fix validation: cordon")
    found = _awaited(api, node, _blocks_new_work)
    blocked, left = _blocks_new_work(found), {one["job_id"] for one in _jobs(api, node)}
    operation = {"cordoned": blocked, "new_workloads_blocked": blocked, "node_id": node}
    return {"operation": {**operation, "existing_workloads_running": running <= left}}


def _jobs(api: Api, node: str) -> Iterator[Json]:
    return (one for one in api.items("jobs") if node in one["nodes"] and one["state"] == "running")


def reset_gpus(api: Api, _: argparse.Namespace) -> Json:
    """BFX01-01: the last GPU reset in the record. A policy resets GPUs after a fault; no order does."""
    last: Json | None = None
    for entry in api.entries(type="Node Replacement Step"):
        data = entry["data"]
        if (data["step"], data["repair_action"], data["outcome"]) == ("repair_in_place", "reset_gpu", "back"):
            last = entry
    if last is None:
        raise Skip("the record has no completed GPU reset")
    case = api.get("cases", last["metadata"]["case_id"])
    operation = {"requested": True, "accepted": True, "completed": True, "node_id": last["metadata"]["node"]}
    gpu = case["component"]["uuid"] or case["component"]["pci"] or "all"
    record = {"request_id": case["case_id"], "gpu_ids": [gpu], "completed_at": last["metadata"]["occurred_at"]}
    return {"operation": {**operation, **record}}


STEPS: dict[str, Callable[[Api, argparse.Namespace], Json]] = {
    "cordon_node": cordon,
    "query_bmc_kernel_logs": kernel_logs,
    "query_failure_notifications": failure_notifications,
    "query_maintenance_events": maintenance_events,
    "query_node_health_agents": health_agents,
    "query_planned_notifications": planned_notifications,
    "query_repair_history": repair_history,
    "query_retirement_notices": retirement_notices,
    "query_serial_numbers": serial_numbers,
    "query_switch_firmware": switch_firmware,
    "request_host_replacement": replace_host,
    "reset_gpus": reset_gpus,
    "return_node_maintenance": return_node,
    "return_rack_maintenance": return_rack,
}


def document(given: argparse.Namespace, environment: dict[str, str]) -> Json:
    """Return the document of a step: what the record shows, a structured skip, or the error."""
    head = {"success": True, "platform": PLATFORM, "step": given.step}
    try:
        return {**head, **STEPS[given.step](Api(environment), given)}
    except Skip as skip:
        return {**head, "skipped": True, "skip_reason": str(skip)}
    except (OSError, KeyError, ValueError) as error:
        return {**head, "success": False, "error": str(error), "error_type": type(error).__name__}


def main(arguments: list[str] | None = None) -> int:
    """Print the document of a step; the exit code is 1 if the step failed."""
    parser = argparse.ArgumentParser(description="a step of the break-fix validation")
    parser.add_argument("--step", choices=sorted(STEPS), required=True)
    for name in ("--region", "--machine-id", "--rack-id"):
        parser.add_argument(name, nargs="?", default="")
    found = document(parser.parse_args(arguments), dict(os.environ))
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if found["success"] else 1


if __name__ == "__main__":
    sys.exit(main())
