"""Decodes `nvidia-smi-text`: `nvidia-smi -q`, its table, `-L`, `nvlink -s` and `-e`, error messages.

Grammar: `-q` prints `Key : Value` lines and headings, indented by four spaces per level. The other
outputs print one or two lines per GPU. A key occurs at several levels, so a field is identified by its whole path. A
`-q` output that is cut off or wrongly indented is `Rejected`, because half of the fields of a GPU would look like a
complete GPU. Units: as printed. Times: the local time at the start, taken as UTC because it has no time zone. Errors:
`Rejected(no_framing)` if no line is from nvidia-smi. Source: nvidia-smi 525 to 610.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field

from faultbridge.decode.data import gpus_by_instance_type, table
from faultbridge.decode.frames.decoder import Decoded, Hints, Judged, fault_of, snapshot_of
from faultbridge.decode.frames.documents import blocks, text_of
from faultbridge.decode.frames.values import MAX_GPUS, bounded, digits, key_of
from faultbridge.decode.nvidia_smi import snapshot as smi
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Component, CounterSample, Fault, Observation

SOURCE = "nvidia-smi-text"
_TITLE = "NVSMI LOG"
_PROCESSES = "processes"
_STEP = 4
_MAX_DEPTH = 10
_GPU = re.compile(r"GPU ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])$")
_FIELD = re.compile(r"( {0,60})(\S[^:]{0,80}?) *: ?(.*)$")
_HEADING = re.compile(r"( {0,60})([A-Z][\w .()/&-]{0,60}?) *$")
_KNOWN_KEY = re.compile(
    r"^ {4,8}(?:GPU Recovery Action|Reset Required|GPU UUID|Pending Page Blacklist) *:", re.MULTILINE
)
# Labels that differ from the field's path in the XML.
_TABLE = table("nvidia_smi")
_FIELD_PATHS: Mapping[str, str] = _TABLE["text_fields"]
_CLOCKS = re.compile(r"clocks_(event|throttle)_reasons/(?:hw_slowdown/)?(\w+)")
_MIG_ECC = "mig_device/ecc_errors/volatile/sram_uncorrectable"


class _Gpu(Struct):
    address: str = ""
    fields: dict[str, str] = field(default_factory=dict)


def _is_full_query(text: str) -> bool:
    """Return whether a text is probably the output of `nvidia-smi -q`, or a part of it."""
    return _TITLE in text or _KNOWN_KEY.search(text) is not None


def _full_query(text: str, stated_faults: Sequence[Fault]) -> Decoded:
    """Decode the output of `nvidia-smi -q`.

    Raises `Rejected` if the text is cut off, has a wrong indentation or an unknown line, or contains no GPU or more
    than 128 GPUs.
    """
    gpus, head, has_head = list[_Gpu](), dict[str, str](), _TITLE in text
    for path, value in _fields(text):
        if len(gpus) > MAX_GPUS:
            raise Rejected("too_many_devices", f"more than {MAX_GPUS} devices of one node")
        if not path:
            gpus.append(_Gpu(value))
        elif has_head and not gpus:
            head[path] = value
        else:
            # A part of an output names no GPU: a repeated field starts the next GPU.
            if not gpus or (path in gpus[-1].fields and not gpus[-1].address):
                gpus.append(_Gpu())
            _set_field(gpus[-1].fields, path, value)
    if not gpus:
        raise Rejected("no_framing", "the output contains no GPU")
    if _is_cut_off(gpus):
        # Half of a GPU's fields would look like a healthy GPU.
        raise Rejected("truncated", "a GPU without its last fields; send the whole output")
    attached = digits(head.get("attached_gpus", ""), 3) or 0
    is_whole = attached == len(gpus) and all(gpu.address for gpu in gpus)
    outputs = (_gpu_output(gpu, index if is_whole else None) for index, gpu in enumerate(gpus))
    at, complete = smi.local_time(head.get("timestamp", "")), is_whole and not stated_faults
    snapshot = smi.gpu_snapshot(SOURCE, outputs, at, complete=complete, stated_faults=stated_faults)
    # The query of one GPU (`-i`) counts all attached GPUs too, so this is no error.
    note = f"the output lists {len(gpus)} of {attached} attached GPUs; nothing is known about the others"
    return Decoded((snapshot,), notes=(note,) if attached > len(gpus) else ())


def _is_cut_off(gpus: list[_Gpu]) -> bool:
    """Return whether the output of a GPU lacks its last fields.

    - A GPU with a product name is part of a complete output, so it must have the last section, the processes.
    - If several GPUs are readable, the last GPU must end with the same field as another GPU. This also shows that an
      output of single sections (`-d`) was cut off. A single GPU is not checked.

    A lost GPU is not checked, because its fields prove nothing.
    """
    readable = [gpu.fields for gpu in gpus if smi.LOST not in gpu.fields.values()]
    if any("product_name" in fields and _PROCESSES not in _sections(fields) for fields in readable):
        return True
    ends = [_PROCESSES if _PROCESSES in _sections(fields) else next(reversed(fields), "") for fields in readable]
    is_last_readable = smi.LOST not in gpus[-1].fields.values()
    return is_last_readable and len(ends) > 1 and ends[-1] not in ends[:-1]


def _sections(fields: Mapping[str, str]) -> set[str]:
    return {path.partition("/")[0] for path in fields}


def _set_field(fields: dict[str, str], path: str, value: str) -> None:
    if path == _MIG_ECC:
        smi.add_mig_errors(fields, value)
        return
    clocks = _CLOCKS.fullmatch(path)
    if clocks is not None:
        path = f"clocks_{clocks[1]}_reasons/clocks_{clocks[1]}_reason_{clocks[2]}"
    fields[_FIELD_PATHS.get(path, path)] = value


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and value of each field. At the start of a GPU, yield an empty path and its address."""
    path: list[str] = []
    heading, least = "", 0
    for line in text.split("\n"):
        stripped = line.rstrip()
        if not stripped or stripped.startswith("="):
            continue
        gpu = _GPU.match(stripped)
        if gpu is not None:
            _reject_empty(heading)
            path, heading, least = [], stripped, _STEP
            yield "", gpu[1]
            continue
        query = _FIELD.match(stripped) or _HEADING.match(stripped)
        if query is None:
            raise Rejected(
                "malformed_text", f"neither a field nor a heading: {stripped.strip()[:80]!r}; expected `Key : Value`"
            )
        indent = len(query[1])
        if indent < least:
            raise _bad_indentation(query[2], indent)
        path = _extended_path(path, indent, query[2])
        is_heading = query.re is _HEADING
        heading = stripped.strip() if is_heading else ""
        # The fields of a heading are deeper than it; only the head above the first GPU is not indented.
        least = indent + _STEP if is_heading else min(least, _STEP)
        if not is_heading:
            yield "/".join(path), query[3].strip()
    _reject_empty(heading)


def _reject_empty(heading: str) -> None:
    if heading:
        raise Rejected("truncated", f"no field below the heading {heading[:80]!r}; send the whole output")


def _extended_path(path: list[str], indent: int, label: str) -> list[str]:
    depth = max(indent // _STEP - 1, 0)
    fits = indent % _STEP == 0 and depth <= min(len(path), _MAX_DEPTH)
    if not fits and path:
        raise _bad_indentation(label, indent)
    return [*path[:depth], key_of(label)]


def _bad_indentation(label: str, indent: int) -> Rejected:
    return Rejected(
        "bad_indentation",
        f"wrong indentation of {key_of(label)[:80]!r}: {indent} spaces; expected {_STEP} spaces a level",
    )


def _gpu_output(gpu: _Gpu, index: int | None) -> smi.GpuOutput:
    fields = gpu.fields
    address = gpu.address or fields.get("pci/bus_id", "")
    component = smi.gpu_component(address, fields.get("uuid", ""), fields.get("serial", ""), index)
    return smi.GpuOutput(fields, component, frozenset(fields.values()))


# Reads `nvidia-smi nvlink -s` and `-e`: the state and the error counters of the NVLinks of each GPU.
#
# Grammar: `GPU N: MODEL (UUID: U)`, without the UUID in new drivers, then `Link N: SPEED GB/s`, `Link N: <inactive>` or
# `Link N: COUNTER: COUNT`, or one message that all links are inactive. One text can contain both outputs. Units:
# errors since the driver was loaded. Source: nvidia-smi 525 to 595, NVML's NVLink error counters.

LINK_CODE = "smi.nvlink_inactive"
_NVLINK_GPU = re.compile(
    r"^GPU (\d{1,3}): ([^\n(]{1,100}?)(?: \(UUID: (GPU-[0-9A-Za-z-]{1,64})\))?[ \t\r]{0,8}$", re.MULTILINE
)
_STATE = re.compile(r"^[ \t]{1,16}Link (\d{1,3}): (<inactive>|[\d.]{1,10} GB/s)", re.MULTILINE)
_ERRORS = re.compile(r"^[ \t]{1,16}Link \d{1,3}: ([A-Z][A-Za-z ]{2,40}): (\d{1,18})[ \t\r]{0,8}$", re.MULTILINE)
# Drivers print `NVLink` or `Nvlink`, and `inactive` or `inActive`.
_ALL_INACTIVE = re.compile(r"(?:NVML: )?Unable to retrieve NVLink information as all links are inactive", re.IGNORECASE)
_INACTIVE = "<inactive>"
# Models whose NVLinks all lead to switches or to other GPUs on the board. A card has links only through a bridge.
_ON_BOARD = re.compile(r"\b(?:SXM\d?|HGX|GB\d{3}|B[123]00|H[128]00|H20)\b(?!.{0,64}\b(?:NVL|PCIe)\b)")
_COUNTERS: Mapping[str, str] = _TABLE["link_errors"]


class _LinkedGpu(Struct):
    """One GPU with the state of each of its links, by link number, and with its error counts.

    The input can list the errors of a GPU several times. `errors` has one item for each list, the earliest first: the
    count of each kind of error, added up over all links of the GPU. `all_inactive` is True if a message reports that
    all links of the GPU are inactive.
    """

    component: Component
    model: str
    states: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, int | str]] = field(default_factory=list)
    all_inactive: bool = False


def _is_links(text: str) -> bool:
    """Return whether a text lists the states or the error counts of NVLinks."""
    has_links = _NVLINK_GPU.search(text) is not None and (_STATE.search(text) or _ERRORS.search(text)) is not None
    return has_links or ("all links are in" in text and _ALL_INACTIVE.search(text) is not None)


def _links(text: str, hints: Hints) -> Iterator[Observation]:
    """Yield a health snapshot of the link states, and the counter samples of the NVLink errors."""
    gpus = list(_gpus(text))
    if any(gpu.states or gpu.all_inactive for gpu in gpus):
        yield snapshot_of(SOURCE, _judged(gpus, hints), part="links")
    yield from (CounterSample(SOURCE, gpu.component, errors) for gpu in gpus for errors in gpu.errors)


def _gpus(text: str) -> Iterator[_LinkedGpu]:
    listed = bounded(blocks(_NVLINK_GPU, text))
    if not listed:
        yield _LinkedGpu(smi.gpu_component("", "", "", None), "", all_inactive=True)
    found: dict[tuple[str, str | None], _LinkedGpu] = {}
    for heading, details in listed:
        number, model, uuid = heading.groups()
        # GPUs of two nodes can have the same number.
        gpu = found.setdefault(
            (number, uuid), _LinkedGpu(smi.gpu_component("", uuid or "", "", digits(number, 3)), model)
        )
        gpu.states |= dict(_STATE.findall(details))
        gpu.all_inactive = gpu.all_inactive or _ALL_INACTIVE.match(details.lstrip()) is not None
        errors: dict[str, int | str] = {}
        for name, count in _ERRORS.findall(details):
            if name in _COUNTERS:
                errors[_COUNTERS[name]] = int(errors.get(_COUNTERS[name], 0)) + int(count)
        if errors:
            gpu.errors.append(errors)
    yield from found.values()


def _judged(gpus: list[_LinkedGpu], hints: Hints) -> Iterator[Judged]:
    """Judge the links of each GPU whose link states are in the text.

    Links that are inactive on all GPUs of a model are so by design. A GPU without any active link has a fault if
    another GPU of its model has active links, or if its model always has NVLinks and the instance has several GPUs. It
    is a warning if the text does not name the model.
    """
    inactive = [{number for number, speed in gpu.states.items() if speed == _INACTIVE} for gpu in gpus]
    linked = {gpu.model for gpu, links in zip(gpus, inactive, strict=True) if len(links) < len(gpu.states)}
    is_alone = gpus_by_instance_type().get((hints.instance_type or "").removeprefix("ml.")) == 1
    for gpu, links in zip(gpus, inactive, strict=True):
        peers = [other for one, other in zip(gpus, inactive, strict=True) if one.model == gpu.model and one.states]
        by_design = set.intersection(*peers) if len(peers) > 1 else set[str]()
        is_lost = len(links) == len(gpu.states) and (gpu.all_inactive or links != set())
        is_certain = gpu.model in linked or (_ON_BOARD.search(gpu.model) is not None and not is_alone)
        if is_lost and (is_certain or not gpu.model):
            lost = fault_of(SOURCE, LINK_CODE, gpu.component, "All NVLinks inactive.", links="all")
            yield LINK_CODE, gpu.component, lost.classified(Severity.ERROR, Action.RESET_GPU) if is_certain else lost
        elif len(links) < len(gpu.states):
            numbers = ", ".join(map(str, sorted(map(int, links - by_design))))
            fault = fault_of(SOURCE, LINK_CODE, gpu.component, f"NVLink {numbers} inactive.", links=numbers)
            yield LINK_CODE, gpu.component, fault if numbers else None


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...] | Decoded:
    """Return a health snapshot of the GPUs, and counter samples of the listed NVLink errors."""
    text = text_of(body)
    stated_faults = smi.find_failures(SOURCE, text)
    snapshot = partial(smi.gpu_snapshot, SOURCE, stated_faults=stated_faults)
    if _is_full_query(text):
        return _full_query(text, stated_faults)
    if _ROW.search(text):
        clock = _CLOCK.search(text)
        # The links can be listed below the table.
        links = _links(text, hints) if _is_links(text) else ()
        return (snapshot(_rows(text), smi.local_time(clock[0]) if clock else None, complete=False), *links)
    if _is_links(text):
        return (*(smi.failures(SOURCE, text) if stated_faults else ()), *_links(text, hints))
    if _LISTED.search(text):
        components = (smi.gpu_component("", gpu[2], "", digits(gpu[1], 3)) for gpu in _LISTED.finditer(text))
        listed = (smi.GpuOutput({}, component) for component in components)  # they have no health fields
        return (snapshot(listed, None, complete=not stated_faults),)
    if smi.has_failure(text):
        return smi.failures(SOURCE, text)
    raise Rejected("no_framing", "not an output of nvidia-smi -q, its table, -L, nvlink -s or -e")


def recognize(body: bytes) -> bool:
    """Return whether a body is probably text output or an error message of nvidia-smi, not XML or CSV."""
    text = text_of(body)
    if "<nvidia_smi_log" in text or "gpu_bus_id" in text or "pci.bus_id" in text:
        return False
    is_listed = _ROW.search(text) is not None or _LISTED.search(text) is not None
    return is_listed or _is_full_query(text) or _is_links(text) or smi.has_failure(text)


# The list of GPUs that `nvidia-smi -L` prints, and the rows of the table that `nvidia-smi` prints without options.

_LISTED = re.compile(r"^GPU (\d{1,3}): [^\n(]{1,100}\(UUID: (GPU-[0-9A-Za-z-]{1,64})\)", re.MULTILINE)
_ROW = re.compile(
    r"^\| {1,4}(\d{1,3}) [^|\n]{1,80}\| {1,4}([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) [^|\n]{1,30}"
    r"\|([^|\n]{1,40})\|",
    re.MULTILINE,
)
_CELLS = re.compile(r"^\| ?(\S{1,8}) +(\S{1,8}) +(\S{1,8}) +([^|\n]{1,40})\|", re.MULTILINE)
_CLOCK = re.compile(r"^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d{1,2} \d\d:\d\d:\d\d \d{4}", re.MULTILINE)


def _rows(text: str) -> Iterator[smi.GpuOutput]:
    for row in _ROW.finditer(text):
        cells = _CELLS.search(text, row.end())
        fields = {"ecc_errors/volatile/double_bit/total": row[3].strip()}
        if cells is not None:
            names = ("fan_speed", "temperature/gpu_temp")
            fields |= dict(zip(names, cells.groups(), strict=False))
            fields["power_readings/power_draw"] = cells[4].partition("/")[0].strip()
        yield smi.GpuOutput(fields, smi.gpu_component(row[2], "", "", digits(row[1], 3)), frozenset(fields.values()))
