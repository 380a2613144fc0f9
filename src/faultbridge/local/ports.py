"""Choosing the two ports: the usual ones when nobody has them, free ones otherwise."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the two emulators listen, both on loopback only."""

    event_plane: int
    compute_plane: int


USUAL = Ports(event_plane=4566, compute_plane=5000)


def is_free(port: int) -> bool:
    """Whether nobody listens on that port of loopback."""
    with socket.socket() as probe:
        if probe.connect_ex((LOOPBACK, port)) == 0:
            return False
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def choose(*, usual: bool = True) -> Ports:
    """Return the usual port of each emulator if that is wanted and free, else one that the system gives."""
    with ExitStack() as held:
        # Held together until both are known, so that the system cannot give the same one twice.
        spare = [held.enter_context(socket.socket()) for _ in range(2)]
        for one in spare:
            one.bind((LOOPBACK, 0))
        first, second = (int(one.getsockname()[1]) for one in spare)
    return Ports(
        event_plane=USUAL.event_plane if usual and is_free(USUAL.event_plane) else first,
        compute_plane=USUAL.compute_plane if usual and is_free(USUAL.compute_plane) else second,
    )
