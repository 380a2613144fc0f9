"""Timeline of a job: its own entries, and entries of the nodes whose faults affected it."""

from __future__ import annotations

import heapq
from datetime import timedelta
from itertools import islice
from operator import itemgetter

from faultbridge.domain.cluster.jobs import RESUME_WITHIN, Job
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.times import from_text, to_text
from faultbridge.ledger.queries import SKEW, Found, ReadOrder, end_before, find_job, last_before, node_head, query_all
from faultbridge.ports import Table
from faultbridge.storage import jobs, keys
from faultbridge.storage.writes import TIMELINE, Key

LINKS_PER_BATCH = 100
BEFORE_START = timedelta(minutes=5)
"""Entries of a node that were recorded up to this long before the start of a job are part of its timeline."""


def job_entries(table: Table, cluster: str, job_id: str, order: ReadOrder) -> Found:
    """Return the entries of a job and of the nodes whose faults affected it, with their positions.

    The entries of an affected node are included from five minutes before the start of the job's latest run. While the
    job runs, all later entries of the node are included. After the job ended, they are included until five minutes
    after `Job.resumable_at`, the time at which the job was reported as resumable. Without such a report, they are
    included until a week and five minutes after the end of the job.
    """
    own = own_entries(table, cluster, job_id, order)
    job = find_job(table, cluster, job_id)
    affected = [_of_node(table, job, node, order) for node in sorted(job.affected)] if job else []
    return heapq.merge(own, *affected, key=itemgetter(1), reverse=order.newest_first)


def own_entries(table: Table, cluster: str, job_id: str, order: ReadOrder) -> Found:
    """Return the entries that are about a job itself, each with its position."""
    partition = jobs.job_partition(cluster, job_id)
    size, newest_first, end = order.page_size, order.newest_first, jobs.LAST_LINK
    links = query_all(table, partition, after=order.after, up_to=end, page_size=size, newest_first=newest_first)
    while batch := list(islice(links, order.page_size or LINKS_PER_BATCH)):
        positions = {Key(str(row["entry_pk"]), str(row["entry_sk"])): str(row["sk"]) for row in batch}
        entries = table.get_many(positions)
        yield from ((entries[key], position) for key, position in positions.items() if key in entries)


def _of_node(table: Table, job: Job, node: str, order: ReadOrder) -> Found:
    key = NodeKey(job.cluster, node)
    partition, since = keys.node_partition(key), job.started_at - BEFORE_START
    if order.after is not None:
        since = max(since, from_text(order.after.split("#", 1)[0]))
    until = job.resumable_at or (job.ended_at + RESUME_WITHIN if job.ended_at else None)
    first, last = to_text(since), to_text(until + SKEW) if until else "~"
    head = node_head(table, key)
    bound = last_before(table, partition, head, since - SKEW)
    up_to = end_before(table, partition, head, until + 2 * SKEW) if until else None
    if until and up_to is None:
        return iter(())
    rows = query_all(table, partition, after=bound, up_to=up_to, prefix=keys.ENTRY)
    placed = ((row, str(row[TIMELINE.sk])) for row in rows if first <= str(row["recorded_at"]) <= last)
    after = order.after or ""
    return iter(sorted((one for one in placed if one[1] > after), key=itemgetter(1), reverse=order.newest_first))
