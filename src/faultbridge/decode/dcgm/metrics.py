"""Decodes `dcgm-metrics`: the states and counters in a scrape of dcgm-exporter.

The Xid gauge keeps the last Xid until the exporter restarts, and has no time. If it were a fault, each scrape would
report the fault again after a repair. It is therefore a counter sample, and only a change of its value is a fault. The
exporter's count of Xids in a time window is treated in the same way.

Grammar: Prometheus text, one sample per line. Label names differ by exporter (`UUID`, `uuid` or `gpu_uuid`, `hostname`
or `Hostname`). A GPU in MIG mode is listed once for each MIG instance and counts as one GPU. DCGM's blank values (2^63
- 16 and higher) are ignored. A GPU that is not listed is neither healthy nor faulty. The table of `dcgmi dmon` has the
same fields under short names. Times: the milliseconds of a sample, if it has any. Units: those of DCGM's fields
(counts, MiB, watts, degrees Celsius). Errors: `Rejected(no_framing)` without a DCGM field. Source: dcgm-exporter 3.1 to
4.5.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from faultbridge.decode.data import table
from faultbridge.decode.data.counters import COUNTERS, HEALTH, RENAMED, STATES, XID_COUNT
from faultbridge.decode.dcgm.health import health_code
from faultbridge.decode.dcgm.texts import CODES
from faultbridge.decode.frames.decoder import Hints, fault_of
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.prometheus import Sample, number_of, samples
from faultbridge.decode.frames.values import bounded, digits, pci_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, CounterSample, Fault, Observation, Snapshot

SOURCE = "dcgm-metrics"
_PREFIXES = ("DCGM_FI_", "DCGM_EXP_")
_FRAMING = re.compile(r"^(?:DCGM_(?:FI|EXP)_\w{1,100}[ {]|# (?:HELP|TYPE) DCGM_)", re.MULTILINE)
_HEALTH_WARNING, _HEALTH_FAILURE = 10, 20


_TABLE = re.compile(r"^# ?Entity((?: {1,32}[A-Z]\w{1,7}){1,64}) {0,32}$", re.MULTILINE)
_TABLE_ROW = re.compile(r" {0,8}GPU (\d{1,4}) {1,64}(\S.{0,2048})$")


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return, for each scrape, one health snapshot, and one counter sample for each GPU with counters."""
    text = text_of(body)
    is_table = _TABLE.search(text) is not None
    if not (any(True for _ in _samples_of_table(text)) if is_table else _FRAMING.search(text)):
        raise Rejected("no_framing", "no line with a DCGM field")
    found = _samples_of_table(text) if is_table else samples(text, _PREFIXES)
    return tuple(observation for scrape in _scrapes(found) for observation in scrape.result())


def recognize(body: bytes) -> bool:
    """Return whether a line of the body starts with a DCGM field, is a comment about one, or heads such a table."""
    text = text_of(body)
    return _FRAMING.search(text) is not None or any(True for _ in _samples_of_table(text))


def _samples_of_table(text: str) -> Iterator[Sample]:
    """Yield the values that `dcgmi dmon` prints, as samples of the exporter's metrics."""
    names: list[str | None] = []
    for line in text.splitlines() if _TABLE.search(text) else ():
        heading, row = _TABLE.match(line), _TABLE_ROW.match(line)
        if heading is not None:
            names = [table("dcgm")["columns"].get(name) for name in heading[1].split()]
        elif row is not None:
            labels = {"gpu": row[1]}
            for name, value in zip(names, row[2].split(), strict=False):
                if name is not None and value.isdigit():
                    yield Sample(f"DCGM_FI_DEV_{name}", labels, number_of(value))


def _scrapes(found: Iterable[Sample]) -> Iterator[_Scrape]:
    """Yield the scrapes of samples. A metric series that occurs a second time starts the next scrape."""
    scrape, seen = _Scrape(), set[tuple[str, tuple[tuple[str, str], ...]]]()
    labels, gpu = None, None
    for sample in found:
        if sample.labels != labels:
            labels, gpu = sample.labels, _gpu(sample)
        series = (sample.name, tuple(sample.labels.items()))
        if series in seen:
            yield scrape
            scrape = _Scrape()
            seen.clear()
        seen.add(series)
        if gpu is not None and sample.value is not None:
            scrape.take(sample, gpu, sample.value)
    yield scrape


class _Scrape:
    def __init__(self) -> None:
        self._covers: defaultdict[str, set[Component]] = defaultdict(set)
        self._present: dict[tuple[str, Component], Fault] = {}
        self._values: defaultdict[Component, dict[str, int | str]] = defaultdict(dict)
        self._node: str | None = None
        self._gpus: set[Component] = set()

    def take(self, sample: Sample, gpu: Component, value: float) -> None:
        if gpu not in self._gpus:
            self._gpus.add(gpu)
            bounded(self._gpus)
        self._node = self._node or sample.label("hostname", "Hostname")
        name = RENAMED.get(sample.name, sample.name)
        if name in COUNTERS:
            self._count(gpu, name, int(value))
        elif sample.name == XID_COUNT:
            self._count(gpu, f"{XID_COUNT}/{sample.label('xid') or 'unnamed'}"[:64], int(value))
        elif name in STATES:
            code, message = STATES[name]
            self._check(code, gpu, sample, bad=value > 0, message=message)
        elif sample.name == HEALTH:
            watch = sample.label("health_watch") or ""
            message = f"DCGM health watch {watch or 'unnamed'}."
            self._check(_watch_code(sample, watch), gpu, sample, bad=value >= _HEALTH_WARNING, message=message)

    def _count(self, gpu: Component, name: str, value: int) -> None:
        """Store a counter of a GPU. If the scrape lists the GPU several times, keep the highest value."""
        previous = self._values[gpu].get(name)
        self._values[gpu][name] = max(value, previous) if isinstance(previous, int) else value

    def _check(self, code: str, gpu: Component, sample: Sample, *, bad: bool, message: str) -> None:
        self._covers[code].add(gpu)
        if bad:
            labels = ", ".join(map("=".join, sample.labels.items()))
            raw, value = f"{sample.name}{{{labels}}} {sample.value}", str(sample.value)
            fault = fault_of(SOURCE, code, gpu, message, raw, sample.at, self._node, field=sample.name, value=value)
            is_warning = sample.name == HEALTH and sample.value is not None and sample.value < _HEALTH_FAILURE
            self._present[code, gpu] = fault.classified(Severity.WARNING, Action.NONE) if is_warning else fault

    def result(self) -> tuple[Observation, ...]:
        covers = {code: tuple(sorted(gpus, key=_order)) for code, gpus in self._covers.items()}
        snapshot = Snapshot(SOURCE, covers, tuple(self._present.values()), node=self._node)
        samples = (CounterSample(SOURCE, gpu, values, node=self._node) for gpu, values in self._values.items())
        return (snapshot, *samples) if covers else tuple(samples)


def _gpu(sample: Sample) -> Component | None:
    index, uuid = sample.label("gpu"), sample.label("UUID", "uuid", "gpu_uuid")
    if index is None and uuid is None:
        return None
    return Component(
        ComponentType.GPU,
        pci=pci_of(sample.label("pci_bus_id") or ""),
        uuid=uuid[:64] if uuid else None,
        index=digits(index, 4),
    )


def _watch_code(sample: Sample, watch: str) -> str:
    error_name = (sample.label("health_error_code") or "").removeprefix("DCGM_FR_").lower()
    code = f"dcgm.{error_name}"
    return code if error_name and error_name != "ok" and code in CODES else health_code(watch)


def _order(gpu: Component) -> tuple[int, str]:
    return (gpu.index if gpu.index is not None else -1, gpu.uuid or gpu.pci or "")
