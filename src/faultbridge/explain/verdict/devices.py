"""Finds the GPUs that are affected by the failure of a job, for the JSON document of the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from faultbridge.domain.cluster.ranks import gpu_like, gpu_of
from faultbridge.domain.faults import Component
from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.signal import Trust
from faultbridge.explain.verdict.mechanisms import packaged_weights
from faultbridge.explain.verdict.situation import Situation, in_time
from faultbridge.explain.verdict.verdict import Verdict

MAX_DEVICES = 64
_FACTS = ("pci", "uuid", "serial")


@dataclass(frozen=True)
class RankMap:
    """The node of each rank, and the GPUs of each node, if they are known."""

    nodes: Mapping[int, str]
    gpus: Mapping[str, Sequence[Component]] = field(default_factory=dict)

    @cached_property
    def ranks(self) -> Mapping[str, Sequence[int]]:
        """Return the ranks of each node in ascending order.

        The rank at position N is assumed to run on the GPU with index N.
        """
        found: dict[str, list[int]] = {}
        for rank, node in sorted(self.nodes.items()):
            found.setdefault(node, []).append(rank)
        return found

    def rank(self, node: str, index: int | None) -> int | None:
        """Return the rank that runs on the GPU with this index in a node, or None if the rank is unknown."""
        ranks = self.ranks.get(node, ())
        return ranks[index] if index is not None and index < len(ranks) else None


def devices_document(verdict: Verdict, evidence: Evidence, rank_map: RankMap) -> list[dict[str, Any]]:
    """Return at most 64 affected GPUs as JSON, each with its node and, if it is known, its rank.

    A GPU is affected in two cases: the node's own source reported a signal of the cause that names the GPU, or other
    ranks wait for the rank on the GPU.
    """
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for one in (*_of_signals(verdict, rank_map), *_of_ranks(evidence, rank_map)):
        found.setdefault((one["node"], one["index"], one["pci"], one["rank"]), one)
    return list(found.values())[:MAX_DEVICES]


def _of_signals(verdict: Verdict, rank_map: RankMap) -> Iterator[dict[str, Any]]:
    mechanism = verdict.cause.mechanism if verdict.cause else None
    situation = Situation(verdict.line, (), (), packaged_weights())
    for one in verdict.line.signals:
        is_sign = mechanism is not None and mechanism.strength(one) is not None
        if is_sign and in_time(situation, one) and one.trust is Trust.NODE and one.node and one.device:
            known = gpu_like(rank_map.gpus.get(one.node, ()), one.device) or one.device
            index = one.device.index if one.device.index is not None else known.index
            device = {name: getattr(one.device, name) or getattr(known, name) for name in _FACTS}
            yield _device(one.node, rank_map.rank(one.node, index), index, device, one.name)


def _of_ranks(evidence: Evidence, rank_map: RankMap) -> Iterator[dict[str, Any]]:
    for finding in evidence.collectives.findings if evidence.collectives else ():
        node = rank_map.nodes.get(finding.rank)
        if node is not None:
            index = rank_map.ranks[node].index(finding.rank)
            known = gpu_of(rank_map.gpus.get(node, ()), index)
            facts = {name: getattr(known, name) for name in _FACTS} if known else {}
            yield _device(node, finding.rank, index, facts, f"collective.{finding.state}")


def _device(node: str, rank: int | None, index: int | None, facts: Mapping[str, Any], signal: str) -> dict[str, Any]:
    return {"node": node, "rank": rank, "index": index, **{name: facts.get(name) for name in _FACTS}, "signal": signal}
