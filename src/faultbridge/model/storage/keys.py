"""Keys: the keys of items in the table, and the names of index partitions.

Keys of jobs, devices, findings, heartbeats, incidents and listed policies are in the modules of these items.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage.writes import Key
from faultbridge.model.times import to_text

ENTRY = "ENTRY#"
SPARE = "SPARE#"
NODE_ROW = "NODE#"
NO_CLUSTER = "-"
CLUSTERS = "CLUSTERS"
REMEMBERED = 256
"""How many keys of clusters are remembered: a sweep or a batch names those of one cluster a hundred times."""
LIVE_PAGE, PAGE = "LIVE#", "PAGE#"


def node_partition(key: NodeKey) -> str:
    """Return the partition that contains a node's state, entries and counter samples."""
    return f"NODE#{key.cluster}#{key.node}"


def node_state(key: NodeKey) -> Key:
    """Return the key of a node's state."""
    return Key(node_partition(key), "STATE")


def counter_samples(key: NodeKey, source: str) -> Key:
    """Return the key of the last counter samples of one source, which cover all ports of a node."""
    return Key(node_partition(key), f"READING#{source}")


def entry(partition: str, epoch: int, sequence: int) -> Key:
    """Return the key of one timeline entry. Entries sort by epoch, then by sequence.

    A new epoch starts after the table was restored from a backup.
    """
    return Key(partition, f"{ENTRY}{epoch:04d}#{sequence:012d}")


@lru_cache(REMEMBERED)
def cluster_partition(cluster: str) -> str:
    """Return the partition of the items that belong to a whole cluster."""
    return f"CLUSTER#{cluster}"


@lru_cache(REMEMBERED)
def cluster_state(cluster: str) -> Key:
    """Return the key of the item with a cluster's state: its status and the end of its entry stream."""
    return Key(cluster_partition(cluster), "STATE")


@lru_cache(REMEMBERED)
def cluster_coverage(cluster: str) -> Key:
    """Return the key of the item that states from which nodes of a cluster reports arrive."""
    return Key(cluster_partition(cluster), "COVERAGE")


@lru_cache(REMEMBERED)
def cluster_control(cluster: str) -> Key:
    """Return the key of the item with a cluster's repair slots, breakers and pause."""
    return Key(cluster_partition(cluster), "CONTROL")


@lru_cache(REMEMBERED)
def cluster_config(cluster: str) -> Key:
    """Return the key of a cluster's registration."""
    return Key(cluster_partition(cluster), "CONFIG")


def cluster_listed(cluster: str) -> Key:
    """Return the key of a cluster's row in the list of all clusters."""
    return Key(CLUSTERS, cluster)


@lru_cache(REMEMBERED)
def shard_partition(cluster: str, shard: int) -> str:
    """Return the partition of one shard of a cluster.

    The partition stores the node list and the rows of waiting work, such as the repair queue, for the shard's nodes.
    """
    return f"CLUSTER#{cluster}#{shard}"


def unhealthy_node(cluster: str, shard: int, node: str) -> Key:
    """Return the key of the row that lists a node as unhealthy."""
    return Key(shard_partition(cluster, shard), f"BAD#{node}")


def requested_isolation(cluster: str, shard: int, node: str) -> Key:
    """Return the key of the row of a node whose isolation is requested but not confirmed."""
    return Key(shard_partition(cluster, shard), f"CORDON#{node}")


def false_claims(cluster: str, shard: int, node: str) -> Key:
    """Return the key of the row that lists the claims about a node that were refuted or expired."""
    return Key(shard_partition(cluster, shard), f"FALSE#{node}")


def spare(cluster: str, number: int) -> Key:
    """Return the key of a spare, which is one numbered position of a cluster's spare pool."""
    return Key(cluster_partition(cluster), f"{SPARE}{number:04d}")


def roster(cluster: str, shard: int, node: str) -> Key:
    """Return the key of a node's row in its cluster's node list."""
    return Key(shard_partition(cluster, shard), f"{NODE_ROW}{node}")


def queue(cluster: str, shard: int, priority: int, since: datetime, case: str) -> Key:
    """Return the key of a queued case in the repair queue. Keys sort by urgency, then by age."""
    return Key(shard_partition(cluster, shard), f"ADMISSION#{priority}#{to_text(since)}#{case}")


def case(case_id: str) -> Key:
    """Return the key of the item of a case."""
    return Key(f"CASE#{case_id}", "CASE")


def page_notification(case_id: str, page: str) -> Key:
    """Return the key of the item about one page (an operator alert), which prevents repeated messages.

    `case_id` is the part of the page's key before the last colon: the id of a case, or another subject such as a
    cluster. `page` is the part after the last colon.
    """
    return Key(f"CASE#{case_id}", f"{PAGE}{page}")


def pages(cluster: str, urgency: str) -> str:
    """Return the partition that lists a cluster's open pages (operator alerts) of one urgency."""
    return f"PAGES#{cluster}#{urgency}"


def live_page(cluster: str, urgency: str, key: str) -> Key:
    """Return the key of an open page (operator alert). The item exists until the page is resolved."""
    return Key(pages(cluster, urgency), f"{LIVE_PAGE}{key}")


def summary_page(cluster: str, urgency: str) -> Key:
    """Return the key of the summary page, the operator alert that replaces pages above the hourly limit."""
    return Key(pages(cluster, urgency), "SUMMARY")


def page_count(cluster: str, urgency: str, now: datetime) -> Key:
    """Return the key of the number of pages (operator alerts) sent in a clock hour."""
    return Key(pages(cluster, urgency), f"HOUR#{to_text(now)[:13]}")


def held_pages_partition(cluster: str) -> str:
    """Return the partition that counts, for each silence of a cluster, the pages that it held."""
    return f"PAGES#{cluster}#silences"


def held_pages(cluster: str, silence: str) -> Key:
    """Return the key of the number of pages that a silence held."""
    return Key(held_pages_partition(cluster), silence)


def alias(kind: str, value: str) -> Key:
    """Return the key of one alias (another name) of a node."""
    return Key(f"ALIAS#{kind}#{value}", "ALIAS")


def is_alias(key: Key) -> bool:
    """Return whether a key is the key of an alias (another name of a node)."""
    return key.sk == "ALIAS"


def claim(instance_id: str) -> Key:
    """Return the key of a claim: the record that reserves an instance as the successor of one node."""
    return Key(f"INSTANCE#{instance_id}", "CLAIM")


def peer_lease(instance_id: str) -> Key:
    """Return the key of the lease of a healthy instance that serves as test peer in a verification."""
    return Key(f"INSTANCE#{instance_id}", "PEER")


def poison_message(message: str) -> Key:
    """Return the key of the attempt counter of a message that may crash its worker."""
    return Key(f"TRY#{message}", "TRY")


def webhook(record: str) -> Key:
    """Return the key of the item that records an accepted webhook request, for deduplication."""
    return Key(f"WEBHOOK#{record}", "WEBHOOK")


def request(token: str) -> Key:
    """Return the key under which a request is recorded, for services that accept no idempotency token."""
    return Key(f"REQUEST#{token}", "REQUEST")


def order(token: str) -> Key:
    """Return the key under which an executed order is recorded, so that a repeated request executes none."""
    return Key(f"ORDER#{token}", "ORDER")


def reject(cluster: str, at: datetime, record_id: str) -> Key:
    """Return the key of a rejected record; `at` is the sending time that the record states."""
    return Key(reject_partition(cluster), f"{to_text(at)}#{record_id}")


def reject_partition(cluster: str) -> str:
    """Return the partition of a cluster's rejected records; `-` is for unregistered clusters."""
    return f"CLUSTER#{cluster}#REJECT"


def policy(version: str) -> Key:
    """Return the key of one version of a policy document. A version never changes."""
    return Key(f"POLICY#{version}", "POLICY")


CURRENT_POLICY = Key("POLICY", "CURRENT")


def mapping(version: str) -> Key:
    """Return the key of one version of the customer's alert mappings. A version never changes."""
    return Key(f"MAPPING#{version}", "MAPPING")


CURRENT_MAPPING = Key("MAPPING", "CURRENT")


def timeline(cluster: str, shard: int) -> str:
    """Return the partition of the timeline index that lists the entries of one shard of a cluster."""
    return f"T#{cluster}#{shard}"


def cases_of(cluster: str, shard: int) -> str:
    """Return the partition of the case index that lists the cases of one shard of a cluster."""
    return f"CASES#{cluster}#{shard}"


def event(event_id: str) -> str:
    """Return the index partition that contains the entry with this event id."""
    return f"EVENT#{event_id}"


def effects_of(cause: str) -> str:
    """Return the index partition that lists the entries that an event or a raw record caused."""
    return f"CAUSE#{cause}"


def device(name: str) -> str:
    """Return the partition of the device index for a serial number or UUID."""
    return f"DEV#{name}"


def device_link(uuid: str) -> Key:
    """Return the key of the row that stores the serial number of the device with this UUID."""
    return Key(device(uuid), "DEVICE")


def stream_anchor(partition: str) -> Key:
    """Return the key of the item that names a stream's last entry in a sealed day of the archive."""
    return Key(partition, "ANCHOR")


def cluster_anchored(cluster: str) -> Key:
    """Return the key of the item that names a cluster's last recorded anchor.

    An anchor is a locked record of where every stream ends.
    """
    return Key(cluster_partition(cluster), "ANCHORED")


def cluster_sealed(cluster: str) -> Key:
    """Return the key of the item that names a cluster's last sealed day in the archive."""
    return Key(cluster_partition(cluster), "SEALED")
