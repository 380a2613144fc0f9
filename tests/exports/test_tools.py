"""An assistant reads the record through the tools, and cannot change anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from faultbridge.cli.commands.records.servers import ApiClient
from faultbridge.decode.data import code_document
from tests.api.builders import START, case_of
from tests.api.gateway import Gateway
from tests.exports.builders import break_a_gpu


def client_of(api: ApiClient) -> Any:
    """Return a client of the SDK, whose import takes a second in each process that collects tests."""
    from mcp import Client

    from faultbridge.cli.export.tools import Tools, build_server

    return Client(build_server(Tools(api, code_document), "1"))


@pytest.fixture
def call(api: ApiClient) -> Any:
    """Calls a tool with the client of the SDK."""

    def called(tool: str, **arguments: Any) -> Any:
        async def ask() -> Any:
            async with client_of(api) as client:
                return await client.call_tool(tool, arguments)

        return asyncio.run(ask())

    return called


def test_every_tool_says_that_it_only_reads(api: ApiClient) -> None:
    async def listed() -> Any:
        async with client_of(api) as client:
            return (await client.list_tools()).tools

    tools = asyncio.run(listed())
    assert {one.name for one in tools} == {
        "why_was_a_node_replaced",
        "what_is_bad_now",
        "explain_job",
        "search_timeline",
        "look_up_a_code",
    }
    for tool in tools:
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.description.strip().endswith(".")


def test_the_tools_change_nothing(gateway: Gateway, call: Any) -> None:
    break_a_gpu(gateway.world)
    before = list(gateway.world.ports.table.items())
    call("what_is_bad_now")
    call("why_was_a_node_replaced", cluster="train-a", node="n-1")
    call("search_timeline", cluster="train-a")
    assert list(gateway.world.ports.table.items()) == before


def test_a_replacement_is_explained_by_the_case_and_its_entries(gateway: Gateway, call: Any) -> None:
    break_a_gpu(gateway.world)
    answer = call("why_was_a_node_replaced", cluster="train-a", node="n-1").structured_content
    assert answer["case"]["case_id"] == case_of(gateway)
    assert answer["case"]["code"] == "xid.79"
    assert {one["metadata"]["case_id"] for one in answer["entries"]} == {case_of(gateway)}
    assert all(one["metadata"]["event_id"] for one in answer["entries"])
    unhurt = call("why_was_a_node_replaced", cluster="train-a", node="n-2").structured_content
    assert (unhurt["case"], unhurt["entries"]) == (None, [])


def test_only_nodes_with_a_problem_are_bad_now(gateway: Gateway, call: Any) -> None:
    break_a_gpu(gateway.world)
    (state,) = call("what_is_bad_now").structured_content["clusters"]
    assert [one["node"] for one in state["nodes"]] == ["n-1"]
    assert [one["case_id"] for one in state["cases"]] == [case_of(gateway)]


def test_the_timeline_is_searched_in_pages(gateway: Gateway, call: Any) -> None:
    break_a_gpu(gateway.world)
    found = call("search_timeline", cluster="train-a", node="n-1", code="xid.79").structured_content
    assert found["entries"][0]["metadata"]["event_type"] == "Node Fault Detected"
    first = call("search_timeline", cluster="train-a", limit=1).structured_content
    assert (len(first["entries"]), first["more"]) == (1, True)


def test_a_job_is_explained_by_its_document_and_entries(gateway: Gateway, call: Any) -> None:
    gateway.post("/clusters/train-a/jobs", START)
    answer = call("explain_job", cluster="train-a", job="88213").structured_content
    assert answer["job"]["job_id"] == "88213"
    assert {one["metadata"]["event_type"] for one in answer["entries"]} == {"Job Change"}


def test_a_code_is_explained_by_the_catalog_also_if_it_is_unknown(call: Any) -> None:
    assert call("look_up_a_code", code="XID.79").structured_content["failure_mode"] == "gpu.lost"
    assert call("look_up_a_code", code="xid.99999").structured_content["action"] == "contact_support"


def test_an_unknown_name_is_an_error_with_a_reason(call: Any) -> None:
    refused = call("why_was_a_node_replaced", cluster="train-a", node="n-9")
    assert refused.is_error
    assert "HTTP 404" in refused.content[0].text
