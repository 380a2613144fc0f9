"""Generates Flight Recorder dumps: runs a training program of tensor, data and pipeline parallel ranks with a fault.

Each rank enqueues its operations in order, at most `lead` ahead of the last completed one. A collective completes when
it is the first pending operation of all members; a send when it is that of both ranks.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from random import Random
from typing import Any

SHAPES = ((2, 2, 3), (4, 2, 1), (2, 4, 1), (1, 8, 1), (2, 2, 2), (2, 1, 4), (8, 2, 1))
"""Ranks in the tensor, data and pipeline dimension."""
KINDS = ("behind", "missing", "unfinished", "mismatched")


@dataclass(frozen=True)
class Op:
    """One operation of a rank: its group, name, number in the group, its number among the sends, and its peer."""

    group: str
    name: str
    sequence: int
    p2p: int = 0
    peer: int | None = None
    size: int = 4096

    @property
    def key(self) -> tuple[object, ...]:
        return self.group, self.sequence, self.name, self.size


@dataclass
class Rank:
    """What one rank has enqueued, completed, and shown as completed."""

    program: list[Op]
    enqueued: int = 0
    completed: int = 0
    enqueues_until: int = 10**9
    shows_until: int = 10**9
    completes_until: int = 10**9

    @property
    def head(self) -> Op | None:
        is_running = self.completed < min(self.enqueued, self.completes_until)
        return self.program[self.completed] if is_running else None

    @property
    def shown(self) -> int:
        return min(self.completed, self.shows_until)


@dataclass
class Trace:
    """A job with a fault: the dumps by file name, and the ranks with the fault."""

    kind: str
    injected: set[int]
    files: dict[str, bytes] = field(default_factory=dict)


def generate(seed: int) -> Trace:
    """Generate the dumps of one job."""
    random = Random(seed)
    kind = KINDS[seed % len(KINDS)]
    tensor, data, pipeline = random.choice(SHAPES)
    groups = _groups(tensor, data, pipeline)
    world = [Rank(_program(groups, rank, steps=3)) for rank in range(tensor * data * pipeline)]
    count = random.choice((1, 1, 1, 2)) if len(world) > 4 and kind != "mismatched" else 1
    injected = set(random.sample(range(len(world)), count))
    lead = random.randint(2, 16)
    _run(world, lead, random, turns=random.randint(2, 30) * len(world))
    for rank in injected:
        _inject(kind, world[rank], random)
    _run(world, lead, random, turns=None)
    trace = Trace(kind, injected)
    for number, rank in enumerate(world):
        if not (kind == "missing" and number in injected):
            document = _document(groups, number, rank, ring=random.choice((0, 0, 6)))
            name, body = (
                (f"_dump_{number}", pickle.dumps(document, random.choice((2, 4))))
                if seed % 20 in {0, 5, 10, 15} and number < 4
                else (f"dump_{number}.json", json.dumps(document).encode())
            )
            trace.files[name] = body
    return trace


def _groups(tensor: int, data: int, pipeline: int) -> dict[str, tuple[str, list[int]]]:
    size, found = tensor * data * pipeline, {}
    found["0"] = ("default_pg", list(range(size)))
    stage = tensor * data
    kinds = {
        "TENSOR": [list(range(start, start + tensor)) for start in range(0, size, tensor)],
        "DATA": [[p * stage + d * tensor + t for d in range(data)] for p in range(pipeline) for t in range(tensor)],
        "PIPELINE": [[p * stage + one for p in range(pipeline)] for one in range(stage)],
    }
    for kind, members in kinds.items():
        for ranks in members:
            if len(ranks) > 1:
                found[str(len(found))] = (kind, ranks)
    return found


def _program(groups: dict[str, tuple[str, list[int]]], rank: int, steps: int) -> list[Op]:
    mine = {kind: (name, ranks) for name, (kind, ranks) in groups.items() if rank in ranks}
    numbers: dict[str, int] = {}
    program: list[Op] = []

    def collective(kind: str, operation: str) -> None:
        if kind in mine:
            group = mine[kind][0]
            numbers[group] = numbers.get(group, 0) + 1
            program.append(Op(group, f"nccl:{operation}", numbers[group]))

    def transfer(offset: int, direction: str) -> None:
        group, ranks = mine.get("PIPELINE", ("", [rank]))
        stage = ranks.index(rank)
        if 0 <= stage + offset < len(ranks):
            numbers[group] = numbers.get(group, 0) + 1
            arrow = "->" if direction == "send" else "<-"
            name = f"nccl:{direction} {stage}{arrow}{stage + offset}"
            program.append(Op(group, name, 0, numbers[group], ranks[stage + offset]))

    for _ in range(steps):
        for _ in range(2):
            transfer(-1, "recv")
            for operation in ("_all_gather_base", "broadcast", "_reduce_scatter_base", "all_reduce"):
                collective("TENSOR", operation)
            transfer(1, "send")
        collective("DATA", "all_reduce")
        collective("DATA", "_all_gather_base")
        collective("default_pg", "all_reduce")
    return program


def _inject(kind: str, rank: Rank, random: Random) -> None:
    if kind in {"behind", "missing"}:
        rank.enqueues_until = rank.enqueued
    elif kind == "unfinished":
        at = next(i for i in range(rank.completed, len(rank.program)) if "all_reduce" in rank.program[i].name)
        rank.shows_until, rank.completes_until = at, at + random.randint(1, 9)
    else:
        later = range(rank.enqueued, len(rank.program))
        at = next(i for i in later if rank.program[i].name in {"nccl:all_reduce", "nccl:_reduce_scatter_base"})
        one = rank.program[at]
        other = random.choice((("nccl:barrier", one.size), (one.name, 512)))
        rank.program[at] = Op(one.group, other[0], one.sequence, size=other[1])


def _run(world: list[Rank], lead: int, random: Random, turns: int | None) -> None:
    """Let ranks enqueue and complete in random order, for a number of turns or until none can continue."""
    members: dict[str, set[int]] = {}
    for number, rank in enumerate(world):
        for one in rank.program:
            members.setdefault(one.group, set()).add(number)
    while turns is None or turns > 0:
        is_moving = False
        for number in random.sample(range(len(world)), len(world)):
            rank = world[number]
            limit = min(rank.completed + lead, rank.enqueues_until, len(rank.program) - (turns is not None) * 60)
            if rank.enqueued < limit:
                rank.enqueued += 1
                is_moving = True
            is_moving = _complete(world, number, members) or is_moving
            turns = None if turns is None else turns - 1
        if not is_moving:
            return


def _complete(world: list[Rank], number: int, members: dict[str, set[int]]) -> bool:
    head = world[number].head
    if head is None:
        return False
    if head.peer is None:
        joined = members[head.group]
        is_complete = all((one := world[each].head) is not None and one.key == head.key for each in joined)
    else:
        joined = {number, head.peer}
        other = world[head.peer].head
        is_complete = other is not None and other.peer == number and other.group == head.group
    if is_complete:
        for each in joined:
            world[each].completed += 1
    return is_complete


def _document(groups: dict[str, tuple[str, list[int]]], number: int, rank: Rank, ring: int) -> dict[str, Any]:
    mine = {name: one for name, one in groups.items() if number in one[1]}
    ids = {name: 3 + at for at, name in enumerate(sorted(mine, key=int))}
    entries = []
    for at in range(max(0, rank.shown - ring), rank.enqueued):
        one = rank.program[at]
        entries.append({
            "record_id": at, "pg_id": ids[one.group], "process_group": (one.group, groups[one.group][0]),
            "collective_seq_id": one.sequence, "p2p_seq_id": one.p2p, "profiling_name": one.name,
            "input_sizes": [[one.size]], "input_dtypes": ["BFloat16"],
            "state": "completed" if at < rank.shown else "scheduled", "retired": at < rank.shown,
            "is_p2p": one.peer is not None,
        })  # fmt: skip

    def last(name: str, end: int) -> int:
        return max((one.sequence or one.p2p for one in rank.program[:end] if one.group == name), default=-1)

    return {
        "version": "2.9",
        "pg_config": {name: {"name": name, "desc": kind, "ranks": str(ranks)} for name, (kind, ranks) in mine.items()},
        "pg_status": {
            str(ids[name]): {
                "last_enqueued_collective": last(name, rank.enqueued), "last_started_collective": -1,
                "last_completed_collective": last(name, rank.shown),
            }
            for name in mine
        },
        "entries": entries,
    }  # fmt: skip
