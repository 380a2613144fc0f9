"""`training-log`: what a training job says about itself: hangs, lost peers, CUDA errors, losses that are no numbers.

Whoever reports a hang is not its cause: the rank that lags or keeps silent is. A loss that the framework hides is
found by the field that should be there and is not.

Grammar: lines, each perhaps behind a rank, a time or a progress bar; what a line means is the mapping `training`
(`training_patterns`). Times: none is read, as these logs name neither year nor zone. Units: milliseconds where a
pattern says so. Errors: `Rejected(no_framing)` where nothing of such a log is there. Source: PyTorch, NCCL, Megatron
and Hugging Face logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.training_patterns import Pattern, lines_of, patterns_of
from faultbridge.domain.faults import Component, ComponentType, CounterSample, Fault, Observation
from faultbridge.errors import Rejected

SOURCE = "training-log"
TIMEOUT, DESYNC = "train.nccl_timeout", "train.nccl_desync"
JOB, _GPU = Component(ComponentType.JOB), Component(ComponentType.GPU)
_RANK = re.compile(r"\[(?:PG [^\[\]]{0,64})?Rank (\d{1,6})\]|\[rank(\d{1,6})\]")
_MAX_GROUPS = 64
_WORDS = (
    b"ProcessGroupNCCL",
    b"NCCL WARN",
    b"lm loss",
    b"elapsed time per iteration",
    b"CUDA error: ",
    b"'grad_norm'",
)


@dataclass(slots=True)
class _Said:
    """What lines say in the same words: how often, by which ranks, and the first of them."""

    code: str
    component: Component
    line: str
    told: dict[str, str]
    count: int = 0
    ranks: dict[str, None] = field(default_factory=dict)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Report each trouble once with the number of its lines, and the last iteration of the job as a reading."""
    known, written = mapping("training", hints.mappings), text_of(body)
    if not any(word in written for word in known["framing"]):
        raise Rejected("no_framing", "no line of a training log in it")
    patterns, progress = patterns_of(known["patterns"]), patterns_of(known["progress"])
    said: dict[tuple[str, ...], _Said] = {}
    values: dict[str, int | str] = {}
    for line in lines_of(written):
        for pattern in patterns:
            found = pattern.find(line)
            if found is not None:
                _gather(said, pattern, found, line)
                break
        values = next((_progress(found) for one in progress if (found := one.find(line))), values)
    sample = (CounterSample(SOURCE, JOB, values),) if values else ()
    return (*_faults(said.values()), *sample)


def recognize(body: bytes) -> bool:
    """Tell whether words are there that only training programs print."""
    return any(word in body for word in _WORDS)


def _gather(said: dict[tuple[str, ...], _Said], pattern: Pattern, found: re.Match[str], line: str) -> None:
    row = pattern.row
    told = {name: value for name, value in found.groupdict().items() if value is not None}
    component = _GPU if row.get("component") == "gpu" else JOB
    key = (row["code"], *(told.get(name, "") for name in ("seqnum", "optype", "peer")))
    if key not in said and len(said) >= _MAX_GROUPS:
        return
    one = said.setdefault(key, _Said(row["code"], component, line, told))
    one.count += 1
    ranks = _RANK.findall(line[: found.start()][-512:])
    if ranks:
        one.ranks.setdefault(ranks[-1][0] or ranks[-1][1])


def _progress(found: re.Match[str]) -> dict[str, int | str]:
    told = found.groupdict()
    values: dict[str, int | str] = {"iteration": int(told["iteration"])}
    if told.get("step_ms"):
        values["step_milliseconds"] = int(told["step_ms"])
    if told.get("last") and told["last"] == told["iteration"]:
        values["finished"] = 1
    return values


def _faults(said: Iterable[_Said]) -> Iterator[Fault]:
    groups = tuple(said)
    operations: defaultdict[str, set[str]] = defaultdict(set)
    for one in groups:
        if one.code == TIMEOUT:
            operations[one.told["seqnum"]].add(one.told["optype"])
    behind = _behind(groups)
    for one in groups:
        # Different collectives under one number: the ranks run different programs, and no device is at fault.
        apart = one.code == TIMEOUT and len(operations[one.told["seqnum"]]) > 1
        told = one.told | ({"ranks": ", ".join(list(one.ranks)[:16])} if one.ranks else {})
        if one.code == TIMEOUT and behind and not apart:
            told["rank_behind"] = behind
        yield Fault(
            source=SOURCE,
            code=DESYNC if apart else one.code,
            component=one.component,
            message=cut(one.line.strip()[-512:] if len(one.line) > 512 else one.line.strip()),  # noqa: PLR2004 - the end says it
            evidence=evidence(one.line),
            attributes=told,
            count=one.count,
        )


def _behind(groups: Iterable[_Said]) -> str | None:
    """Return the rank whose collective is far behind that of the others, where ranks of one job say so."""
    by_rank: dict[str, int] = {}
    for one in groups:
        if one.code == TIMEOUT:
            by_rank |= {rank: int(one.told["seqnum"]) for rank in one.ranks}
    if len(by_rank) < 2 or len(set(by_rank.values())) < 2:  # noqa: PLR2004 - two are compared
        return None
    return min(by_rank, key=lambda rank: by_rank[rank])


DECODER = Decoder(
    name=SOURCE,
    summary="the log of a training job (PyTorch, NCCL, Megatron, Hugging Face): hangs, CUDA errors, losses",
    example="[rank0]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600060 "
    "milliseconds before timing out.",
    recognize=recognize,
    decode=decode,
)
