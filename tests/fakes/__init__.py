"""Moved: the fakes are `faultbridge.simulation.fakes`. This name goes away as soon as nobody uses it."""

from faultbridge.simulation.fakes import *  # noqa: F403 - a name for the time of the move
