"""The local console: only requests that name this host get a page, so that DNS rebinding reads nothing."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from faultbridge.serve.wiring.services import wire_facts

browser = pytest.importorskip("tests.console.browser")
from tests.console.sites import Site  # noqa: E402 - after the skip


def get(address: str, host: str | None) -> tuple[int, str]:
    """Return the status and the text of a request that names a host."""
    port = int(address.rsplit(":", 1)[1].split("/", maxsplit=1)[0])
    connection = HTTPConnection("127.0.0.1", port)
    connection.putrequest("GET", "/console", skip_host=True)
    if host is not None:
        connection.putheader("Host", host.replace("PORT", str(port)))
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_request_under_the_name_of_another_site_gets_no_page() -> None:
    with browser.served(Site().world) as address:
        for own in ("127.0.0.1:PORT", "localhost:PORT"):
            assert get(address, own)[0] == 200
        for other in (
            "evil.example",
            "evil.example:PORT",
            "127.0.0.1",
            "localhost:1",
            "127.0.0.1:PORT.evil.example",
            None,
        ):
            code, text = get(address, other)
            assert (code, "train-a" in text) == (403, False), other


def test_an_order_of_another_site_is_refused_and_one_of_the_local_console_is_that_of_its_person() -> None:
    site = Site()
    case = site.fault()
    with browser.served(site.world) as address:
        port = int(address.rsplit(":", 1)[1].split("/")[0])
        connection = HTTPConnection("127.0.0.1", port)
        path = f"/console/clusters/train-a/orders/ack?target={case}"
        connection.request("GET", path)
        form = connection.getresponse().read().decode()
        (token,) = re.findall(r'name="token" value="([^"]+)"', form)
        assert "recorded with your name: loopback" in form
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Host": "evil.example", "Sec-Fetch-Site": "same-origin"}, 403),
            ({"Sec-Fetch-Site": "same-origin"}, 303),
        ):
            connection.request("POST", path, urlencode({"token": token}), headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status, headers
        connection.close()
    assert wire_facts(site.world.app).case("train-a", case).case.owner == "loopback"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS"])
def test_the_local_console_answers_only_get_and_post(method: str) -> None:
    with browser.served(Site().world) as address:
        connection = HTTPConnection("127.0.0.1", int(address.rsplit(":", 1)[1].split("/")[0]))
        connection.request(method, "/console")
        assert connection.getresponse().status == 501
        connection.close()
