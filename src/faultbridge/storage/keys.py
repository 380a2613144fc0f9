"""Keys: the key of every kind of item in the table, and the names of index partitions."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import to_text
from faultbridge.storage.writes import Key

ENTRY = "ENTRY#"
SPARE = "SPARE#"
NODE_ROW = "NODE#"
NO_CLUSTER = "-"
CLUSTERS = "CLUSTERS"
LIVE_PAGE, PAGE = "LIVE#", "PAGE#"


def node_partition(key: NodeKey) -> str:
    """Return the partition of a node: its state, entries and counter samples."""
    return f"NODE#{key.cluster}#{key.node}"


def node_state(key: NodeKey) -> Key:
    """Return the key of a node's state."""
    return Key(node_partition(key), "STATE")


def counter_samples(key: NodeKey, source: str) -> Key:
    """Return the key of the last counter samples of one source, for all ports of a node."""
    return Key(node_partition(key), f"READING#{source}")


def entry(partition: str, epoch: int, sequence: int) -> Key:
    """Return the key of one entry; entries sort by epoch, then by sequence. A table restore begins a new epoch."""
    return Key(partition, f"{ENTRY}{epoch:04d}#{sequence:012d}")


def cluster_partition(cluster: str) -> str:
    """Return the partition of a cluster's own items."""
    return f"CLUSTER#{cluster}"


def cluster_state(cluster: str) -> Key:
    """Return the key of a cluster's status and the head of its stream."""
    return Key(cluster_partition(cluster), "STATE")


def cluster_control(cluster: str) -> Key:
    """Return the key of a cluster's repair slots."""
    return Key(cluster_partition(cluster), "CONTROL")


def cluster_config(cluster: str) -> Key:
    """Return the key of a cluster's registration."""
    return Key(cluster_partition(cluster), "CONFIG")


def cluster_listed(cluster: str) -> Key:
    """Return the key of a cluster in the list of all clusters."""
    return Key(CLUSTERS, cluster)


def shard_partition(cluster: str, shard: int) -> str:
    """Return the partition of one shard of a cluster: unhealthy nodes, node list and repair queue."""
    return f"CLUSTER#{cluster}#{shard}"


def unhealthy_node(cluster: str, shard: int, node: str) -> Key:
    """Return the key of the row of an unhealthy node."""
    return Key(shard_partition(cluster, shard), f"BAD#{node}")


def requested_isolation(cluster: str, shard: int, node: str) -> Key:
    """Return the key of the row of a node whose isolation is requested and not confirmed."""
    return Key(shard_partition(cluster, shard), f"CORDON#{node}")


def spare(cluster: str, number: int) -> Key:
    """Return the key of one slot of a cluster's spare pool."""
    return Key(cluster_partition(cluster), f"{SPARE}{number:04d}")


def roster(cluster: str, shard: int, node: str) -> Key:
    """Return the key of a node in its cluster's node list."""
    return Key(shard_partition(cluster, shard), f"{NODE_ROW}{node}")


def queue(cluster: str, shard: int, priority: int, since: datetime, case: str) -> Key:
    """Return the key of a queued case; keys sort by urgency, then by age."""
    return Key(shard_partition(cluster, shard), f"ADMISSION#{priority}#{to_text(since)}#{case}")


def case(case_id: str) -> Key:
    """Return the key of a case."""
    return Key(f"CASE#{case_id}", "CASE")


def page_notification(case_id: str, page: str) -> Key:
    """Return the key of the item that records that a page of a case is being sent or was sent."""
    return Key(f"CASE#{case_id}", f"{PAGE}{page}")


def pages(cluster: str, urgency: str) -> str:
    """Return the partition of a cluster's open pages of one urgency."""
    return f"PAGES#{cluster}#{urgency}"


def live_page(cluster: str, urgency: str, key: str) -> Key:
    """Return the key of an open page; the item exists from the page's trigger until the page is resolved."""
    return Key(pages(cluster, urgency), f"{LIVE_PAGE}{key}")


def summary_page(cluster: str, urgency: str) -> Key:
    """Return the key of the summary page, which replaces pages above the hourly limit."""
    return Key(pages(cluster, urgency), "SUMMARY")


def page_count(cluster: str, urgency: str, now: datetime) -> Key:
    """Return the key of the number of pages sent in a clock hour."""
    return Key(pages(cluster, urgency), f"HOUR#{to_text(now)[:13]}")


def alias(kind: str, value: str) -> Key:
    """Return the key of one alias of a node."""
    return Key(f"ALIAS#{kind}#{value}", "ALIAS")


def is_alias(key: Key) -> bool:
    """Return whether a key is that of an alias."""
    return key.sk == "ALIAS"


def claim(instance_id: str) -> Key:
    """Return the key of the claim on an instance: at most one node can claim it."""
    return Key(f"INSTANCE#{instance_id}", "CLAIM")


def peer_lease(instance_id: str) -> Key:
    """Return the key of the lease of an instance as the peer of a verification."""
    return Key(f"INSTANCE#{instance_id}", "PEER")


def poison_message(message: str) -> Key:
    """Return the key of the attempt counter of a message that may crash its worker."""
    return Key(f"TRY#{message}", "TRY")


def webhook(record: str) -> Key:
    """Return the key of the item that records that a webhook request was accepted, for deduplication."""
    return Key(f"WEBHOOK#{record}", "WEBHOOK")


def request(token: str) -> Key:
    """Return the key of a request to a service that takes no client token."""
    return Key(f"REQUEST#{token}", "REQUEST")


def reject(cluster: str, at: datetime, record_id: str) -> Key:
    """Return the key of a rejected record; the same record always has the same key."""
    return Key(reject_partition(cluster), f"{to_text(at)}#{record_id}")


def reject_partition(cluster: str) -> str:
    """Return the partition of a cluster's rejects; `-` is for records of unregistered clusters."""
    return f"CLUSTER#{cluster}#REJECT"


def policy(version: str) -> Key:
    """Return the key of one immutable policy document."""
    return Key(f"POLICY#{version}", "POLICY")


CURRENT_POLICY = Key("POLICY", "CURRENT")


def mapping(version: str) -> Key:
    """Return the key of one immutable version of the customer's alert mappings."""
    return Key(f"MAPPING#{version}", "MAPPING")


CURRENT_MAPPING = Key("MAPPING", "CURRENT")


def timeline(cluster: str, shard: int) -> str:
    """Return the partition in the timeline index for one shard of a cluster."""
    return f"T#{cluster}#{shard}"


def cases_of(cluster: str, shard: int) -> str:
    """Return the partition in the case index for one shard of a cluster."""
    return f"CASES#{cluster}#{shard}"


def event(event_id: str) -> str:
    """Return the index partition of one entry by its event id."""
    return f"EVENT#{event_id}"


def effects_of(cause: str) -> str:
    """Return the index partition of the entries that an event or a raw record caused."""
    return f"CAUSE#{cause}"


def device(name: str) -> str:
    """Return the partition in the device index for a serial number or UUID."""
    return f"DEV#{name}"


def device_link(uuid: str) -> Key:
    """Return the key of the row that stores the serial number of the device with this UUID."""
    return Key(device(uuid), "DEVICE")


def stream_anchor(partition: str) -> Key:
    """Return the key of the item that names the last entry of a stream that is sealed in the archive."""
    return Key(partition, "ANCHOR")


def cluster_anchored(cluster: str) -> Key:
    """Return the key of the item that names the last archive anchor recorded on a cluster's stream."""
    return Key(cluster_partition(cluster), "ANCHORED")


def cluster_sealed(cluster: str) -> Key:
    """Return the key of the item that names the last day of a cluster that is sealed in the archive."""
    return Key(cluster_partition(cluster), "SEALED")
