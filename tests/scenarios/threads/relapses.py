"""Builders of relapses that several test modules use."""

from __future__ import annotations

from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule

RESET = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)
