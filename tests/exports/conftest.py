"""A world behind a real HTTP server, and the client that exports use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from faultbridge.cli.commands.records.servers import ApiClient
from tests.api.gateway import Gateway
from tests.world import World

ADDRESS = "http://127.0.0.1:{port}"


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do nothing."""


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(World(nodes=("n-1", "n-2")))


@pytest.fixture
def api(gateway: Gateway) -> Iterator[ApiClient]:
    """A client of the API over a real connection."""
    server = make_server("127.0.0.1", 0, gateway.wsgi, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield ApiClient(ADDRESS.format(port=server.server_port), lambda _url: {})
    server.shutdown()
    server.server_close()
    thread.join()
