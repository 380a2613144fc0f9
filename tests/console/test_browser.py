"""The console in a real Chromium: no error, no foreign request, accessible, usable by keyboard, current."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from faultbridge.serve.console import pages
from faultbridge.serve.console.pages import Pages
from faultbridge.serve.console.report import Reports
from faultbridge.serve.entrypoints.console import wire_console
from faultbridge.serve.entrypoints.ingest import wire_ingest
from tests.console.all_views import EveryView
from tests.console.sites import HOSTILE, Site
from tests.presentation.builders import behind_a_breaker
from tests.presentation.histories import facts_of
from tests.waiting import BUSY_FACTOR

browser = pytest.importorskip("tests.console.browser")
pytestmark = [
    pytest.mark.skipif(not (browser.CHROMIUM and browser.DRIVER), reason="chromium and chromedriver are not installed"),
    pytest.mark.filterwarnings("default"),
    pytest.mark.servers,
]

_CONTROLS = """
window.reached = [];
addEventListener('focusin', (event) => window.reached.push(event.target));
return [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
  .filter((one) => one.checkVisibility() && !one.closest('[hidden]')).length;
"""
"""Counts what a keyboard must reach, and records what gets the focus."""


PAPER = 718
"""The width of A4 paper between its margins, in CSS pixels."""

_TEXTS = "'main section, main dd, main pre, main td, main li, main p, .scroll'"
_CUT = "(one) => one.checkVisibility() && one.clientWidth && one.scrollWidth > one.clientWidth + 1"
"""Whether an element holds more than its width shows."""


@dataclass
class Opened:
    """A browser, the address of the console that it shows, and the world behind it."""

    driver: browser.webdriver.Chrome
    address: str
    site: Site
    case: str

    @property
    def paths(self) -> dict[str, str]:
        cluster = f"{self.address}/clusters/train-a"
        return {
            "fleet": self.address,
            "cluster": cluster,
            "node": f"{cluster}/nodes/n-1",
            "case": f"{cluster}/cases/{self.case}",
        }

    def run(self, script: str) -> object:
        return self.driver.execute_script(script)

    def wait_for(self, script: str) -> None:
        """Wait until a script returns true."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 15 * BUSY_FACTOR, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(script)
        )

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    """A console with a case that waits and a fault with a hostile text; open pages ask for changes every second."""
    site = Site()
    case = site.fault()
    wire_ingest(site.world.app).ingest(
        [site.world.message(f"NVRM: Xid (PCI:0000:53:00): 48, {HOSTILE['script']}", node="n-1")]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "SECONDS_LIVE", 1)
        with browser.served(site.world) as address, browser.chromium() as driver:
            yield Opened(driver, address, site, case)


def test_no_view_has_an_error_a_foreign_request_or_a_barrier_at_any_width_and_in_any_colors(opened: Opened) -> None:
    views = EveryView()
    with browser.served(views.world) as address:
        for path in views.paths.values():
            assert browser.faults_of_view(opened.driver, address, path) == []
        # A live page may ask for changes meanwhile; nothing asks another server.
        assert all(one.startswith(address) for one in browser.requests(opened.driver))


def test_no_table_of_any_view_is_scrolled_on_a_telephone(opened: Opened) -> None:
    views = EveryView()
    browser.show(opened.driver, 360, "light")
    with browser.served(views.world) as address:
        for path in views.paths.values():
            opened.driver.get(f"{address}{path}")
            assert opened.run(f"return [...document.querySelectorAll('.scroll, td')].filter({_CUT}).length") == 0, path
            assert opened.run("return [...document.querySelectorAll('td')].every((one) => one.dataset.label)"), path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_printed_whole_in_light_colors_and_without_controls(opened: Opened, scheme: str) -> None:
    views = EveryView()
    with browser.served(views.world) as address:
        for path in views.paths.values():
            browser.show(opened.driver, PAPER, scheme)
            opened.driver.get(f"{address}{path}")
            browser.show(opened.driver, PAPER, scheme, media="print")
            assert opened.run("return document.documentElement.scrollWidth <= innerWidth"), path
            assert opened.run(f"return [...document.querySelectorAll({_TEXTS})].filter({_CUT}).length") == 0, path
            assert opened.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", path
            controls = "[...document.querySelectorAll('button, input, select')].some((one) => one.checkVisibility())"
            assert opened.run(f"return {controls}") is False, path
            printed = opened.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
            assert base64.b64decode(printed).startswith(b"%PDF-"), path
    browser.show(opened.driver, 1920, "light")


def test_every_control_of_every_view_is_reached_by_the_tab_key_and_shows_that_it_is(opened: Opened) -> None:
    from selenium.webdriver.common.keys import Keys

    views = EveryView()
    browser.show(opened.driver, 1920, "light")
    with browser.served(views.world) as address:
        for path in views.paths.values():
            opened.driver.get(f"{address}{path}")
            wanted = opened.run(_CONTROLS)
            assert isinstance(wanted, int)
            for _ in range(wanted):
                opened.press(Keys.TAB)
                assert opened.run("return document.activeElement.matches(':focus-visible')"), path
            assert opened.run("return new Set(window.reached).size") == wanted, path


@pytest.mark.parametrize("width", [360, 1280])
def test_what_ends_a_breaker_is_shown_whole(opened: Opened, width: int) -> None:
    installation = SimpleNamespace(services={wire_console: Pages(facts_of(behind_a_breaker()))})
    browser.show(opened.driver, width, "light")
    with browser.served(SimpleNamespace(app=installation)) as address:
        opened.driver.get(f"{address}/clusters/train-a")
        note = "[...document.querySelectorAll('.facts dd .note')].find((one) => one.textContent.includes('breaker'))"
        assert opened.run(f"return {note}.scrollHeight <= {note}.clientHeight + 1")
        assert browser.violations(opened.driver) == []
    browser.show(opened.driver, 1920, "light")


def test_a_barrier_is_found(opened: Opened) -> None:
    opened.driver.get(opened.address)
    opened.run("document.documentElement.removeAttribute('lang')")
    assert [one.split(":")[0] for one in browser.violations(opened.driver)] == ["serious html-has-lang"]


def test_a_report_opens_from_disk_and_requests_nothing_else(opened: Opened, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(Reports(EveryView().pages.facts).cluster("train-a", (None, None), 300), encoding="utf-8")
    assert file.stat().st_size < 1_000_000
    browser.disconnect(opened.driver)
    opened.driver.get(file.as_uri())
    assert browser.requests(opened.driver) == [file.as_uri()]
    assert browser.messages(opened.driver) == []
    assert browser.violations(opened.driver) == []
    opened.run("document.querySelector('.bar[href]').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    opened.wait_for("return document.querySelector('.entry details[open]') !== null")
    browser.connect(opened.driver)


def test_the_filter_is_reached_by_a_key_and_is_part_of_the_address(opened: Opened) -> None:
    opened.driver.get(opened.paths["node"])
    opened.press("/")
    opened.press(*"status")
    opened.wait_for("return location.search === '?q=status'")
    shown = "return [...document.querySelectorAll('.entry')].filter(one => !one.hidden).length"
    number = opened.run(shown)
    assert isinstance(number, int)
    assert number > 0
    opened.driver.refresh()
    opened.wait_for(f"return document.querySelector('[name=q]').value === 'status' && ({shown[7:]}) === {number}")


def test_a_bar_is_reached_and_opened_by_keyboard(opened: Opened) -> None:
    from selenium.webdriver.common.keys import Keys

    opened.driver.get(opened.paths["case"])
    for _ in range(60):
        opened.press(Keys.TAB)
        if opened.run("return document.activeElement.classList.contains('bar')"):
            break
    assert opened.run("return !document.getElementById('tip').hidden")
    opened.press(Keys.ENTER)
    opened.wait_for("return document.querySelector('.entry details[open]') !== null")
    assert opened.run("return location.hash.startsWith('#e-')")


def test_an_open_page_shows_a_change_and_keeps_what_the_reader_opened(opened: Opened) -> None:
    opened.driver.get(opened.paths["node"])
    opened.run("document.querySelector('.entry details').open = true")
    wire_ingest(opened.site.world.app).ingest(
        [opened.site.world.message("NVRM: Xid (PCI:0000:9a:00): 48, pid=1, name=later", node="n-1")]
    )
    opened.wait_for("return document.body.textContent.includes('0000:9a:00')")
    assert opened.run("return document.querySelectorAll('.entry details[open]').length") == 1
    assert browser.messages(opened.driver) == []


def test_a_hostile_text_is_shown_and_not_run(opened: Opened) -> None:
    opened.driver.get(opened.paths["node"])
    assert opened.run("return document.body.textContent.includes('<script>alert(1)</script>')")
    assert opened.run("return document.querySelectorAll('main script, main img').length") == 0


def test_the_reader_can_choose_the_colors(opened: Opened) -> None:
    browser.show(opened.driver, 1440, "light")
    opened.driver.get(opened.address)
    opened.run("document.getElementById('theme').click()")
    opened.driver.refresh()
    assert opened.run("return document.documentElement.dataset.theme") == "dark"
    opened.run("localStorage.clear()")
