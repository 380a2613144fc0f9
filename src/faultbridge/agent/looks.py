"""Looks: what the agent asks the node from time to time, one question after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from faultbridge.agent import reports
from faultbridge.agent.children import Ended, How, Running
from faultbridge.agent.clock import AgentClock

SHARE = 0.005
"""Of one core, on average, for each look: one that costs more is taken less often."""

RARELY = 10
REMIND_SECONDS = 600.0
ABSENT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Look:
    """One question: how it is asked, how often and with what patience in seconds, what its answer begins with.

    `family` is the first part of the codes under which its own failures are reported; `heading` goes before an answer
    that does not say what it is about, and `also` names a second source that reads the same answer. `sentences` are
    what a program says instead of an answer; its source reads them as well.
    """

    name: str
    source: str
    begin: Callable[[], Running | Ended]
    every: int
    patience: int = 30
    starts: bytes = b""
    family: str = "agent"
    heading: bytes = b""
    also: str | None = None
    sentences: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _Standing:
    due: float
    failing: How | None = None
    told_at: float = float("-inf")
    stuck: Running | None = None
    answered: bool = False


@dataclass(slots=True)
class Looks:
    """Asks the questions in turn, never two at once; `cpu` returns the processor time used so far, in seconds."""

    looks: Sequence[Look]
    clock: AgentClock
    cpu: Callable[[], float]
    _standing: dict[str, _Standing] = field(default_factory=dict)
    _asking: Look | None = None
    _running: Running | None = None
    _asked_at: float = 0.0
    _cpu_before: float = 0.0

    def __post_init__(self) -> None:
        """Spread the first round over a few seconds."""
        now = self.clock.monotonic()
        active = [look for look in self.looks if look.every > 0]
        self._standing = {look.name: _Standing(now + 2 * place) for place, look in enumerate(active)}

    @property
    def busy(self) -> bool:
        """Tell whether a look is under way."""
        return self._running is not None

    def pending(self) -> bool:
        """Tell whether a look was not taken yet."""
        return not all(one.answered for one in self._standing.values())

    def summary(self) -> dict[str, str]:
        """Return what fails now, by the name of the look."""
        return {name: one.failing.value for name, one in self._standing.items() if one.failing is not None}

    def turn(self) -> Iterator[tuple[str, bytes]]:
        """Go on with the look under way or begin the next that is due; yields (source, body) of what came of it."""
        if self._running is None:
            look = self._next()
            if look is not None:
                yield from self._begin(look)
            return
        assert self._asking is not None  # noqa: S101 - set together with `_running`
        ended = self._running.poll()
        if ended is None and self.clock.monotonic() - self._asked_at > self._asking.patience:
            standing = self._standing[self._asking.name]
            standing.stuck = None if self._running.kill() else self._running
            ended = Ended(How.HUNG, complaint="it is still there" if standing.stuck else "")
        if ended is not None:
            yield from self._end(self._asking, ended)

    def stop(self) -> None:
        """End the look under way by force."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def _next(self) -> Look | None:
        now = self.clock.monotonic()
        return next(
            (look for look in self.looks if look.name in self._standing and self._standing[look.name].due <= now), None
        )

    def _begin(self, look: Look) -> Iterator[tuple[str, bytes]]:
        standing = self._standing[look.name]
        if standing.stuck is not None:
            if not standing.stuck.kill():  # one that cannot even die is not asked twice
                yield from self._end(look, Ended(How.HUNG, complaint="it is still there"))
                return
            standing.stuck = None
        self._asked_at, self._cpu_before = self.clock.monotonic(), self.cpu()
        begun = look.begin()
        if isinstance(begun, Ended):
            yield from self._end(look, begun)
        else:
            self._asking, self._running = look, begun

    def _end(self, look: Look, ended: Ended) -> Iterator[tuple[str, bytes]]:
        self._running = None
        standing, now = self._standing[look.name], self.clock.monotonic()
        standing.answered = True
        pause = max(float(look.every), min((self.cpu() - self._cpu_before) / SHARE, float(look.every * RARELY)))
        standing.due = now + (ABSENT_SECONDS if ended.how is How.ABSENT else pause)
        if ended.how is How.ABSENT:
            return
        said = ended.output.lstrip().startswith(look.starts) or any(one in ended.output for one in look.sentences)
        readable = said and ended.how in {How.DONE, How.FAILED}
        if readable and ended.output.strip():
            yield look.source, look.heading + ended.output
            if look.also is not None:
                yield look.also, ended.output
        failed = None if readable or (ended.how is How.DONE and not look.starts) else _worst(ended.how)
        yield from self._tell(look, standing, failed, ended)

    def _tell(self, look: Look, standing: _Standing, failed: How | None, ended: Ended) -> Iterator[tuple[str, bytes]]:
        at, now = self.clock.now(), self.clock.monotonic()
        if standing.failing is not None and failed is not standing.failing:
            yield reports.SOURCE, reports.well_again(look.name, look.family, standing.failing, at=at)
        changed, standing.failing = failed is not standing.failing, failed
        if failed is not None and (changed or now - standing.told_at >= REMIND_SECONDS):
            standing.told_at = now
            told = Ended(failed, ended.output, ended.complaint)
            yield reports.SOURCE, reports.trouble(look.name, look.family, told, at=at, seconds=look.patience)


def _worst(how: How) -> How:
    return How.FAILED if how is How.DONE else how
