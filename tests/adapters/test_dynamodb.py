"""The table on DynamoDB: responses that no emulator gives, and the expressions of writes and conditions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from botocore.stub import ANY
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.aws.dynamodb import (
    READ_AT_ONCE,
    THROTTLE_RETRY,
    DynamoTable,
    Placeholders,
    ThrottledTransaction,
    condition_expression,
    from_token,
    from_typed,
    from_typed_item,
    range_expression,
    request_token,
    sort_key_bounds,
    to_token,
    to_typed,
    to_typed_item,
    transaction_part,
    write_arguments,
)
from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from faultbridge.model.retry import Retry
from faultbridge.model.storage.writes import (
    TIMELINE,
    Absent,
    AnyOf,
    Below,
    Check,
    Delete,
    Equals,
    Item,
    Key,
    Packed,
    Present,
    Put,
    Update,
    Value,
    Write,
)
from faultbridge.model.values import replace
from faultbridge.record.ports.table import UnprocessedKeys
from tests.adapters.stubs import answering, stubbed

KEYS = [Key("P", "1"), Key("P", "2")]
TYPED = [{"pk": {"S": "P"}, "sk": {"S": "1"}}, {"pk": {"S": "P"}, "sk": {"S": "2"}}]


class TestConsistentReads:
    """Decisions need consistent reads: a stale one causes a second case, a repeated page or a second claim."""

    def test_get_is_consistent(self) -> None:
        with stubbed("dynamodb") as (clients, stub):
            stub.add_response("get_item", {}, {"TableName": "t", "Key": TYPED[0], "ConsistentRead": True})
            assert DynamoTable(clients, "t").get(KEYS[0]) is None

    def test_every_call_of_a_batch_read_is_consistent(self) -> None:
        keys = [Key("P", str(number)) for number in range(READ_AT_ONCE + 1)]
        typed = [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in keys]
        with stubbed("dynamodb") as (clients, stub):
            for part in (typed[:READ_AT_ONCE], typed[READ_AT_ONCE:]):
                wanted = {"RequestItems": {"t": {"Keys": part, "ConsistentRead": True}}}
                stub.add_response("batch_get_item", {"Responses": {}}, wanted)
            assert DynamoTable(clients, "t").get_many(keys) == {}

    @pytest.mark.parametrize("bounds", [{}, {"prefix": "E#"}, {"after": "E#1"}, {"limit": 3, "newest_first": True}])
    def test_a_query_of_the_table_is_consistent(self, bounds: dict[str, Any]) -> None:
        with stubbed("dynamodb") as (clients, stub):
            calls = recorded_parameters(clients.dynamodb, "Query")
            stub.add_response("query", {"Items": []})
            DynamoTable(clients, "t").query("P", **bounds)
        assert [call.get("ConsistentRead") for call in calls] == [True]

    def test_a_query_of_an_index_is_not_because_no_index_can_be(self) -> None:
        with stubbed("dynamodb") as (clients, stub):
            calls = recorded_parameters(clients.dynamodb, "Query")
            stub.add_response("query", {"Items": []})
            DynamoTable(clients, "t").query("P", index=TIMELINE)
        assert [("ConsistentRead" in call, call["IndexName"]) for call in calls] == [(False, "gsi1")]


def recorded_parameters(client: Any, operation: str) -> list[dict[str, Any]]:
    """Return the list to which the parameters of each call of an operation are added."""
    calls: list[dict[str, Any]] = []
    # Named after the list, so that a second test replaces no handler.
    client.meta.events.register_first(
        f"provide-client-params.dynamodb.{operation}",
        lambda params, **_: calls.append(dict(params)),
        unique_id=id(calls),
    )
    return calls


class TestBatchReads:
    def test_unprocessed_keys_are_read_again_with_growing_pauses(self) -> None:
        pauses: list[float] = []
        with stubbed("dynamodb") as (clients, stub):
            left = {"t": {"Keys": [TYPED[1]], "ConsistentRead": True}}
            stub.add_response(
                "batch_get_item", {"Responses": {"t": [TYPED[0]]}, "UnprocessedKeys": left}, {"RequestItems": ANY}
            )
            stub.add_response("batch_get_item", {"Responses": {}, "UnprocessedKeys": left}, {"RequestItems": left})
            stub.add_response("batch_get_item", {"Responses": {"t": [TYPED[1]]}}, {"RequestItems": left})
            found = DynamoTable(
                clients, "t", retry=replace(THROTTLE_RETRY, sleep=pauses.append, jitter=lambda: 1.0)
            ).get_many(KEYS)
        assert set(found) == set(KEYS)
        assert pauses == [0.05, 0.1]

    def test_keys_that_stay_unprocessed_are_a_transient_error(self) -> None:
        pauses: list[float] = []
        left = {"t": {"Keys": TYPED, "ConsistentRead": True}}
        with stubbed("dynamodb") as (clients, stub):
            for _ in range(THROTTLE_RETRY.attempts):
                stub.add_response("batch_get_item", {"Responses": {}, "UnprocessedKeys": left})
            with pytest.raises(Transient, match="left some keys unprocessed"):
                DynamoTable(
                    clients, "t", retry=replace(THROTTLE_RETRY, sleep=pauses.append, jitter=lambda: 0.5)
                ).get_many(KEYS)
        assert len(pauses) == THROTTLE_RETRY.attempts - 1
        assert sum(pauses) < 10

    def test_an_incomplete_read_states_what_was_read_and_what_was_not(self) -> None:
        keys = [Key("P", str(number)) for number in range(2 * READ_AT_ONCE)]
        typed = [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in keys]
        left = {"t": {"Keys": [typed[1]], "ConsistentRead": True}}
        with stubbed("dynamodb") as (clients, stub):
            stub.add_response("batch_get_item", {"Responses": {"t": [typed[0]]}, "UnprocessedKeys": left})
            stub.add_response("batch_get_item", {"Responses": {}, "UnprocessedKeys": left}, {"RequestItems": left})
            with pytest.raises(UnprocessedKeys) as raised:
                DynamoTable(clients, "t", retry=Retry(2, sleep=lambda _: None)).get_many(keys)
        assert set(raised.value.found) == {keys[0]}
        assert raised.value.unread == {keys[1], *keys[READ_AT_ONCE:]}


def canceled(*codes: str) -> bytes:
    reasons = [{"Code": code, "Message": "m"} for code in codes]
    kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    return json.dumps({"__type": kind, "Message": "canceled", "CancellationReasons": reasons}).encode()


def throttled_then(stub: Any, times: int) -> None:
    for _ in range(times):
        stub.add_client_error(
            "transact_write_items",
            "TransactionCanceledException",
            modeled_fields={
                "CancellationReasons": [{"Code": "None"}, {"Code": "ThrottlingError", "Message": "hot key"}]
            },
        )


class TestCanceledTransactions:
    def test_a_throttled_transaction_is_repeated_with_growing_pauses(self) -> None:
        pauses: list[float] = []
        with stubbed("dynamodb") as (clients, stub):
            throttled_then(stub, 2)
            stub.add_response("transact_write_items", {})
            retry = replace(THROTTLE_RETRY, sleep=pauses.append, jitter=lambda: 1.0)
            DynamoTable(clients, "t", retry=retry).transact([Put({"pk": "P", "sk": "1"})])
        assert pauses == [0.05, 0.1]

    def test_a_transaction_that_stays_throttled_is_a_transient_error(self) -> None:
        pauses: list[float] = []
        with stubbed("dynamodb") as (clients, stub):
            throttled_then(stub, THROTTLE_RETRY.attempts)
            retry = replace(THROTTLE_RETRY, sleep=pauses.append, jitter=lambda: 0.5)
            with pytest.raises(Transient, match="hot key"):
                DynamoTable(clients, "t", retry=retry).transact([Put({"pk": "P", "sk": "1"})])
        assert sum(pauses) < 10

    @pytest.mark.parametrize(
        ("codes", "kind"),
        [
            (["None", "ConditionalCheckFailed"], Conflict),
            (["TransactionConflict"], Conflict),
            (["ThrottlingError", "None"], ThrottledTransaction),
            (["ProvisionedThroughputExceeded"], ThrottledTransaction),
            (["ThrottlingError", "ConditionalCheckFailed"], Conflict),
            (["ValidationError", "ConditionalCheckFailed"], Misconfigured),
            (["ItemCollectionSizeLimitExceeded"], Misconfigured),
            (["SomethingNew"], Transient),
        ],
    )
    def test_the_reason_with_the_highest_precedence_decides(
        self, codes: list[str], kind: type[FaultbridgeError]
    ) -> None:
        with answering("dynamodb", 400, canceled(*codes)) as clients, pytest.raises(FaultbridgeError) as raised:
            DynamoTable(clients, "t", retry=Retry(1)).transact([Put({"pk": "P", "sk": "1"})])
        assert type(raised.value) is kind
        assert all(code in str(raised.value) for code in codes if code != "None")

    def test_a_server_error_is_transient_after_bounded_attempts(self) -> None:
        requests: list[Any] = []
        with answering("dynamodb", 500, b"", requests) as clients, pytest.raises(Transient):
            DynamoTable(clients, "t").transact([Put({"pk": "P", "sk": "1"})])
        assert len(requests) == 4

    def test_every_attempt_sends_the_same_token(self) -> None:
        requests: list[Any] = []
        with answering("dynamodb", 500, b"", requests) as clients, pytest.raises(Transient):
            DynamoTable(clients, "t").transact([Put({"pk": "P", "sk": "1"})], "token")
        assert {json.loads(request.body)["ClientRequestToken"] for request in requests} == {"token"}


class TestTokens:
    def test_a_short_token_is_used_as_it_is_and_a_long_one_is_hashed(self) -> None:
        assert request_token("x" * 36) == "x" * 36
        assert len(request_token("x" * 37)) == 36
        assert request_token("x" * 37) != request_token("x" * 38)

    def test_a_page_token_is_opaque_and_can_be_decoded(self) -> None:
        last = {"pk": {"S": "P#ä"}, "sk": {"S": "1"}}
        token = to_token(last)
        assert token is not None
        assert "P#" not in token
        assert from_token(token) == last
        assert to_token({}) is None

    @pytest.mark.parametrize("token", ["", "x", "????", "WzFd"])
    def test_an_invalid_page_token_is_an_error(self, token: str) -> None:
        with pytest.raises(ValueError, match="token"):
            from_token(token)


values: st.SearchStrategy[Value] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_every_value_is_read_back_unchanged(value: Value) -> None:
    assert from_typed(json.loads(json.dumps(to_typed(value)))) == value


@given(st.binary())
def test_packed_bytes_are_read_from_an_answer_and_from_a_record_of_the_stream(content: bytes) -> None:
    typed = to_typed(Packed(content))
    of_stream = {"B": base64.b64encode(typed["B"]).decode()}
    assert from_typed(typed) == from_typed(of_stream) == Packed(content)
    assert isinstance(from_typed(typed), Packed)


@pytest.mark.parametrize("typed", [{"BS": [b"x"]}, {"SS": ["a"]}, {"N": "1.5"}])
def test_an_unexpected_dynamodb_type_is_an_error(typed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"type|literal"):
        from_typed_item({"a": typed})


KEY = Key("P", "S")
TYPED_KEY = {"pk": {"S": "P"}, "sk": {"S": "S"}}


def test_conditions_use_placeholders_for_all_names_and_values() -> None:
    placeholders = Placeholders()
    expression = condition_expression(
        AnyOf((Absent(), Equals("name", "x"), AnyOf((Below("n", 1), Present())))), placeholders
    )
    assert expression == "attribute_not_exists(#0) OR #1 = :0 OR #2 < :1 OR attribute_exists(#0)"
    assert placeholders.arguments() == {
        "ExpressionAttributeNames": {"#0": "pk", "#1": "name", "#2": "n"},
        "ExpressionAttributeValues": {":0": {"S": "x"}, ":1": {"N": "1"}},
    }


def test_an_update_has_each_clause_once() -> None:
    update = Update(KEY, set={("a",): 1, ("h", "c.d"): "x"}, remove=(("b",), ("h", "e")), add={"v": 1}, when=Present())
    assert write_arguments(update) == {
        "Key": TYPED_KEY,
        "UpdateExpression": "SET #0 = :0, #1.#2 = :1 REMOVE #3, #1.#4 ADD #5 :2",
        "ConditionExpression": "attribute_exists(#6)",
        "ExpressionAttributeNames": {
            "#0": "a", "#1": "h", "#2": "c.d", "#3": "b", "#4": "e", "#5": "v", "#6": "pk",
        },
        "ExpressionAttributeValues": {":0": {"N": "1"}, ":1": {"S": "x"}, ":2": {"N": "1"}},
    }  # fmt: skip


def test_a_write_without_a_condition_has_no_expression() -> None:
    assert write_arguments(Put({"pk": "P", "sk": "S"})) == {"Item": TYPED_KEY}
    assert write_arguments(Delete(KEY)) == {"Key": TYPED_KEY}


def test_each_kind_of_write_has_a_name_in_a_transaction() -> None:
    writes: list[Write] = [Put({"pk": "P", "sk": "S"}), Delete(KEY), Update(KEY, add={"n": 1}), Check(KEY, Present())]
    assert [transaction_part(write) for write in writes] == ["Put", "Delete", "Update", "ConditionCheck"]


@pytest.mark.parametrize(
    ("prefix", "after", "up_to", "bounds"),
    [
        ("", None, None, None),
        ("E#", None, None, ("E#", "E#\U0010ffff")),
        ("", "a", None, ("a\0", "\U0010ffff")),
        ("", None, "b", ("", "b")),
        ("E#", "E#5", "E#7", ("E#5\0", "E#7")),
        ("E#", "A", "Z", ("E#", "E#\U0010ffff")),
    ],
)
def test_all_bounds_limit_the_sort_key_together(
    prefix: str, after: str | None, up_to: str | None, bounds: tuple[str, str] | None
) -> None:
    assert sort_key_bounds(prefix, after, up_to) == bounds


def test_a_range_never_contains_an_empty_key() -> None:
    placeholders = Placeholders()
    assert range_expression(("pk", "P"), "sk", ("", "b"), placeholders) == "#0 = :0 AND #1 <= :1"


def test_the_body_of_an_entry_is_compressed_in_the_table_only_and_comes_back_unchanged() -> None:
    body = '{"data":{"text":"GPU has fallen off the bus.\\u00e9"},"metadata":{"event_type":"Node Note Recorded"}}'
    item: Item = {"pk": "NODE#a#b", "sk": "ENTRY#0001#000000000001", "body": body}
    typed = to_typed_item(item)
    assert len(typed["body"]["B"]) < len(body)
    of_stream = typed | {"body": {"B": base64.b64encode(typed["body"]["B"]).decode()}}
    assert from_typed_item(typed) == from_typed_item(of_stream) == item


def test_the_body_of_a_later_release_is_no_empty_body() -> None:
    with pytest.raises(ValueError, match="dictionary 9 of a later version"):
        from_typed_item({"body": {"B": b"\x09abc"}})
