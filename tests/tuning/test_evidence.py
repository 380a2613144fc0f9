"""The evidence states how each policy was judged against the best baseline."""

from __future__ import annotations

import pytest

from tests.lab.tuning.evidence import with_evidence
from tests.lab.tuning.search import Tried
from tests.lab.tuning.search_space import Numbers


@pytest.mark.parametrize(("share", "words"), [(0.25, "25% fewer than other"), (-2.75, "275% more than other")])
def test_a_saving_and_a_further_loss_have_different_words(share: float, words: str) -> None:
    saving = {"against": "other", "share": share, "margin": 0.01, "meets_goal": share > 0}
    judged = [{"system": "mine", "lost_gpu_hours": 10.0, "margins": {}, "saving": saving}]
    text = with_evidence(Tried(Numbers(), 9.0, 1.0), judged, "part 1", "part 2")
    assert words in text
    assert ("does not meet" in text) is (share < 0)
