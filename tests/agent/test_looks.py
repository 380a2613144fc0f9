"""Looks at a node whose programs misbehave: hang, crash, flood, talk nonsense, or are not there."""

from __future__ import annotations

import json
import time
from functools import partial

import pytest

from faultbridge.agent import limits, reports
from faultbridge.agent.children import MAX_OUTPUT, Child, Ended, How, start
from faultbridge.agent.looks import REMIND_SECONDS, Look, Looks
from faultbridge.agent.questions import SMI_SENTENCES, port_counters, scrape
from faultbridge.data import catalogue
from faultbridge.decoders import registry
from tests.agent.fakes import NOON, MovedClock, script


def ended(child: Child, seconds: float = 10) -> Ended:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = child.poll()
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not end")


def test_a_programs_output_is_read_to_its_end(tmp_path):
    found = ended(Child([script(tmp_path, "p", "i=0; while [ $i -lt 3000 ]; do echo line$i; i=$((i+1)); done")]))
    assert found.how is How.DONE
    assert found.output.decode().splitlines()[-1] == "line2999"


def test_ten_megabytes_are_cut_off_and_the_program_ended(tmp_path):
    child = Child([script(tmp_path, "p", "head -c 10000000 /dev/zero | tr '\\0' 'x'; sleep 60")])
    found = ended(child)
    assert found.how is How.OVERSIZED
    assert len(found.output) < MAX_OUTPUT
    assert len(child._output) <= MAX_OUTPUT + 1
    assert child._process.poll() is not None


def test_a_crash_is_told_from_a_failure(tmp_path):
    assert ended(Child([script(tmp_path, "p", "kill -SEGV $$")])).how is How.CRASHED
    failed = ended(Child([script(tmp_path, "q", "echo sorry >&2; exit 15")]))
    assert (failed.how, failed.complaint) == (How.FAILED, "sorry")


def test_a_hanging_program_is_ended_with_all_that_it_started(tmp_path):
    child = Child([script(tmp_path, "p", "sleep 300 & sleep 300")])
    assert child.poll() is None
    assert child.kill()


def test_a_program_that_leaves_a_child_with_its_pipe_has_ended(tmp_path):
    assert ended(Child([script(tmp_path, "p", "sleep 300 & echo said")])).output == b"said\n"


def test_a_program_that_is_not_there_has_ended_as_absent(tmp_path):
    assert start([str(tmp_path / "nvidia-smi")]) == Ended(How.ABSENT)


class Told:
    """A look whose ends are told beforehand; None is one that never ends."""

    def __init__(self, *ends: Ended | None, dies: bool = True) -> None:
        self.ends = list(ends)
        self.dies = dies
        self.begun = 0

    def begin(self) -> Told:
        self.begun += 1
        self.end = self.ends.pop(0) if self.ends else Ended(How.DONE, b"<ok/>")
        return self

    def poll(self) -> Ended | None:
        return self.end

    def kill(self) -> bool:
        return self.dies


WELL = Ended(How.DONE, b"<nvidia_smi_log/>")


def looking(told: Told, *, minutes: float, cpu=lambda: 0.0, sentences=()) -> list[tuple[str, bytes]]:
    clock = MovedClock()
    asked = Look("nvidia-smi", "nvidia-smi-xml", told.begin, 60, 30, b"<", "smi", sentences=sentences)
    looks = Looks([asked], clock, cpu)
    found = []
    for _ in range(int(minutes * 60 * 4)):
        found += looks.turn()
        clock.pass_(0.25)
    return found


def codes(found: list[tuple[str, bytes]]) -> list[str]:
    read = [json.loads(body) for source, body in found if source == "faultbridge"]
    return [f"{one['kind']} {one['code']}" for one in read]


def test_a_look_that_hangs_is_itself_a_fault_and_a_clear_follows_when_it_answers():
    assert codes(looking(Told(WELL, None, None, WELL), minutes=6)) == ["fault smi.hang", "clear smi.hang"]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (Ended(How.CRASHED, b"<half"), "smi.crash"),
        (Ended(How.FAILED, b"Unable to determine the device handle"), "smi.failed"),
        (Ended(How.DONE, b"nothing that anybody knows"), "smi.failed"),
        (Ended(How.OVERSIZED, b"xxxx"), "smi.oversize"),
    ],
)
def test_a_look_that_ends_badly_is_a_fault_and_its_output_no_record(bad, code):
    found = looking(Told(bad, WELL), minutes=2.5)
    assert codes(found)[:2] == [f"fault {code}", f"clear {code}"]
    assert next(body for source, body in found if source == "nvidia-smi-xml") == WELL.output


def test_an_answer_that_reads_well_counts_whatever_the_exit_code_says():
    found = looking(Told(Ended(How.FAILED, b"<nvidia_smi_log/>")), minutes=0.5)
    assert found == [("nvidia-smi-xml", b"<nvidia_smi_log/>")]


def test_what_cannot_even_be_killed_is_not_started_again_and_is_told_now_and_then():
    told = Told(None, dies=False)
    found = looking(told, minutes=35)
    assert told.begun == 1
    assert 2 <= len(codes(found)) <= 1 + 35 * 60 / REMIND_SECONDS


def test_a_look_that_costs_much_is_taken_less_often():
    cheap, dear = Told(), Told()
    looking(cheap, minutes=20)
    used = iter(range(10**6))
    looking(dear, minutes=20, cpu=lambda: next(used) * 1.0)
    assert cheap.begun >= 19
    assert dear.begun <= 7


def test_a_missing_program_is_no_fault():
    assert looking(Told(*[Ended(How.ABSENT)] * 9), minutes=20) == []


def test_looks_are_never_taken_two_at_once():
    clock, first, second = MovedClock(), Told(None), Told()
    both = [Look("a", "a", first.begin, 60), Look("b", "b", second.begin, 60)]
    looks = Looks(both, clock, lambda: 0.0)
    for _ in range(40):
        list(looks.turn())
        clock.pass_(0.25)
    assert (first.begun, second.begun) == (1, 0)


def test_the_counters_of_ports_are_read_with_their_paths(tmp_path):
    port = tmp_path / "mlx5_0" / "ports" / "1"
    (port / "counters").mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    (port / "counters" / "link_downed").write_text("2\n")
    assert port_counters(tmp_path).decode().splitlines() == [
        f"{port}/state: 4: ACTIVE",
        f"{port}/counters/link_downed: 2",
    ]


def test_an_exporter_on_another_machine_is_not_asked():
    with pytest.raises(ValueError, match="not on this machine"):
        scrape("http://169.254.169.254/latest/meta-data/")


def test_the_governor_rests_until_the_share_is_kept():
    governor = limits.Governor(began=0, used_before=0, share=0.01, burst=1)
    assert governor.pause(10, 1.05) == 0
    assert governor.pause(10, 1.12) == pytest.approx(2)
    assert governor.pause(10, 100) == limits.MAX_PAUSE


def test_stepping_back_lowers_this_process(tmp_path):
    program = "import os; from faultbridge.agent import limits; limits.step_back(); print(os.nice(0))"
    import sys

    found = ended(Child([sys.executable, "-c", program]), 20)
    assert int(found.output) == limits.NICENESS


def test_a_real_hang_ends_in_time(tmp_path):
    class Quick(MovedClock):
        def monotonic(self) -> float:
            return time.monotonic()

    hang = Look("nvidia-smi", "x", partial(start, [script(tmp_path, "p", "sleep 300")]), 60, 1, b"<", "smi")
    looks, found = Looks([hang], Quick(), lambda: 0.0), []
    until = time.monotonic() + 5
    while not found and time.monotonic() < until:
        found += looks.turn()
        time.sleep(0.05)
    assert codes(found) == ["fault smi.hang"]


@pytest.mark.parametrize("family", ["smi", "agent"])
@pytest.mark.parametrize("how", [How.HUNG, How.CRASHED, How.FAILED, How.OVERSIZED])
def test_what_the_agent_says_of_a_look_is_what_the_catalogue_says_of_it(family, how):
    told = json.loads(reports.trouble("a look", family, Ended(how), at=NOON, seconds=30))
    row = catalogue().rows[told["code"]]
    assert (told["severity"], told["action"]) == (row.severity.value, row.action.value)
    assert told["code"] != "agent.flood"  # that is a record that names too many faults


@pytest.mark.parametrize("sentence", SMI_SENTENCES)
def test_what_nvidia_smi_says_instead_of_an_answer_is_its_record(sentence):
    said = sentence + b" 0000:C1:00.0: GPU is lost.  Reboot the system to recover this GPU"
    if sentence.endswith(b"Driver"):
        said = sentence + b"/library version mismatch"
    found = looking(Told(Ended(How.FAILED, said), WELL), minutes=2.5, sentences=SMI_SENTENCES)
    assert found[0] == ("nvidia-smi-xml", said)
    assert codes(found) == []
    (snapshot,) = registry.decode("nvidia-smi-xml", said)
    assert snapshot.present
