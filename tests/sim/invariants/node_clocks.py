"""Checks that a fault is recorded with its true time if the error of its node's clock is known.

Heartbeats show the error of a clock. The fault `host.clock` records the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from faultbridge.model.times import from_text
from tests.sim.invariants.view import Invariant, SystemView

NOTICEABLE = 120.0
"""A clock that is behind by fewer seconds is not reported."""

MAX_ERROR = timedelta(minutes=4)
"""Maximum error of a recorded time: twice `NOTICEABLE`, because a heartbeat and a record may each be this late."""

CLOCK = "host.clock"
FAULTS = frozenset({"Node Fault Detected", "Node Fault Updated", "Node Fault Cleared"})


def _wrong_times(view: SystemView) -> Iterator[str]:
    observed = view.system.clocks.observed
    for state in view.nodes if observed else ():
        behind = 0.0
        for body in view.entries_of(state):
            meta, data = body["metadata"], body["data"]
            if meta["event_type"] not in FAULTS:
                continue
            is_over = meta["event_type"] == "Node Fault Cleared"
            if data["code"] == CLOCK:
                behind = 0.0 if is_over else -float(data["attributes"].get("seconds_off", 0))
            elif not is_over and (true := observed.get(meta["causation_id"])) is not None:
                # A late record of a former instance may count as one of the current instance, with another clock.
                is_own = true.instance_id == (data["incarnation"] or {}).get("instance_id")
                is_known = is_own and (true.ahead > -NOTICEABLE or abs(behind + true.ahead) < NOTICEABLE)
                if is_known and abs(from_text(data["observed_at"]) - true.at) > MAX_ERROR:
                    yield f"{meta['stream']} {meta['sequence']}: {data['observed_at']} instead of {true.at:%d %H:%M:%S}"


INVARIANTS = (Invariant("a fault has its true time if its node's clock is known", _wrong_times),)
