"""The decoders by source name; each is imported when it is first asked for, so that a function pays for no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from itertools import chain, islice

from faultbridge.decoders.base import NO_HINTS, Decoder, Hints
from faultbridge.domain.faults import Observation
from faultbridge.errors import Rejected

_MODULES: Mapping[str, str] = {
    "nvidia-smi-xml": "nvidia_smi_xml",
    "nvidia-smi-query-csv": "nvidia_smi_query_csv",
    "nvidia-smi-text": "nvidia_smi_text",
    "kernel-log": "kernel_log",
    "dcgm-health": "dcgm_health",
    "dcgm-diag": "dcgm_diag",
    "dcgm-metrics": "dcgm_metrics",
    "dcgm-policy": "dcgm_policy",
    "fabric-manager-log": "fabric_manager_log",
    "hyperpod-agent-log": "hyperpod_agent_log",
    "link-state": "link_state",
    "hyperpod-event": "hyperpod_event",
    "eks-node-condition": "eks_node_condition",
    "node-problem-detector": "node_problem_detector",
    "gpud": "gpud",
    "nvsentinel": "nvsentinel",
    "alertmanager": "alertmanager",
    "grafana": "grafana",
    "ec2-event": "ec2_event",
    "ec2-status": "ec2_status",
    "health-event": "health_event",
    "kubernetes-node": "kubernetes_node",
    "slurm-node": "slurm_node",
    "infiniband-state": "infiniband_state",
    "rdma-counters": "rdma_counters",
    "ethtool-stats": "ethtool_stats",
    "training-log": "training_log",
    "heartbeat": "heartbeat",
    "faultbridge": "normalized",
}
MAX_BYTES = 64 * 1024 * 1024
_HEAD = 64 * 1024
_START = 4096
# As many pieces as are looked at before the first line decides how the rest is read.
_ENVELOPES = 1


def names() -> tuple[str, ...]:
    """Return the source names that can be decoded."""
    return tuple(_MODULES)


@cache
def get(name: str) -> Decoder:
    """Return the decoder of a source; an unknown name is `Rejected`."""
    if name not in _MODULES:
        raise Rejected("unknown_source", f"{name!r} is none of {', '.join(_MODULES)}")
    decoder: Decoder = import_module(f"faultbridge.decoders.{_MODULES[name]}").DECODER
    return decoder


def decode(source: str, body: bytes, hints: Hints = NO_HINTS) -> tuple[Observation, ...]:
    """Turn the bytes of one record into observations; every unreadable input is `Rejected` with a stable reason."""
    decoder = get(source)
    _refuse_unreadable(body)
    return _completed(decoder.decode(body, hints), hints)


def decode_pieces(source: str, pieces: Iterable[bytes], hints: Hints = NO_HINTS) -> tuple[Observation, ...]:
    """Do the same to a body that comes in pieces; one that is too large to be held can only be a log."""
    decoder = get(source)
    pieces = iter(pieces)
    head = b"".join(islice(pieces, _ENVELOPES))
    # What begins like JSON may be an envelope, which must be had whole to be opened.
    if decoder.decode_pieces is None or head[:_START].lstrip()[:1] == b"{":
        return decode(source, _joined(chain([head], pieces)), hints)
    _refuse_unreadable(head)
    return _completed(decoder.decode_pieces(chain([head], pieces), hints), hints)


def _joined(pieces: Iterable[bytes]) -> bytes:
    kept, size = [], 0
    for piece in pieces:
        kept.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            raise Rejected("too_large", f"more than the {MAX_BYTES} bytes that are read at once")
    return b"".join(kept)


def _completed(found: tuple[Observation, ...], hints: Hints) -> tuple[Observation, ...]:
    if hints.instance_type is None:
        return found
    from faultbridge.decoders.gpu_count import counted

    return counted(found, hints.instance_type)


def recognize(body: bytes) -> str:
    """Return the one source whose format a body has; none or several are `Rejected`, naming the candidates."""
    _refuse_unreadable(body)
    candidates = [name for name in _MODULES if get(name).recognize(body[:_HEAD])]
    if not candidates:
        raise Rejected("unknown_format", "no source format fits this input")
    if len(candidates) > 1:
        raise Rejected("ambiguous_format", f"it could be {' or '.join(candidates)}")
    return candidates[0]


def _refuse_unreadable(body: bytes) -> None:
    if not body[:_START].strip() and not body.strip():
        raise Rejected("empty", "the input holds nothing")
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes, at most {MAX_BYTES} are read at once")
    if b"\0" in body:
        raise Rejected("binary", "the input holds NUL bytes, so it is not text")
