"""Finds decoders by source name, imports each on first use, and runs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from itertools import chain, tee
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from faultbridge.decode import log_sources, records
from faultbridge.decode.frames.body import TextCleaner, joined, unpacked_pieces
from faultbridge.decode.frames.chain import inner_texts
from faultbridge.decode.frames.decoder import NO_HINTS, Decoded, Decoder, Hints
from faultbridge.decode.frames.documents import embedded, text_of
from faultbridge.decode.frames.stores.insights import is_table
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Observation
from faultbridge.model.values import replace

if TYPE_CHECKING:
    from faultbridge.decode.line_source import LineSource

_DECODERS: Mapping[str, str] = {
    "nvidia-smi-xml": "nvidia_smi.xml_output:DECODER",
    "nvidia-smi-query-csv": "nvidia_smi.csv_output:DECODER",
    "nvidia-smi-text": "nvidia_smi.text_output:DECODER",
    "kernel-log": "kernel.kernel_log:DECODER",
    "dcgm-health": "dcgm.health:DECODER",
    "dcgm-diag": "dcgm.diag:DECODER",
    "dcgm-metrics": "dcgm.metrics:DECODER",
    "dcgm-nvlink": "dcgm.nvlink:DECODER",
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
    "disk-health": "host.disk_health:DECODER",
    "pci-devices": "host.pci_devices:DECODER",
    "bmc-events": "host.bmc_events:DECODER",
    "neuron-monitor": "host.neuron_monitor:DECODER",
    "training-log": "training.training_log:DECODER",
    "heartbeat": "native.heartbeat:DECODER",
    "faultbridge": "native.normalized:DECODER",
}
_LOG = "kernel-log"
MAX_BYTES = 64 * 1024 * 1024
_HEAD = 64 * 1024
_START = 4096
_JSON = re.compile(rb"\s{0,64}(?:\{|\[\s{0,64}\{)")


@cache
def names() -> tuple[str, ...]:
    """Return the names of all sources that have a decoder: those above, and each module of `log_sources`."""
    lines = sorted(module.name.replace("_", "-") for module in iter_modules(log_sources.__path__))
    return (*_DECODERS, *lines)


@cache
def get(name: str) -> Decoder:
    """Return the decoder of a source. Raises `Rejected` for an unknown name."""
    if name not in names():
        raise Rejected("unknown_source", f"unknown source: {name!r}; allowed are {', '.join(names())}")
    if name not in _DECODERS:
        source: LineSource = import_module(f"{log_sources.__name__}.{name.replace('-', '_')}").SOURCE
        return source.decoder(name)
    module, _, attribute = _DECODERS[name].partition(":")
    decoder: Decoder = getattr(import_module(f"faultbridge.decode.{module}"), attribute)
    return decoder


def decode(source: str, body: bytes, hints: Hints = NO_HINTS) -> tuple[Observation, ...]:
    """Return the observations in one record.

    Raises `Rejected`, with the reason as a code such as `no_framing`, if the record cannot be read.
    """
    return read(source, body, hints).observations


def read(source: str, body: bytes, hints: Hints = NO_HINTS) -> Decoded:
    """Return the observations in one record, and how much of the record was not understood.

    Raises `Rejected`, with the reason as a code such as `no_framing`, if the record cannot be read.
    """
    decoder = get(source)
    if decoder.decode_plain is not None and (plain := decoder.decode_plain(body, hints)) is not None:
        return _with_instance_type(plain, hints)
    cleaner = TextCleaner()
    _reject_unreadable(body)
    decoded = records.read(decoder, cleaner.clean(body), hints)
    return cleaner.noted(_with_instance_type(decoded, hints))


def read_pieces(source: str, pieces: Iterable[bytes], hints: Hints = NO_HINTS) -> Decoded:
    """Decode a body that arrives in pieces.

    A log is decoded piece by piece, so it need not fit into memory. A table, a JSON document, or a body of a source
    without `decode_pieces` is joined and decoded as a whole.
    """
    decoder, cleaner = get(source), TextCleaner()
    pieces = unpacked_pieces(pieces)
    head = next(pieces, b"")
    if decoder.decode_pieces is None or _is_document(head):
        return read(source, joined(chain([head], pieces), MAX_BYTES), hints)
    _reject_unreadable(head)
    decoded = decoder.decode_pieces(cleaner.pieces(chain([head], pieces)), hints)
    return cleaner.noted(_with_instance_type(decoded, hints))


def _is_document(head: bytes) -> bool:
    """Return whether a body must be read as a whole, because it is a table or a JSON document.

    JSON with one object per line can be read in pieces.
    """
    start = head[:_START]
    if b"@message" in start and is_table(text_of(start)):
        return True
    if _JSON.match(start) is None or b'"awslogs"' in start or b'"logEvents"' in start:
        return _JSON.match(start) is not None
    first, _, rest = head.lstrip().partition(b"\n")
    return not rest or embedded(text_of(first)) is None


def _with_instance_type(decoded: Decoded, hints: Hints) -> Decoded:
    if hints.instance_type is None:
        return decoded
    from faultbridge.decode.frames.instance_type import add_instance_type_checks

    return replace(decoded, observations=add_instance_type_checks(decoded.observations, hints.instance_type))


def recognize(body: bytes) -> str:
    """Return the name of the source whose format a body has.

    Raises `Rejected` if the body is empty or too large, or if it matches no source or several sources.
    """
    _reject_unreadable(body)
    text = TextCleaner().clean(body)
    inner, again = tee(inner_texts(text))
    candidates = _candidates(text, inner) or _later_candidates(chain([text], again))
    if not candidates:
        raise Rejected("unknown_format", "the input matches no source format; name the source of this input")
    if len(candidates) > 1:
        raise Rejected(
            "ambiguous_format", f"the input matches {' or '.join(candidates)}; name one of them as its source"
        )
    return candidates[0]


def _candidates(body: bytes, inner: Iterable[bytes]) -> list[str]:
    """Return the sources whose format fits a body, which wraps the texts `inner`.

    - A Kubernetes node is of the source `kubernetes-node`, even if the message of a condition fits another source.
    - If the body wraps text of a source other than the kernel log, for example in a CloudWatch Logs record, the result
      is the sources of this text.
    - Otherwise the sources of the body itself are returned, without the kernel log if a JSON body has several sources.
      If the body itself has no source, the sources of the wrapped text are returned.
    """
    head = body[:_HEAD]
    found = _recognizing(head)
    # The message of one condition can have the format of another source; the node has its other conditions too.
    if "kubernetes-node" in found and _is_node(head):
        return ["kubernetes-node"]
    wrapped = next(filter(None, (_recognizing(text[:_HEAD]) for text in inner)), [])
    # A message in a document of another source can look like a line of a kernel log.
    documents = [name for name in wrapped if name != _LOG]
    if documents or not found:
        return documents or wrapped
    is_document = len(found) > 1 and _JSON.match(head) is not None
    return [name for name in found if name != _LOG] if is_document else found


def _later_candidates(texts: Iterable[bytes]) -> list[str]:
    """Return the sources that recognize the part of the first text with a kernel line, starting at this line.

    This is used if the start of the body, which is the first text, has no known format. A kernel line must have the
    kernel's prefix and a phrase that the kernel decoder searches for.
    """
    from faultbridge.decode.lines_of_kernel import from_first_line

    rest = next(filter(None, (from_first_line(text, _HEAD) for text in texts)), b"")
    return _recognizing(rest) if rest else []


def _is_node(head: bytes) -> bool:
    from faultbridge.decode.kubernetes.node_objects import is_node

    return is_node(head)


def _recognizing(head: bytes) -> list[str]:
    return [name for name in names() if get(name).recognize(head)]


def needs_whole(head: bytes) -> bool:
    """Return whether a body must be read as a whole, because it starts as a CloudWatch Logs record."""
    return _JSON.match(head) is not None and (b'"awslogs"' in head[:_START] or b'"logEvents"' in head)


def _reject_unreadable(body: bytes) -> None:
    if not body[:_START].strip() and not body.strip():
        raise Rejected("empty", "the input is empty")
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes; at most {MAX_BYTES} are read")
