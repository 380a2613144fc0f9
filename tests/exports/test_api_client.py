"""The client reads all pages, signs its requests, and turns statuses into errors that say what to do."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.clients import Clients, signed_headers
from faultbridge.cli.commands.records.servers import ApiClient
from faultbridge.model.errors import Misconfigured, Rejected, Transient
from tests.api.gateway import Gateway


def test_a_list_is_read_page_by_page(gateway: Gateway, api: ApiClient) -> None:
    for number in range(3, 6):
        gateway.world.register_node(f"n-{number}")
    assert [one["node"] for one in api.items("clusters", "train-a", "nodes", limit=2)] == [
        "n-1",
        "n-2",
        "n-3",
        "n-4",
        "n-5",
    ]


def test_a_refusal_has_the_reason_of_the_api(api: ApiClient) -> None:
    with pytest.raises(Rejected, match="unknown cluster"):
        api.get("clusters", "train-x")


def test_a_name_cannot_leave_its_place_in_the_path(api: ApiClient) -> None:
    with pytest.raises(Rejected, match="HTTP 4"):
        api.get("clusters", "../clusters/train-a?x=", "nodes")


def test_an_api_that_does_not_answer_is_tried_again_later() -> None:
    with pytest.raises(Transient, match="cannot be read"):
        ApiClient("http://127.0.0.1:1", lambda _url: {}).get("clusters")


def test_a_request_is_signed_for_its_region_and_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    headers = signed_headers(Clients(region="us-west-2"), "https://x.execute-api.us-west-2.amazonaws.com/clusters")
    assert "/us-west-2/execute-api/aws4_request" in headers["Authorization"]
    assert "secret" not in str(headers)


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(Misconfigured, match="no AWS credentials"):
        signed_headers(Clients(region="us-west-2"), "https://x.example/clusters")
