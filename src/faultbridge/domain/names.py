"""What clusters and nodes may be called: every name that the table, events and topics can carry as it is."""

from __future__ import annotations

import re

from faultbridge.errors import Rejected

# As Amazon EKS, HyperPod and ParallelCluster name clusters; nothing that a key of the table would split at.
CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
# Host, Kubernetes, Slurm and HyperPod names, and instance ids.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,252}")
# Client tokens, UUIDs, hashes; a record id becomes the end of a sort key.
RECORD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+=-]{0,127}")
INSTANCE_ID = re.compile(r"m?i-[0-9a-f]{8,17}")


def cluster_name(text: str) -> str:
    """Return the name of a cluster; `bad_cluster_name` when it is none."""
    return _matching(CLUSTER_NAME, text, "bad_cluster_name", "letters, digits, - and _, at most 100")


def node_name(text: str) -> str:
    """Return the name of a node; `bad_node_name` when it is none."""
    return _matching(NODE_NAME, text, "bad_node_name", "letters, digits and . _ : @ -, at most 253")


def record_id(text: str) -> str:
    """Return the id of a record; `bad_record_id` when it is none."""
    return _matching(RECORD_ID, text, "bad_record_id", "letters, digits and . _ : @ + = -, at most 128")


def instance_id(text: str) -> str:
    """Return the id of an EC2 or managed instance; `bad_instance_id` when it is none."""
    return _matching(INSTANCE_ID, text, "bad_instance_id", "i- and 8 to 17 hexadecimal digits")


def _matching(pattern: re.Pattern[str], text: str, reason: str, expected: str) -> str:
    if pattern.fullmatch(text) is None:
        raise Rejected(reason, f"{text[:80]!r} is not made of {expected}")
    return text
