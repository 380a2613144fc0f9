"""Plans of a run: a circumstance of its seed adds kinds of actions, and changes no other action."""

from __future__ import annotations

import pytest

from tests.sim.environment.action_plan import draw_plan


@pytest.mark.parametrize(
    ("circumstance", "kinds", "least", "most"),
    [
        ("racks", {"links_lost", "links_lost_during_repair", "many_own_faults"}, 0.05, 0.2),
        ("growing", {"growth", "growth_during_pause", "growth_during_import", "growth_during_incident"}, 0.05, 0.2),
        ("volumes", {"volume_failure", "volume_stuck", "volume_outage", "volume_tag_lost"}, 0.03, 0.15),
        ("owned", {"group_update", "rival_repair"}, 0.03, 0.15),
        ("reserving", {"reservation_change", "spares_used_up"}, 0.02, 0.12),
    ],
)
def test_a_circumstance_adds_each_of_its_kinds_and_changes_no_other_action(
    circumstance: str, kinds: set[str], least: float, most: float
) -> None:
    without, with_it = draw_plan(1, 400, 60.0), draw_plan(1, 400, 60.0, **{circumstance: True})
    changed = [after.kind for before, after in zip(without, with_it, strict=True) if before != after]
    assert set(changed) == kinds
    assert least < len(changed) / 400 < most
