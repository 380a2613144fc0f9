"""The console on a year of 12,500 nodes and 1,000,000 entries in a real Chromium; a smaller year runs always."""

from __future__ import annotations

import pytest

browser = pytest.importorskip("tests.console.browser")
pytestmark = [
    pytest.mark.skipif(not (browser.CHROMIUM and browser.DRIVER), reason="chromium and chromedriver are not installed"),
    pytest.mark.filterwarnings("default"),
]


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_every_view_of_the_whole_year_is_fast_accessible_and_without_errors() -> None:
    from tests.bench.console_year import run
    from tests.console.year import ENTRIES, NODES

    _, wrong = run(NODES, ENTRIES)
    assert wrong == []


@pytest.mark.servers
def test_every_view_of_a_smaller_year_renders_without_errors() -> None:
    from tests.console.year import Year

    year = Year(1_200, 12_000)
    with browser.served(year.world) as address, browser.chromium() as driver:
        for path in year.paths.values():
            assert browser.faults_of_view(driver, address, path) == []
