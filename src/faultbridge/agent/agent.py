"""The agent itself: one loop that never waits for anything, and one thread that may wait for the network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from faultbridge.agent import limits
from faultbridge.agent.clock import AgentClock
from faultbridge.agent.drops import Drops
from faultbridge.agent.followers import Follower
from faultbridge.agent.looks import Looks
from faultbridge.agent.outbox import Outbox
from faultbridge.agent.outgoing import Packer
from faultbridge.agent.sender import Sender

PACE = 0.25
"""Seconds between two turns; the kernel's ring and the pipes hold what comes meanwhile."""

SENDER_PACE = 1.0
FAREWELL_SECONDS = 5.0


class TooHeavy(Exception):  # noqa: N818 - names the situation
    """The agent takes more memory than it may; it ends, and its supervisor starts it with none of it."""


@dataclass(slots=True)
class Agent:
    """Everything that runs on a node, put together from its parts; `weigh` returns the resident bytes."""

    clock: AgentClock
    followers: Sequence[Follower]
    looks: Looks
    drops: Drops
    outbox: Outbox
    packer: Packer
    sender: Sender
    governor: limits.Governor
    cpu: Callable[[], float] = limits.cpu_seconds
    weigh: Callable[[], int] = limits.resident_bytes
    stopping: threading.Event = field(default_factory=threading.Event)
    broken: Exception | None = None

    def run(self) -> None:
        """Run until told to stop; raises TooHeavy when it weighs more than it may, and what broke the sender."""
        thread = threading.Thread(target=self._keep_sending, daemon=True, name="sender")
        thread.start()
        try:
            while not self.stopping.is_set():
                self.turn()
                if self.weigh() > limits.MEMORY_BYTES:
                    raise TooHeavy(f"more than {limits.MEMORY_BYTES} bytes are resident")
                self.clock.sleep(PACE + self.governor.pause(self.clock.monotonic(), self.cpu()))
        finally:
            self.stopping.set()
            self.finish()
            thread.join(FAREWELL_SECONDS)
        if self.broken is not None:
            raise self.broken

    def turn(self) -> None:
        """Do one round: read the logs, go on with the looks, take what was dropped. It never waits."""
        for follower in self.followers:
            follower.turn()
        for source, body in self.looks.turn():
            self._offer(source, body)
        for file, source, body in self.drops.waiting():
            record = self.packer.pack(source, body, self.clock.now())
            if record is None or self.outbox.keep(record):
                self.drops.taken(file)

    def finish(self) -> None:
        """Keep what was read and let go of what is open."""
        self.looks.stop()
        for follower in self.followers:
            follower.flush()
            follower.log.close()

    def once(self, seconds: float) -> None:
        """Read and look once, and send, within about so many seconds; for whoever calls it again and again."""
        ends = self.clock.monotonic() + seconds
        while self.clock.monotonic() < ends and (self.looks.pending() or self.clock.monotonic() < ends - seconds + 1):
            self.turn()
            self.clock.sleep(PACE)
        self.finish()
        while self.clock.monotonic() < ends and self.sender.turn():
            pass

    def _offer(self, source: str, body: bytes) -> None:
        record = self.packer.pack(source, body, self.clock.now())
        if record is not None:
            self.outbox.offer(record)

    def _keep_sending(self) -> None:
        # A sender that is gone must take the rest with it: a supervisor starts both, nobody starts one.
        try:
            self._send()
        except Exception as error:  # noqa: BLE001 - raised again by `run`, in the thread that the supervisor sees
            self.broken = error
            self.stopping.set()

    def _send(self) -> None:
        while not self.stopping.is_set():
            while self.sender.turn() and not self.stopping.is_set():
                pass
            self.outbox.more.wait(SENDER_PACE)
            self.outbox.more.clear()
            # What comes within the next moment shares the call.
            self.stopping.wait(PACE)
        self.sender.turn()
