"""Evidence: formats a found policy as a file with results in comments, and draws tried policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.lab.plots import Point, points
from tests.lab.tuning.search import Tried, best_tradeoffs


def with_evidence(found: Tried, judged: Sequence[Mapping[str, Any]], searched_on: str, judged_on: str) -> str:
    """Return the policy file of a policy that the search found, as text with the evidence in comments.

    `judged` has the results of this policy and of others on the parts of the trace that the search did not use.
    `judged_on` describes these parts, and `searched_on` the part that the search used.
    """
    lines = [
        "Found by `faultbridge policy tune`: a result of simulation with the assumptions in docs/default-policy.md.",
        f"Searched on {searched_on}: {found.lost_gpu_hours:,.0f} GPU-hours lost,"
        f" {found.needless_evictions:.1f} needless evictions.",
        f"Judged on {judged_on}, which the search did not see:",
        *(_line(one) for one in judged),
    ]
    return "".join(f"# {line}\n" for line in lines) + found.numbers.text()


def tradeoff_plot(tried: Sequence[Tried]) -> str:
    """Return a chart of all tried policies as SVG: needless evictions against lost GPU-hours.

    Only the Pareto-optimal policies (`best_tradeoffs`) have a number, and their color differs from that of the others.
    """
    best = best_tradeoffs(tried)
    found = [
        Point(str(number) if one in best else "", one.lost_gpu_hours, one.needless_evictions, marked=one in best)
        for number, one in enumerate(tried, 1)
    ]
    return points("Policies that were tried, by number", ("Lost GPU-hours", "Needless evictions"), found)


def _line(document: Mapping[str, Any]) -> str:
    margin = document["margins"].get("lost_gpu_hours", 0.0)
    text = f"  {document['system']}: {document['lost_gpu_hours']:,.0f} +- {margin:,.0f} GPU-hours lost"
    saving = document.get("saving")
    if saving is None:
        return text
    words = "meets" if saving["meets_goal"] else "does not meet"
    share = f"{abs(saving['share']):.0%} {'fewer' if saving['share'] >= 0 else 'more'}"
    return f"{text}, {share} than {saving['against']}; {words} the goal"
