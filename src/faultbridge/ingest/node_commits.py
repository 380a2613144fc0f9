"""Node commits: commits the records of a batch; several nodes can share one transaction.

A conflict or an error of one node affects no other node: if a transaction fails, each of its nodes is committed
separately. After an unexpected error, the records of a node are committed one by one, so that one bad record does not
stop the other records of its node.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import AliasRow, NodeKey
from faultbridge.domain.records import Outcome
from faultbridge.errors import Conflict, Transient
from faultbridge.ingest.caches import CachedNode, NodeCache
from faultbridge.ingest.counter_store import CounterStore
from faultbridge.ingest.node_batch import BatchReads, DraftedBatch, NodeBatch, ResolvedParts, prepare_records
from faultbridge.ingest.outcomes import GiveBackReason, IngestResult, describe
from faultbridge.ingest.record_reader import RecordPart
from faultbridge.ledger.append import Append, Appended, group_commits, log_split
from faultbridge.log import log_cause
from faultbridge.rules.rulebook import Rulebook

PartsByNode = Mapping[NodeKey, tuple[ClusterConfig, Sequence[tuple[RecordPart, AliasRow]]]]


@dataclass(frozen=True, slots=True)
class NodeCommits:
    """Commits the records of one batch and adds their outcomes to `result`.

    `reads` is the data about the nodes that was read before the commits.
    """

    append: Append
    rulebook: Rulebook
    counter_store: CounterStore
    node_cache: NodeCache
    result: IngestResult
    reads: BatchReads

    def __call__(self, by_node: PartsByNode) -> None:
        """Commit the records of each node of the batch."""
        for group in group_commits(self._drafts(by_node)):
            self._commit(group)

    def _drafts(self, by_node: PartsByNode) -> Iterator[DraftedBatch]:
        for node, (config, parts) in by_node.items():
            try:
                batch = self._batch(config, parts, node)
            except Exception as error:  # noqa: BLE001 - it concerns this node only, and `_give_back` logs it
                self._give_back(parts, node, error)
                continue
            try:
                appended, writes = self.append.draft(batch.cached.current, batch, actor=Actor.INGEST)
            except Exception as error:  # noqa: BLE001 - as above
                self._isolate(batch, error)
            else:
                yield DraftedBatch(appended, writes, batch)

    def _batch(self, config: ClusterConfig, parts: ResolvedParts, node: NodeKey) -> NodeBatch:
        catalog, cached = self.rulebook.catalog(), self.reads.nodes[node]
        prepared = prepare_records(parts, cached.current, catalog)
        return NodeBatch(
            prepared,
            self.rulebook.rules(config),
            catalog,
            self.counter_store,
            cached,
            read=self.reads.samples,
            later_snapshots=self.reads.snapshots[node],
            logged=node in self.reads.logged,
        )

    def _commit(self, group: Sequence[DraftedBatch]) -> None:
        try:
            self.append.commit([write for draft in group for write in draft.writes])
        except Exception as error:  # noqa: BLE001 - each node is committed alone, where its error is logged
            if len(group) == 1 and not isinstance(error, Conflict):
                self._isolate(group[0].batch, error)
                return
            log_split(describe(error), (draft.batch.node for draft in group))
            for draft in group:
                self._commit_in_order([draft.batch], is_fresh=False)
            return
        for draft in group:
            try:
                latest = self._finish(draft.batch, draft.appended)
            except Exception as error:  # noqa: BLE001 - it concerns this node only, and `_give_back` logs it
                self._give_back(draft.batch.parts, draft.batch.node, error)
            else:
                self._commit_in_order(draft.batch.rest(latest))

    def _commit_in_order(self, batches: Iterable[NodeBatch], *, is_fresh: bool = True) -> None:
        """Commit batches of one node one after the other.

        If `is_fresh` is True, the node was just read, and the first commit uses this state. If it is False, the first
        commit reads the node again.
        """
        latest: CachedNode | None = None
        waiting = deque(batches)
        while waiting:
            batch = waiting.popleft()
            batch.cached = latest or batch.cached
            node = batch.cached.current
            try:
                appended = self.append(node.key, batch, actor=Actor.INGEST, current=node if is_fresh else None)
                latest, is_fresh = self._finish(batch, appended), True
                waiting.extendleft(batch.rest(latest))
            except Exception as error:  # noqa: BLE001 - it concerns this node only, and is logged
                is_fresh = False
                waiting.extendleft(reversed(self._single_records(batch, error)))

    def _isolate(self, batch: NodeBatch, error: Exception) -> None:
        self._commit_in_order(self._single_records(batch, error), is_fresh=False)

    def _single_records(self, batch: NodeBatch, error: Exception) -> list[NodeBatch]:
        """Return a batch for each record of a batch that failed unexpectedly.

        If the records cannot be processed separately, they go back to the queue and the result is empty.
        """
        singles = [] if isinstance(error, Transient) else batch.single_records()
        if singles:
            log_cause(
                "node_batch_split",
                reason=describe(error),
                level=logging.WARNING,
                cluster=batch.node.cluster,
                node=batch.node.node,
                records=len(singles),
            )
        else:
            self._give_back(batch.parts, batch.node, error)
        return singles

    def _finish(self, batch: NodeBatch, appended: Appended) -> CachedNode:
        if batch.compared.alone:
            self.counter_store.write_alone(batch.compared)
        latest = batch.unwritten or CachedNode(appended.state, appended.state)
        self.node_cache.update(latest)
        for part, _ in batch.parts:
            record_id = part.record.record_id
            self.result.set_outcome(record_id, batch.outcomes.get(record_id, Outcome.CLEAN))
        return latest

    def _give_back(self, parts: ResolvedParts, node: NodeKey, error: Exception) -> None:
        for part, _ in parts:
            self.result.give_back(part.delivery, error, GiveBackReason.STATE_UNAVAILABLE, node)
