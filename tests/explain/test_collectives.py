"""Which ranks are named, on real and on generated Flight Recorder dumps.

`gpu_error.json` and `locked_interpreter.json` are the operations and counters of two traces of hangs in
NVIDIA/nvidia-resiliency-ext (Apache-2.0), without the rest of the dumps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultbridge.explain.dumps.collectives import Explained, State, explain
from faultbridge.explain.dumps.dump import Dump, read_dump
from faultbridge.model.errors import Rejected
from tests.explain.traces import KINDS, generate

SEEDS = range(200)


def recorded(name: str) -> list[Dump]:
    """Read a recorded trace in the shape of PyTorch's dumps."""
    trace = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    return [
        dump(
            rank,
            [(*one[:5], json.loads(one[5])) for one in each["pending"]],
            groups={group: trace["groups"][group] for group in each["groups"]},
            status=each["status"],
        )
        for rank, each in enumerate(trace["dumps"])
    ]


def dump(rank: int, operations: Any, *, groups: Any, status: Any = None, suffix: str = "", completed: int = 0) -> Dump:
    """Build the dump of a rank from its operations: id and name of the group, numbers, call, sizes.

    The first `completed` operations are completed, the others are pending.
    """
    entries = [
        {
            "record_id": at, "pg_id": number, "process_group": [group, groups[group][0]], "collective_seq_id": sequence,
            "p2p_seq_id": p2p, "profiling_name": f"nccl:{name}", "input_sizes": sizes, "input_dtypes": ["BFloat16"],
            "state": "completed" if at < completed else "scheduled", "retired": False, "is_p2p": p2p > 0,
        }
        for at, (number, group, sequence, p2p, name, sizes) in enumerate(operations)
    ]  # fmt: skip
    document = {
        "pg_config": {name: {"desc": one[0], "ranks": one[1]} for name, one in groups.items()},
        "pg_status": {
            number: {"last_enqueued_collective": one[0], "last_completed_collective": one[1]}
            for number, one in (status or {}).items()
        },
        "entries": entries,
    }
    return read_dump(f"_dump_{rank}{suffix}", json.dumps(document).encode())


def states(explained: Explained) -> dict[int, State]:
    return {one.rank: one.state for one in explained.findings}


def test_two_ranks_whose_gpu_fails_are_named_in_a_recorded_trace() -> None:
    assert states(explain(recorded("gpu_error"))) == {12: State.UNFINISHED, 14: State.UNFINISHED}


def test_two_ranks_whose_interpreter_is_locked_are_named_in_a_recorded_trace() -> None:
    assert states(explain(recorded("locked_interpreter"))) == {9: State.BEHIND, 14: State.BEHIND}


def test_the_order_of_the_files_does_not_matter() -> None:
    dumps = recorded("gpu_error")
    assert explain(reversed(dumps)) == explain(dumps)


def test_a_finding_names_the_operation_the_file_and_the_waiting_ranks() -> None:
    first = explain(recorded("locked_interpreter")).findings[0]
    assert (first.rank, first.group, first.sequence, first.operation) == (9, "72", 45265, "nccl:all_to_all")
    assert (first.waiting, first.file) == ((8, 10, 11, 12, 13, 15), "_dump_9")


def test_exactly_the_injected_ranks_are_named_in_195_of_200_generated_traces() -> None:
    wrong: list[tuple[int, str, set[int], tuple[int, ...]]] = []
    for seed in SEEDS:
        trace = generate(seed)
        named = explain(read_dump(file, body) for file, body in trace.files.items()).ranks
        if set(named) != trace.injected:
            wrong.append((seed, trace.kind, trace.injected, named))
    assert len(wrong) <= 5, wrong


def test_the_generated_traces_have_every_kind_several_groups_and_one_or_two_ranks() -> None:
    traces = [generate(seed) for seed in range(24)]
    assert {one.kind for one in traces} == set(KINDS)
    assert {len(one.injected) for one in traces} == {1, 2}
    assert all(len(json.loads(body)["pg_config"]) > 1 for body in list(traces[1].files.values()))


WORLD = {"0": ["default_pg", "[0, 1, 2, 3]"]}
REDUCE = (0, "0", 7, 0, "all_reduce", [[16]])


def test_a_rank_without_a_dump_is_named_if_the_others_wait_for_it() -> None:
    found = explain(dump(rank, [REDUCE], groups=WORLD) for rank in (0, 1, 3))
    assert states(found) == {2: State.NO_DUMP}
    assert found.findings[0].file is None


def test_ranks_without_a_dump_are_not_named_if_most_dumps_are_absent() -> None:
    found = explain([dump(0, [REDUCE], groups=WORLD)])
    assert (found.ranks, found.missing, found.are_missing_blamed) == ((), (1, 2, 3), False)


def test_an_operation_that_all_members_started_names_no_rank() -> None:
    found = explain(dump(rank, [REDUCE], groups=WORLD) for rank in range(4))
    assert found.ranks == ()
    assert [(one.group, one.sequence) for one in found.joined] == [("0", 7)]


def test_a_job_that_does_not_wait_names_no_rank() -> None:
    found = explain(dump(rank, [], groups=WORLD) for rank in range(4))
    assert (found.ranks, found.waiting, found.joined) == ((), (), ())


def test_a_call_of_another_size_is_a_mismatch() -> None:
    other = (*REDUCE[:5], [[17]])
    found = explain(dump(rank, [other if rank == 3 else REDUCE], groups=WORLD) for rank in range(4))
    assert states(found) == {3: State.MISMATCHED}


def test_a_rank_that_waits_in_a_send_with_the_same_number_does_not_wait_in_the_collective() -> None:
    sent = (0, "0", 7, 7, "send 2->3", [[16]])
    calls = [REDUCE, REDUCE, sent, (*REDUCE[:5], [[17]])]
    found = explain(dump(rank, [one], groups=WORLD) for rank, one in enumerate(calls))
    (different,) = (one for one in found.findings if one.state is State.MISMATCHED)
    assert (different.rank, different.sequence, different.waiting) == (3, 7, (0, 1))


def test_a_broadcast_that_all_members_started_is_joined_beside_a_receive_with_the_same_number() -> None:
    broadcast, received = (0, "0", 7, 0, "broadcast", [[16]]), (0, "0", 7, 7, "recv 2<-3", [[16]])
    dumps = [dump(rank, [broadcast], groups=WORLD) for rank in (0, 1)]
    dumps += [
        dump(2, [broadcast, received], groups=WORLD, completed=1),
        dump(3, [broadcast], groups=WORLD, completed=1),
    ]
    found = explain(dumps)
    assert states(found) == {3: State.BEHIND}
    assert [(one.sequence, one.pair) for one in found.joined] == [(7, ())]


def test_a_call_that_lost_the_first_vote_is_not_expected_although_other_calls_are_usually_like_it() -> None:
    groups = {"0": ["default_pg", "[0, 1, 2, 3, 4]"]}
    barrier, other = (0, "0", 7, 0, "barrier", [[16]]), (*REDUCE[:5], [[17]])
    usual = [(*one[:2], number, *one[3:]) for number, one in ((8, barrier), (9, barrier), (10, REDUCE))]
    calls = [[REDUCE, *usual], [REDUCE], [other], [other], [barrier]]
    found = explain(dump(rank, pending, groups=groups) for rank, pending in enumerate(calls))
    assert states(found) == dict.fromkeys((2, 3, 4), State.MISMATCHED)


def test_an_uneven_all_to_all_is_no_mismatch() -> None:
    found = explain(dump(rank, [(0, "0", 7, 0, "all_to_all", [[rank]])], groups=WORLD) for rank in range(4))
    assert found.ranks == ()


def test_ranks_that_wait_in_a_circle_are_named_as_out_of_order() -> None:
    groups = {"1": ["A", "[0, 1]"], "2": ["B", "[0, 1]"]}
    dumps = [
        dump(0, [(0, "1", 5, 0, "all_reduce", [])], groups=groups),
        dump(1, [(1, "2", 5, 0, "all_reduce", [])], groups=groups),
    ]
    assert states(explain(dumps)) == {0: State.ORDER, 1: State.ORDER}


def test_two_ranks_that_both_receive_before_they_send_are_out_of_order() -> None:
    groups = {"4": ["PIPELINE", "[0, 1]"]}
    dumps = [
        dump(0, [(0, "4", 1, 1, "recv 0<-1", []), (0, "4", 1, 2, "send 0->1", [])], groups=groups),
        dump(1, [(0, "4", 1, 1, "recv 1<-0", []), (0, "4", 1, 2, "send 1->0", [])], groups=groups),
    ]
    assert states(explain(dumps)) == {0: State.ORDER, 1: State.ORDER}


def test_a_receive_waits_for_its_peer() -> None:
    groups = {"4": ["PIPELINE", "[0, 3]"], **WORLD}
    dumps = [dump(0, [(0, "4", 1, 9, "recv 0<-1", [[1]])], groups=groups)]
    dumps += [dump(rank, [], groups=groups) for rank in (1, 2, 3)]
    assert states(explain(dumps)) == {3: State.BEHIND}


def test_a_broadcast_that_its_root_completed_early_is_not_unfinished() -> None:
    broadcast = (0, "0", 7, 0, "broadcast", [[16]])
    dumps = [dump(0, [], groups=WORLD, status={"0": [7, 7]})]
    dumps += [dump(rank, [broadcast], groups=WORLD, status={"0": [7, 6]}) for rank in (1, 2)]
    dumps.append(dump(3, [], groups=WORLD, status={"0": [6, 6]}))
    assert states(explain(dumps)) == {3: State.BEHIND}


def test_two_dumps_of_one_rank_are_rejected() -> None:
    dumps = [dump(0, [REDUCE], groups=WORLD), dump(0, [REDUCE], groups=WORLD, suffix=".json")]
    with pytest.raises(Rejected, match="two dumps of rank 0"):
        explain(dumps)
