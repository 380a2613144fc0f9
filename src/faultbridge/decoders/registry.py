"""Finds decoders by source name and runs them; imports a decoder on first use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from itertools import chain

from faultbridge.decoders.common.decoder import NO_HINTS, Decoder, Hints
from faultbridge.domain.faults import Observation
from faultbridge.errors import Rejected

_DECODERS: Mapping[str, str] = {
    "nvidia-smi-xml": "nvidia_smi.xml_output:DECODER",
    "nvidia-smi-query-csv": "nvidia_smi.csv_output:DECODER",
    "nvidia-smi-text": "nvidia_smi.text_output:DECODER",
    "kernel-log": "kernel.kernel_log:DECODER",
    "dcgm-health": "dcgm.health:DECODER",
    "dcgm-diag": "dcgm.diag:DECODER",
    "dcgm-metrics": "dcgm.metrics:DECODER",
    "dcgm-policy": "dcgm.policy_violations:DECODER",
    "fabric-manager-log": "network.fabric_manager_log:DECODER",
    "hyperpod-agent-log": "hyperpod.agent_log:DECODER",
    "link-state": "network.link_state:DECODER",
    "hyperpod-event": "hyperpod.events:DECODER",
    "eks-node-condition": "kubernetes.node_conditions:EKS_NODE_CONDITION",
    "node-problem-detector": "kubernetes.node_conditions:NODE_PROBLEM_DETECTOR",
    "gpud": "alerts.gpud:DECODER",
    "nvsentinel": "nvsentinel.health_events:DECODER",
    "alertmanager": "alerts.webhooks:ALERTMANAGER",
    "grafana": "alerts.webhooks:GRAFANA",
    "ec2-event": "aws.ec2_events:DECODER",
    "ec2-status": "aws.ec2_status:DECODER",
    "health-event": "aws.health_events:DECODER",
    "kubernetes-node": "kubernetes.node_conditions:KUBERNETES_NODE",
    "slurm-node": "slurm.node_state:DECODER",
    "infiniband-state": "network.infiniband_state:DECODER",
    "rdma-counters": "network.rdma_counters:DECODER",
    "ethtool-stats": "network.ethtool_stats:DECODER",
    "training-log": "training.training_log:DECODER",
    "heartbeat": "native.heartbeat:DECODER",
    "faultbridge": "native.normalized:DECODER",
}
MAX_BYTES = 64 * 1024 * 1024
_HEAD = 64 * 1024
_START = 4096


def names() -> tuple[str, ...]:
    """Return the names of all sources."""
    return tuple(_DECODERS)


@cache
def get(name: str) -> Decoder:
    """Return the decoder of a source; an unknown name is `Rejected`."""
    if name not in _DECODERS:
        raise Rejected("unknown_source", f"unknown source: {name!r}; allowed are {', '.join(_DECODERS)}")
    module, _, attribute = _DECODERS[name].partition(":")
    decoder: Decoder = getattr(import_module(f"faultbridge.decoders.{module}"), attribute)
    return decoder


def decode(source: str, body: bytes, hints: Hints = NO_HINTS) -> tuple[Observation, ...]:
    """Return the observations in one record; unreadable input is `Rejected` with a stable reason."""
    decoder = get(source)
    _reject_unreadable(body)
    return _with_gpu_count(decoder.decode(body, hints), hints)


def decode_pieces(source: str, pieces: Iterable[bytes], hints: Hints = NO_HINTS) -> tuple[Observation, ...]:
    """Decode a body that arrives in pieces; only log formats accept bodies too large for memory."""
    decoder = get(source)
    pieces = iter(pieces)
    head = next(pieces, b"")
    # A body that starts like JSON may be an envelope, which can only be opened as a whole.
    if decoder.decode_pieces is None or head[:_START].lstrip()[:1] == b"{":
        return decode(source, _join(chain([head], pieces)), hints)
    _reject_unreadable(head)
    return _with_gpu_count(decoder.decode_pieces(chain([head], pieces), hints), hints)


def _join(pieces: Iterable[bytes]) -> bytes:
    parts, size = [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise Rejected("too_large", f"more than {MAX_BYTES} bytes; send smaller bodies")
    return b"".join(parts)


def _with_gpu_count(observations: tuple[Observation, ...], hints: Hints) -> tuple[Observation, ...]:
    if hints.instance_type is None:
        return observations
    from faultbridge.decoders.common.gpu_count import add_gpu_count_check

    return add_gpu_count_check(observations, hints.instance_type)


def recognize(body: bytes) -> str:
    """Return the only source whose format a body has; no match or several matches are `Rejected`."""
    _reject_unreadable(body)
    candidates = [name for name in _DECODERS if get(name).recognize(body[:_HEAD])]
    if not candidates:
        raise Rejected("unknown_format", "the input matches no source format; name the source of this input")
    if len(candidates) > 1:
        raise Rejected(
            "ambiguous_format", f"the input matches {' or '.join(candidates)}; name one of them as its source"
        )
    return candidates[0]


def _reject_unreadable(body: bytes) -> None:
    if not body[:_START].strip() and not body.strip():
        raise Rejected("empty", "the input is empty")
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes; at most {MAX_BYTES} are read")
    if b"\0" in body:
        raise Rejected("binary", "the input contains NUL bytes; only text is read")
