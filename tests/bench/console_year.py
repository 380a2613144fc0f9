"""The console on a year of a large cluster in a real Chromium: time of each view in the browser, requests, cost.

    python -m tests.bench.console_year [--nodes 12500] [--entries 1000000] [--shots FOLDER]
    python -m tests.bench.console_year --console http://127.0.0.1:4566/console

The second form measures a console that runs, such as that of the embedded stack after the demo. Both exit with 1 if a
view has an error, a foreign request, a serious barrier, takes longer or costs more than the limit.

The whole year needs 3.5 GB of memory and some minutes, so it is not part of `make bench`; `make nightly` runs it as a
test.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from faultbridge.model.values import replace
from tests.bench.report import Row, report
from tests.console import browser
from tests.console.all_views import EveryView
from tests.console.cost import SECONDS, ViewCost, cost_of
from tests.console.year import ENTRIES, NODES, Year

LIMITS = {"demo": 1.0, "year": 3.0}
"""Seconds of browser time of the first view, on the small history and on the year."""

MAX_DOLLARS = 5.0
"""Cost of any view in a month, loaded once a minute by ten viewers."""

WIDTHS, SCHEMES = (360, 1280, 1920), ("light", "dark")


def measure(driver: Any, site: Any, name: str, shots: Path | None = None) -> tuple[list[Row], list[str]]:
    """Open every view of a site; return its figures, and everything that is wrong."""
    year = site if isinstance(site, Year) else None
    with browser.served(site.world) as address:
        return measure_views(driver, address, site.paths, name, shots, year)


def measure_views(
    driver: Any, address: str, paths: Mapping[str, str], name: str, shots: Path | None = None, year: Year | None = None
) -> tuple[list[Row], list[str]]:
    """Open views of a console at an address; return their figures, and everything that is wrong."""
    rows: list[Row] = []
    wrong: list[str] = []
    browser.show(driver, 1280, "light")
    for view, path in paths.items():
        driver.get(f"{address}{path}")
        seconds = browser.load_seconds(driver)
        cost = cost_of(year, path) if year else None
        rows.append({"history": name, "view": view, "browser seconds": round(seconds, 2), **_cost(cost)})
        if cost is not None and (dollars := _fixed(cost).dollars) >= MAX_DOLLARS:
            wrong.append(f"{name}: {view} costs {dollars:.2f} USD a month; limit: {MAX_DOLLARS}")
        if view == "fleet" and seconds > LIMITS[name]:
            wrong.append(f"{name}: the first view takes {seconds:.1f} s; limit: {LIMITS[name]} s")
    for path in paths.values():
        wrong += browser.faults_of_view(driver, address, path)
    if shots is not None:
        take(driver, address, paths, shots / name)
    return rows, wrong


def paths_of(console: str) -> dict[str, str]:
    """Return the path of one page of each kind that a running console has: of the first cluster with a case."""

    def read(path: str) -> Any:
        with urlopen(f"{console}{path}?format=json") as answer:  # noqa: S310 - an address of the caller
            return json.load(answer)

    for cluster in (f"/clusters/{one['cluster']}" for one in read("")["clusters"]):
        found = read(cluster)
        case = next(iter([*found["live_cases"], *found["closed_cases"]]), None)
        if case:
            node, case_id = f"{cluster}/nodes/{quote(case['node'])}", f"{cluster}/cases/{case['case_id']}"
            paths = {"fleet": "", "cluster": cluster, "node": node, "case": case_id}
            for job in found["jobs"][:1]:
                paths["job"] = f"{cluster}/jobs?id={quote(job['job_id'], safe='')}"
            for incident in found["incidents"][:1]:
                paths["incident"] = f"{cluster}/incidents/{incident['incident_id']}"
            return paths
    raise LookupError(f"no case in {console}")


def _fixed(cost: ViewCost) -> ViewCost:
    """Return a cost with the duration of an invocation that docs/console.md assumes."""
    return replace(cost, seconds=SECONDS)


def _cost(cost: ViewCost | None) -> Row:
    if cost is None:
        return {"requests": "-", "read units": "-", "bytes": "-", "processor ms": "-", "USD a month": "-"}
    return {
        "requests": cost.requests,
        "read units": cost.units,
        "bytes": cost.sent,
        "processor ms": round(cost.seconds * 1000),
        "USD a month": round(_fixed(cost).dollars, 2),
    }


def take(driver: Any, address: str, paths: Mapping[str, str], folder: Path) -> None:
    """Write a screenshot of every view at every width and in both color schemes."""
    folder.mkdir(parents=True, exist_ok=True)
    for view, path in paths.items():
        for width in WIDTHS:
            for scheme in SCHEMES:
                browser.show(driver, width, scheme)
                driver.get(f"{address}{path}")
                height = min(driver.execute_script("return document.documentElement.scrollHeight"), 3000)
                clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                options = {"clip": clip, "captureBeyondViewport": True}
                shot = driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
                (folder / f"{view}-{width}-{scheme}.png").write_bytes(base64.b64decode(shot))


def run(nodes: int, entries: int, shots: Path | None = None) -> tuple[list[Row], list[str]]:
    """Measure the small history and the year."""
    with browser.chromium() as driver:
        rows, wrong = measure(driver, EveryView(), "demo", shots)
        more, others = measure(driver, Year(nodes, entries), "year", shots)
    return [*rows, *more], [*wrong, *others]


def main() -> None:
    """Print the figures; exit with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    parser.add_argument("--shots", type=Path)
    parser.add_argument("--console")
    options = parser.parse_args()
    if options.console:
        with browser.chromium() as driver:
            paths = paths_of(options.console)
            rows, wrong = measure_views(driver, options.console, paths, "demo", options.shots)
    else:
        rows, wrong = run(options.nodes, options.entries, options.shots)
    report("console_year", rows)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
