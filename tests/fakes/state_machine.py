"""Moved to `faultbridge.simulation.fakes.state_machine`."""

from faultbridge.simulation.fakes.state_machine import *  # noqa: F403 - a name for the time of the move
