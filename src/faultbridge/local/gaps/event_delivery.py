"""Patches for when and how often MiniStack calls functions for queues, streams and schedules.

`poller_pace`
AWS: each event source mapping is polled independently, and a record is delivered within some tens of milliseconds.
MiniStack: one thread polls all mappings in turn, and sleeps for a second after a round without records.
Here: each mapping has its own thread, which polls every 100 ms.

`sqs_batch_size`
AWS: one batch of a standard queue contains up to 10,000 messages; `BatchSize` sets the limit.
MiniStack: one batch contains at most 10 messages, whatever `BatchSize` is.
Here: messages are received repeatedly until the batch is full or the queue is empty. The batching window is still
ignored.

`schedule_pace`
AWS: `rate(1 minute)`, the shortest rate, calls a function once a minute.
MiniStack: the rate is the same, but schedules are checked only every 10 seconds, so a call may be 10 seconds late.
Here: schedules are checked every 250 ms. A minute of a rate lasts three seconds, so that users need not wait a minute
for the next sweep. Schedules with `cron` or `at` keep their times.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.environment import MINUTE_VARIABLE
from faultbridge.local.gaps.patching import Gap, replace, resolve, source_has, wrap

LOOP = "ministack.services.lambda_svc:_poll_loop"
MAPPINGS = "ministack.services.lambda_svc:_iter_all_esms"
POLL_QUEUE = "ministack.services.lambda_svc:_poll_sqs"
POLL_STREAM = "ministack.services.lambda_svc:_poll_dynamodb_streams"
RECEIVE = "ministack.services.sqs:_receive_messages_for_esm"
CREATE_QUEUE = "ministack.services.cloudformation.provisioners:_sqs_create"
RATE = "ministack.services.eventbridge:_parse_rate_seconds"
RULE_INTERVAL = "ministack.services.eventbridge:_SCHEDULER_TICK_INTERVAL"
SCHEDULE_INTERVAL = "ministack.services.scheduler:_SCHEDULE_TICK_INTERVAL"

_POLL_SECONDS = 0.1
_AFTER_ERROR_SECONDS = 1.0
_INTERVAL_SECONDS = 0.25
_EMULATOR_INTERVAL_SECONDS = 10
_EMULATOR_BATCH_SIZE = 10
_MINUTE = 60.0
_LOGGER = logging.getLogger("faultbridge.local")
_thread = threading.local()

Mappings = Callable[[], Iterator[tuple[str, str, dict[str, Any]]]]
Receive = Callable[[str, int], list[dict[str, Any]]]


def _poll_in_parallel() -> None:
    all_mappings: Mappings = resolve(MAPPINGS)
    replace(MAPPINGS, lambda _all: lambda: _mappings_of_this_thread(all_mappings))
    replace(LOOP, lambda _loop: lambda: _start_pollers(all_mappings))


def _mappings_of_this_thread(all_mappings: Mappings) -> Iterator[tuple[str, str, dict[str, Any]]]:
    only = getattr(_thread, "mapping", None)
    return (found for found in all_mappings() if only in {None, found[2]["UUID"]})


def _start_pollers(all_mappings: Mappings) -> None:
    polled: set[str] = set()
    while True:
        for _account, _region, mapping in all_mappings():
            if mapping["UUID"] not in polled:
                polled.add(mapping["UUID"])
                poll = POLL_QUEUE if ":sqs:" in mapping["EventSourceArn"] else POLL_STREAM
                threading.Thread(target=_poll, args=(mapping["UUID"], poll), daemon=True, name=f"poller {poll}").start()
        time.sleep(_POLL_SECONDS)


def _poll(mapping: str, name: str) -> None:
    _thread.mapping = mapping
    poll: Callable[[], bool] = resolve(name)
    while True:
        started = time.monotonic()
        try:
            poll()
        except Exception:
            # The emulator's own loop also survives every error: without its poller the stack would stop.
            _LOGGER.exception("%s failed; retrying", name)
            time.sleep(_AFTER_ERROR_SECONDS)
        time.sleep(max(0.0, started + _POLL_SECONDS - time.monotonic()))


def _limits_batches_to_ten() -> bool:
    from ministack.services import sqs

    url, _ = resolve(CREATE_QUEUE)("Probe", {"QueueName": "probe"}, "probe")
    message = {"id": "", "body": "", "visible_at": 0.0, "sent_at": 0.0, "receive_count": 0, "group_id": None, "sys": {}}
    wanted = _EMULATOR_BATCH_SIZE + 2
    sqs._queues[url]["messages"] = [dict(message) for _ in range(wanted)]
    return len(resolve(RECEIVE)(url, wanted)) == _EMULATOR_BATCH_SIZE


def _with_full_batches(receive: Receive, url: str, wanted: int) -> list[dict[str, Any]]:
    batch: list[dict[str, Any]] = []
    while len(batch) < wanted and (more := receive(url, wanted - len(batch))):
        batch += more
    return batch


def _checks_every_ten_seconds() -> bool:
    intervals = (RULE_INTERVAL, SCHEDULE_INTERVAL)
    return all(resolve(interval) == _EMULATOR_INTERVAL_SECONDS for interval in intervals)


def _check_often() -> None:
    factor = float(os.environ[MINUTE_VARIABLE]) / _MINUTE
    wrap(RATE, lambda rate, expression: _scaled(rate(expression), factor))
    for interval in (RULE_INTERVAL, SCHEDULE_INTERVAL):
        replace(interval, lambda _seconds: _INTERVAL_SECONDS)


def _scaled(seconds: int | None, factor: float) -> float | None:
    return None if seconds is None else seconds * factor


GAPS = (
    Gap(
        "poller_pace", (LOOP, MAPPINGS, POLL_QUEUE, POLL_STREAM), source_has(LOOP, "time.sleep(1 if"), _poll_in_parallel
    ),
    Gap("sqs_batch_size", (RECEIVE, CREATE_QUEUE), _limits_batches_to_ten, lambda: wrap(RECEIVE, _with_full_batches)),
    Gap("schedule_pace", (RATE, RULE_INTERVAL, SCHEDULE_INTERVAL), _checks_every_ten_seconds, _check_often),
)
