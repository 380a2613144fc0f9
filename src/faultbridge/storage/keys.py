"""Where each item of the one table stands, and the shards that keep an index from having one hot key."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.clusters import shard_of
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import to_text
from faultbridge.storage.writes import Key

WORK_SHARDS = 16
ENTRY = "ENTRY#"
SPARE = "SPARE#"
NO_CLUSTER = "-"
_SEEN = "SEEN"


def node_partition(key: NodeKey) -> str:
    """Return the partition of a node's state, entries and devices."""
    return f"NODE#{key.cluster}#{key.node}"


def node_state(key: NodeKey) -> Key:
    """Return the key of a node's state."""
    return Key(node_partition(key), "STATE")


def seen(key: NodeKey) -> Key:
    """Return the key of a node's last sign of life."""
    return Key(node_partition(key), _SEEN)


def is_seen(sort_key: str) -> bool:
    """Tell whether a sort key is that of a last sign of life."""
    return sort_key == _SEEN


def reading(key: NodeKey, source: str) -> Key:
    """Return the key of the last readings of one source, of all its ports."""
    return Key(node_partition(key), f"READING#{source}")


def entry(partition: str, epoch: int, sequence: int) -> Key:
    """Return the key of one entry of a stream; the epoch keeps a reused node from meeting its past."""
    return Key(partition, f"{ENTRY}{epoch:04d}#{sequence:012d}")


def cluster_partition(cluster: str) -> str:
    """Return the partition of a cluster's own items."""
    return f"CLUSTER#{cluster}"


def cluster_state(cluster: str) -> Key:
    """Return the key of what a cluster's stream last said."""
    return Key(cluster_partition(cluster), "STATE")


def cluster_control(cluster: str) -> Key:
    """Return the key of a cluster's repair slots."""
    return Key(cluster_partition(cluster), "CONTROL")


def cluster_config(cluster: str) -> Key:
    """Return the key of a cluster's registration."""
    return Key(cluster_partition(cluster), "CONFIG")


CLUSTERS = "CLUSTERS"


def cluster_listed(cluster: str) -> Key:
    """Return the key under which a cluster is found when all are listed."""
    return Key(CLUSTERS, cluster)


def shard_partition(cluster: str, shard: int) -> str:
    """Return the partition of one shard of a cluster's rows: unhealthy nodes, roster and queue."""
    return f"CLUSTER#{cluster}#{shard}"


def bad(cluster: str, shard: int, node: str) -> Key:
    """Return the key of the row that says a node is not healthy."""
    return Key(shard_partition(cluster, shard), f"BAD#{node}")


def spare(cluster: str, number: int) -> Key:
    """Return the key of one place of a cluster's pool of spares."""
    return Key(cluster_partition(cluster), f"{SPARE}{number:04d}")


def roster(cluster: str, shard: int, node: str) -> Key:
    """Return the key of a node in its cluster's roster."""
    return Key(shard_partition(cluster, shard), f"NODE#{node}")


def queue(cluster: str, shard: int, priority: int, since: datetime, case: str) -> Key:
    """Return the key of a waiting case: the most urgent and oldest sorts first."""
    return Key(shard_partition(cluster, shard), f"QUEUE#{priority}#{to_text(since)}#{case}")


def case(case_id: str) -> Key:
    """Return the key of a case."""
    return Key(f"CASE#{case_id}", "CASE")


def page_mark(case_id: str, page: str) -> Key:
    """Return the key of the mark that a page is being or was sent."""
    return Key(f"CASE#{case_id}", f"PAGE#{page}")


LIVE_PAGE = "LIVE#"


def pages(cluster: str, urgency: str) -> str:
    """Return the partition of what is live among a cluster's pages of one urgency."""
    return f"PAGES#{cluster}#{urgency}"


def live_page(cluster: str, urgency: str, key: str) -> Key:
    """Return the key under which a page stands from its trigger to its end."""
    return Key(pages(cluster, urgency), f"{LIVE_PAGE}{key}")


def summary_page(cluster: str, urgency: str) -> Key:
    """Return the key of the page that speaks for those which had none of their own."""
    return Key(pages(cluster, urgency), "SUMMARY")


def page_tally(cluster: str, urgency: str, now: datetime) -> Key:
    """Return the key of the count of pages in a clock hour."""
    return Key(pages(cluster, urgency), f"HOUR#{to_text(now)[:13]}")


def alias(kind: str, value: str) -> Key:
    """Return the key of one name of a node."""
    return Key(f"ALIAS#{kind}#{value}", "ALIAS")


def is_alias(key: Key) -> bool:
    """Tell whether a key is that of a name of a node."""
    return key.sk == "ALIAS"


def claim(instance_id: str) -> Key:
    """Return the key of the claim of a successor: one instance serves one node."""
    return Key(f"INSTANCE#{instance_id}", "CLAIM")


def suspect(message: str) -> Key:
    """Return the key of the count of a message that may be killing its worker."""
    return Key(f"TRY#{message}", "TRY")


def webhook(record: str) -> Key:
    """Return the key of the note that a post was taken, so that it is taken once."""
    return Key(f"WEBHOOK#{record}", "WEBHOOK")


def reject(cluster: str, at: datetime, record_id: str) -> Key:
    """Return the key of a rejected record; the same record rejected again stands in the same place."""
    return Key(reject_partition(cluster), f"{to_text(at)}#{record_id}")


def reject_partition(cluster: str) -> str:
    """Return the partition of a cluster's rejects; `-` keeps those of clusters that nobody registered."""
    return f"CLUSTER#{cluster}#REJECT"


def policy(version: str) -> Key:
    """Return the key of one immutable policy document."""
    return Key(f"POLICY#{version}", "POLICY")


CURRENT_POLICY = Key("POLICY", "CURRENT")


def mapping(version: str) -> Key:
    """Return the key of one immutable version of a customer's own words for faults."""
    return Key(f"MAPPING#{version}", "MAPPING")


CURRENT_MAPPING = Key("MAPPING", "CURRENT")


def outbox(name: str) -> str:
    """Return the shard of the outbox in which the entries of a node or cluster wait to be published."""
    return f"OUT#{shard_of(name, WORK_SHARDS)}"


def due(name: str) -> str:
    """Return the shard of the timers in which a node, cluster or reject waits for its time."""
    return f"DUE#{shard_of(name, WORK_SHARDS)}"


OUTBOXES = tuple(f"OUT#{shard}" for shard in range(WORK_SHARDS))
TIMERS = tuple(f"DUE#{shard}" for shard in range(WORK_SHARDS))


def timeline(cluster: str, shard: int) -> str:
    """Return the timeline index's partition for one shard of a cluster."""
    return f"T#{cluster}#{shard}"


def cases_of(cluster: str, shard: int) -> str:
    """Return the case index's partition for one shard of a cluster."""
    return f"CASES#{cluster}#{shard}"


def device(name: str) -> str:
    """Return the device index's partition for a serial number or UUID."""
    return f"DEV#{name}"


def device_link(uuid: str) -> Key:
    """Return the key under which a device's UUID leads to its serial number."""
    return Key(device(uuid), "DEVICE")


def stream_anchor(partition: str) -> Key:
    """Return the key that says up to which entry a stream is sealed in the archive."""
    return Key(partition, "ANCHOR")


def cluster_anchored(cluster: str) -> Key:
    """Return the key that says which anchor of a cluster is on its record last."""
    return Key(cluster_partition(cluster), "ANCHORED")


def cluster_sealed(cluster: str) -> Key:
    """Return the key that says up to which day a cluster's record is sealed."""
    return Key(cluster_partition(cluster), "SEALED")
