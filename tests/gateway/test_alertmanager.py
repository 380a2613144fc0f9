"""A real Alertmanager posts to the intake function with the configuration of the how-to guide."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from faultbridge.decode import registry
from faultbridge.model.faults import Fault
from faultbridge.model.storage.wire.decode_message import decode_message
from tests.builders import KEY
from tests.gateway.requests import SECRET
from tests.gateway.server import Gateway
from tests.waiting import BUSY_FACTOR, eventually
from tests.world import World

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "alertmanager.md"
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
TOKEN_FILE = "/etc/alertmanager/faultbridge.token"
URL = "https://API-ID.execute-api.REGION.amazonaws.com"


def yaml_blocks() -> list[str]:
    blocks = re.findall(r"^( *)```yaml\n(.*?)^\1```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return ["".join(line.removeprefix(indent) for line in body.splitlines(keepends=True)) for indent, body in blocks]


def configuration(gateway: Gateway, token: Path, proof: str) -> str:
    """Return the configuration of the guide, with the address and the token file of this test."""
    whole, basic = yaml_blocks()
    if proof == "basic":
        start = whole.index("http_config:")
        indent = " " * (start - whole.rindex("\n", 0, start) - 1)
        whole = whole[:start] + basic.replace("\n", f"\n{indent}")
    assert URL in whole
    assert TOKEN_FILE in whole
    return whole.replace(URL, gateway.url).replace(TOKEN_FILE, str(token)).rstrip() + "\n"


def post(port: int, path: str, body: object) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5 * BUSY_FACTOR)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    world = World()
    server = Gateway(world)
    yield server
    server.close()


@pytest.mark.servers
@pytest.mark.skipif(ALERTMANAGER is None, reason="Alertmanager is not installed")
@pytest.mark.parametrize("proof", ["bearer", "basic"])
def test_a_real_alertmanager_with_the_configuration_of_the_guide_delivers_an_alert(
    gateway: Gateway, tmp_path: Path, proof: str
) -> None:
    known = {"cluster": KEY.cluster, "sources": ["alertmanager"], "secrets": [SECRET], "proof": proof}
    gateway.world.ports.senders = {"prometheus": known}
    token, config, port = tmp_path / "token", tmp_path / "alertmanager.yml", free_port()
    token.write_text(f"{SECRET}\n")
    config.write_text(configuration(gateway, token, proof))
    arguments = [f"--config.file={config}", f"--storage.path={tmp_path}", f"--web.listen-address=127.0.0.1:{port}"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [str(ALERTMANAGER), *arguments, "--cluster.listen-address="], stdout=log, stderr=log
        ) as server,
    ):
        try:
            labels = {"alertname": "GpuXid", "node": KEY.node, "xid": "79", "gpu": "0"}
            alert = {"labels": labels, "startsAt": datetime.now(UTC).isoformat()}
            eventually(lambda: post(port, "/api/v2/alerts", [alert]), describe=(tmp_path / "log").read_text)
            messages: Any = gateway.world.ports.queue.messages
            eventually(lambda: bool(messages), describe=(tmp_path / "log").read_text)
        finally:
            server.terminate()
    (message,) = [decode_message(one.body) for one in gateway.world.ports.queue.receive()]
    assert (message.cluster, message.source) == (KEY.cluster, "alertmanager")
    (fault,) = registry.decode("alertmanager", message.body)
    assert isinstance(fault, Fault)
    assert (fault.code, fault.node) == ("xid.79", KEY.node)
