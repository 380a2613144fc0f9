"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from datetime import timedelta

from tests.pipeline.correlate.life_cycle import LIMITS, PER_RACK

RACK = range(PER_RACK)

QUIET = LIMITS.quiet // timedelta(minutes=1)
