"""Screenshots for the README and a how-to: `make screenshots` writes docs/assets/console-*.png and case-form.png.

The cluster is a history on fakes: one node was replaced after an approval, two cases wait, and a rack has an incident.
"""

from __future__ import annotations

import base64
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

from selenium import webdriver

from faultbridge.model.enums import CaseStatus, RepairAction
from faultbridge.model.policy import Match, Rule
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.console.pages import Pages
from faultbridge.serve.entrypoints.console import wire_console
from tests.casefile.builders import case_files, unpack
from tests.console.browser import CHROMIUM, DRIVER, chromium, served, show
from tests.presentation.histories import facts_of
from tests.scenarios.incidents.incidents import NETWORK_WAITS, lose_links, world_of
from tests.scenarios.world import CLUSTER, World

FOLDER = Path(__file__).parents[2] / "docs" / "assets"
ASK = Rule("ask-before-replace", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
WIDTH = 1360
FORM_WIDTH, FORM_HEIGHT = 1000, 1980
REPAIRED_SEED = 8
"""A simulated history with a GPU whose node was replaced."""


def history() -> World:
    """Return the history that the screenshots show."""
    world = world_of(rules=(ASK, NETWORK_WAITS), launch_delay=timedelta(minutes=6))
    world.advance_minutes(20)
    world.fault_and_react(9)
    world.fault(9, "net.link_down", source="link-state")
    world.advance_minutes(12)
    world.orders.approve(world.case(9).id, OperatorOrder("ada", "job has ended"))
    world.until(world.case_is(CaseStatus.RESOLVED, 9))
    world.advance_minutes(15)
    world.fault_and_react(30, minutes=8)
    lose_links(world)
    world.advance_minutes(12)
    return world


def take(folder: Path) -> list[Path]:
    """Write a screenshot of a case and of a cluster; returns the files."""
    world = history()
    pages = {
        "console-case": (f"/clusters/{CLUSTER}/cases/{world.case(9).id}", 1290),
        "console-cluster": (f"/clusters/{CLUSTER}", 1120),
    }
    installation = SimpleNamespace(services={wire_console: Pages(facts_of(world))})
    shots = []
    with served(SimpleNamespace(app=installation)) as address, chromium() as driver:  # type: ignore[arg-type]
        show(driver, WIDTH, "light")
        for name, (path, height) in pages.items():
            driver.get(f"{address}{path}")
            shots.append(shoot(driver, folder / f"{name}.png", WIDTH, height))
        with TemporaryDirectory() as temporary:
            form = Path(temporary, "form.html")
            form.write_bytes(max((unpack(one)["form.html"] for one in case_files(REPAIRED_SEED)), key=len))
            show(driver, FORM_WIDTH, "light")
            driver.get(form.as_uri())
            shots.append(shoot(driver, folder / "case-form.png", FORM_WIDTH, FORM_HEIGHT))
    return shots


def shoot(driver: webdriver.Chrome, file: Path, width: int, height: int) -> Path:
    """Write the top of the page that the browser shows; returns the file."""
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})["data"]
    file.write_bytes(base64.b64decode(shot))
    return file


if __name__ == "__main__":
    if not (CHROMIUM and DRIVER):
        sys.exit("chromium and chromedriver are not installed")
    for written in take(FOLDER):
        sys.stdout.write(f"{written}\n")
