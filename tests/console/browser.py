"""A real Chromium that opens pages of a console served on loopback, and reports what went wrong in it."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from selenium import webdriver

from faultbridge.cli.commands.records.servers import LoopbackServer
from tests.waiting import BUSY_FACTOR
from tests.world import World

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
AXE = Path(__file__).parent / "axe" / "axe-core-4.14.1.min.js.gz"
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""The digest of axe-core 4.14.1 as npm publishes it: MPL-2.0, unchanged, used only in tests."""

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
_RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations.map(
  one => `${one.impact} ${one.id}: ${one.nodes.map(node => node.html.slice(0, 160)).slice(0, 3).join(' | ')}`)));
"""


@contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Start a browser with an empty profile that records its requests and its messages."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_page_load_timeout(30 * BUSY_FACTOR)
    driver.set_script_timeout(30 * BUSY_FACTOR)
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def served(world: World) -> Iterator[str]:
    """Serve the console of a world on loopback; yields its address."""
    server = LoopbackServer(0, world.app)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def show(driver: webdriver.Chrome, width: int, scheme: str, media: str = "") -> None:
    """Set the width of the page, the color scheme of the system and, if given, the medium."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def disconnect(driver: webdriver.Chrome) -> None:
    """Switch the network of the browser off, and forget the requests and messages so far."""
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    driver.get("about:blank")  # ends the page before, which asks for changes every second
    requests(driver)
    messages(driver)


def connect(driver: webdriver.Chrome) -> None:
    """Switch the network of the browser on again."""
    online = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", online)


def faults_of_view(driver: webdriver.Chrome, address: str, path: str) -> list[str]:
    """Open a view at both ends of the widths and in both color schemes; return everything that is wrong with it."""
    found = []
    for width, scheme in ((1920, "light"), (360, "dark"), (360, "light"), (1920, "dark")):
        show(driver, width, scheme)
        requests(driver)
        driver.get(f"{address}{path}")
        at = f"{path} at {width} px, {scheme}"
        if driver.execute_script("return document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{at}: wider than the screen")
        if not driver.execute_script("return document.querySelector('h1')"):
            found.append(f"{at}: not rendered")
        found += [f"{at}: {one}" for one in (*violations(driver), *messages(driver))]
        found += [f"{at}: requests {one}" for one in requests(driver) if not one.startswith(address)]
    return found


def load_seconds(driver: webdriver.Chrome) -> float:
    """Return how long the last page took in the browser: from the start of the navigation until it was loaded."""
    script = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
    return float(driver.execute_script(script)) / 1000


def messages(driver: webdriver.Chrome) -> list[str]:
    """Return the warnings and errors that the browser wrote since the last call."""
    return [one["message"] for one in driver.get_log("browser") if one["level"] in {"WARNING", "SEVERE"}]


def requests(driver: webdriver.Chrome) -> list[str]:
    """Return the addresses that the browser requested since the last call."""
    events: list[dict[str, Any]] = [json.loads(one["message"])["message"] for one in driver.get_log("performance")]
    return [one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"]


def violations(driver: webdriver.Chrome) -> list[str]:
    """Return the serious and critical findings of axe-core, which runs outside the policy of the page."""
    source = gzip.decompress(AXE.read_bytes())
    assert hashlib.sha256(source).hexdigest() == AXE_SHA256
    driver.execute_script(source.decode())
    found: list[str] = driver.execute_async_script(_RUN_AXE)
    return [one for one in found if one.startswith(("serious", "critical"))]
