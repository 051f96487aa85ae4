"""A pop's path and query become a request, and messages become its answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from queenmq.engine.outcomes import PopOutcome
from queenmq.engine.requests import QUEUE_MODE, PopGrant, PopRequest, Scope, Subscription
from queenmq.errors import InvalidRequest
from queenmq.server.routes.hot.pop import encode_answer, parse_pop
from queenmq.settings import Settings

SETTINGS = Settings(default_batch_size=7, default_timeout_ms=1_234, max_batch_size=100)


def parse(path: str, query: str = "", *, settings: Settings = SETTINGS) -> PopRequest:
    raw_path = f"/api/v1/pop{path}".encode()
    return parse_pop(raw_path, query.encode(), settings=settings)


def query(text: str) -> PopRequest:
    return parse("/queue/orders", text)


class TestPath:
    def test_a_queue(self) -> None:
        assert parse("/queue/orders").scope == Scope(queue="orders")

    def test_a_partition(self) -> None:
        assert parse("/queue/orders/partition/p-1").scope == Scope("orders", "p-1")

    @pytest.mark.parametrize(
        ("path", "scope"),
        [
            ("/queue/a%20b", Scope("a b")),
            ("/queue/a%2Fb", Scope("a/b")),
            ("/queue/a/b", Scope("a/b")),
            ("/queue/a+b", Scope("a+b")),
            ("/queue/caf%C3%A9", Scope("café")),
            ("/queue/100%25", Scope("100%")),
            ("/queue/%F0%9F%90%9D", Scope("🐝")),
            ("/queue/a/partition/b/c", Scope("a", "b/c")),
            ("/queue/a/partition/b%2Fpartition%2Fc", Scope("a", "b/partition/c")),
            ("/queue/a%2Fpartition%2Fb", Scope("a/partition/b")),
            ("/queue//orders", Scope("/orders")),
        ],
    )
    def test_names_are_decoded(self, path: str, scope: Scope) -> None:
        assert parse(path).scope == scope

    def test_the_first_partition_word_wins(self) -> None:
        scope = parse("/queue/a/partition/b/partition/c").scope
        assert scope == Scope("a", "b/partition/c")

    @pytest.mark.parametrize("path", ["", "/"])
    def test_without_a_queue_namespace_and_task_say_where_to_look(self, path: str) -> None:
        assert parse(path, "namespace=shop&task=ship").scope == Scope(None, None, "shop", "ship")
        assert parse(path, "task=ship").scope == Scope(task="ship")
        assert parse(path, "namespace=shop&task=").scope == Scope(namespace="shop")

    def test_nothing_to_look_at_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="namespace or task is required"):
            parse("", "batch=1")

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("/queue/", "queue must not be empty"),
            ("/queue/a/partition/", "partition must not be empty"),
            ("/queue/" + "q" * 256, "256 characters"),
            ("/queue/a/partition/" + "p" * 256, "256 characters"),
            ("/queue/a%00b", "NUL"),
            ("/queue/%FF", "not valid UTF-8"),
        ],
    )
    def test_a_name_that_cannot_be_one_is_refused(self, path: str, text: str) -> None:
        with pytest.raises(InvalidRequest, match=text):
            parse(path)

    def test_raw_bytes_that_are_not_utf8_are_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="not valid UTF-8"):
            parse_pop(b"/api/v1/pop/queue/\xff", b"", settings=SETTINGS)


class TestNumbers:
    @pytest.mark.parametrize(
        "text", ["", "batch=", "batch=ten", "batch=1.5", "batch=0x10", "other=3"]
    )
    def test_a_batch_that_is_no_number_counts_as_not_given(self, text: str) -> None:
        assert query(text).batch == SETTINGS.default_batch_size

    def test_numbers_are_read(self) -> None:
        request = query("batch=10&partitions=3&wait=true&timeout=500")
        assert (request.batch, request.partitions, request.wait_ms) == (10, 3, 500)

    @pytest.mark.parametrize("text", ["partitions=many", "partitions="])
    def test_partitions_fall_back_to_one(self, text: str) -> None:
        assert query(text).partitions == 1

    def test_timeout_falls_back_to_the_default(self) -> None:
        assert query("wait=true&timeout=soon").wait_ms == SETTINGS.default_timeout_ms

    @pytest.mark.parametrize(
        ("text", "field"),
        [
            ("batch=0", "batch 0"),
            ("batch=-1", "batch -1"),
            ("batch=101", "batch 101"),
            ("partitions=0", "partitions 0"),
            ("partitions=257", "partitions 257"),
            ("timeout=-1", "timeout -1"),
            ("timeout=600001", "timeout 600001"),
        ],
    )
    def test_a_number_out_of_range_is_refused_with_its_value(self, text: str, field: str) -> None:
        with pytest.raises(InvalidRequest, match=f"^{field} is out of range; use "):
            query(text)

    def test_a_number_of_thousands_of_digits_is_no_number(self) -> None:
        assert query("batch=" + "9" * 10_000).batch == SETTINGS.default_batch_size

    def test_one_partition_by_name_is_one_partition(self) -> None:
        assert parse("/queue/a/partition/b", "partitions=5").partitions == 1

    def test_the_first_of_two_values_counts(self) -> None:
        assert query("batch=2&batch=3").batch == 2

    def test_a_parameter_is_found_by_its_whole_name(self) -> None:
        assert query("subbatch=3&batchsize=4").batch == SETTINGS.default_batch_size


class TestBooleans:
    @pytest.mark.parametrize("text", ["true", "1"])
    def test_true(self, text: str) -> None:
        request = query(f"autoAck={text}&wait={text}")
        assert request.is_auto_ack
        assert request.wait_ms == SETTINGS.default_timeout_ms

    @pytest.mark.parametrize("text", ["", "false", "0", "True", "TRUE", "yes", "on", "2", "true "])
    def test_anything_else_is_false(self, text: str) -> None:
        request = query(f"autoAck={text}&wait={text}")
        assert not request.is_auto_ack
        assert request.wait_ms is None


class TestConsumerGroup:
    @pytest.mark.parametrize("text", ["", "consumerGroup="])
    def test_none_is_the_default_group(self, text: str) -> None:
        assert query(text).consumer_group == QUEUE_MODE

    @pytest.mark.parametrize(
        ("text", "group"),
        [
            ("audit", "audit"),
            ("two+words", "two words"),
            ("two%20words", "two words"),
            ("a%2Bb", "a+b"),
            ("a%26b%3Dc", "a&b=c"),
            ("a=b", "a=b"),
            ("caf%C3%A9", "café"),
        ],
    )
    def test_its_name_is_decoded(self, text: str, group: str) -> None:
        assert query(f"consumerGroup={text}").consumer_group == group

    @pytest.mark.parametrize("text", ["%00", "g" * 256])
    def test_a_name_that_cannot_be_one_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidRequest, match="consumerGroup"):
            query(f"consumerGroup={text}")

    def test_escaped_bytes_that_are_not_utf8_are_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="'consumerGroup' is not valid UTF-8"):
            query("consumerGroup=%ff")


class TestSubscription:
    def test_the_default_group_has_none(self) -> None:
        assert query("subscriptionMode=new&subscriptionFrom=now").subscription is None

    @pytest.mark.parametrize("mode", ["new", "new-only"])
    def test_new_starts_now(self, mode: str) -> None:
        found = query(f"consumerGroup=g&subscriptionMode={mode}").subscription
        assert found == Subscription(None)

    @pytest.mark.parametrize("mode", ["", "all", "from_beginning", "NEW"])
    def test_other_words_start_at_the_oldest_message(self, mode: str) -> None:
        assert query(f"consumerGroup=g&subscriptionMode={mode}").subscription is None

    def test_from_now_starts_now(self) -> None:
        assert query("consumerGroup=g&subscriptionFrom=now").subscription == Subscription(None)

    @pytest.mark.parametrize(
        "text",
        [
            "2030-01-31T12:00:00Z",
            "2030-01-31T12:00:00",
            "2030-01-31T12:00:00.000Z",
            "2030-01-31T14:00:00%2B02:00",
        ],
    )
    def test_from_a_time_starts_there(self, text: str) -> None:
        found = query(f"consumerGroup=g&subscriptionFrom={text}").subscription
        assert found == Subscription(datetime(2030, 1, 31, 12, tzinfo=UTC))

    def test_from_beats_mode(self) -> None:
        text = "consumerGroup=g&subscriptionMode=new&subscriptionFrom=2030-01-31T12:00:00Z"
        assert query(text).subscription != Subscription(None)

    def test_a_time_that_is_none_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="subscriptionFrom 'yesterday' is not a time"):
            query("consumerGroup=g&subscriptionFrom=yesterday")

    def test_the_default_mode_is_a_setting(self) -> None:
        settings = Settings(default_subscription_mode="new")
        assert parse("/queue/q", "consumerGroup=g", settings=settings).subscription is not None
        text = "consumerGroup=g&subscriptionMode=all"
        assert parse("/queue/q", text, settings=settings).subscription is None


class TestAnswer:
    def make_grant(self, *, partition: str = "p", messages: str = '{"id":"1"}') -> PopGrant:
        return PopGrant(
            request=1,
            partition_id=UUID(int=1),
            outcome=PopOutcome.GRANTED,
            lease_id="lease",
            has_more=False,
            due_ms=None,
            after_seq=None,
            end_seq=None,
            attempts=None,
            partition_name=partition,
            queue_name='a "quoted" queue',
            message_count=1,
            is_encrypted=False,
            messages=messages,
        )

    def test_names_are_escaped(self) -> None:
        answer = json.loads(encode_answer("g\n", [self.make_grant(partition="p\\1")]))
        assert answer["queue"] == 'a "quoted" queue'
        assert answer["partition"] == "p\\1"
        assert answer["consumerGroup"] == "g\n"

    def test_messages_of_several_partitions_stand_in_one_array(self) -> None:
        grants = [self.make_grant(messages='{"id":"1"},{"id":"2"}'), self.make_grant()]
        answer = json.loads(encode_answer("g", grants))
        assert [message["id"] for message in answer["messages"]] == ["1", "2", "1"]
        assert answer["partitionsClaimed"] == 2
        assert answer["leaseId"] == "lease"
        assert answer["success"] is True
