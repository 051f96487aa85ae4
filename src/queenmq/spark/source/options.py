"""Checks the options of a read as a whole before anything runs. Pure.

Names and meanings follow Spark's Kafka source where it has the same thing. Case does not matter.
An option that is unknown, or does not go with another one, is an error that names it: a
misspelt limit must not turn into no limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pyspark.sql.types import StructType

from queenmq.crypto.keys import Key
from queenmq.durations import parse_seconds
from queenmq.errors import InvalidRequest
from queenmq.spark.payloads.ddl import parse_ddl
from queenmq.spark.source.conditions import parse_where
from queenmq.spark.source.kafka_names import OTHERS
from queenmq.spark.source.offsets import Start, parse_offset, parse_time

#: Every option of reading, as it is written in the documentation.
NAMES = (
    "url",
    "queue",
    "queuePattern",
    "namespace",
    "task",
    "partitions",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "endingTimestamp",
    "maxMessagesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxTaskBytes",
    "failOnDataLoss",
    "consumerGroup",
    "payloadType",
    "payloadSchema",
    "deliveryState",
    "where",
    "includeXid",
    "openTransactionWarningSeconds",
    "retrySeconds",
    "continuesDatabase",
    "includeArchive",
    "archivePath",
    "encryptionKeys",
    "encryptedPayloads",
)
BATCH_ONLY = (
    "endingOffsets",
    "endingTimestamp",
    "deliveryState",
    "where",
    "includeArchive",
    "archivePath",
)
STREAM_ONLY = (
    "maxMessagesPerTrigger",
    "minMessagesPerTrigger",
    "maxTriggerDelay",
    "consumerGroup",
    "openTransactionWarningSeconds",
)
PAYLOAD_TYPES = ("string", "binary", "variant")
#: What an encrypted payload is without its key: NULL, or the envelope as it is stored.
SEALED_AS = ("null", "stored")

#: As in the Kafka source.
_TRIGGER_DELAY = "15m"
#: What a task reads: enough to be worth a statement, little enough to be held in memory as a whole.
TASK_BYTES = 64 * 1024 * 1024

_SPELLING = {name.lower(): name for name in NAMES}


@dataclass(frozen=True)
class Scope:
    """The selected messages, by names of queues and partitions."""

    queues: tuple[str, ...] | None
    pattern: str | None
    namespace: str | None
    task: str | None
    #: Only partitions with these names. None means all.
    partitions: tuple[str, ...] | None

    def to_json(self) -> str:
        """Return the form that the look-up of queues takes."""
        return json.dumps(
            {
                "queues": self.queues,
                "pattern": self.pattern,
                "namespace": self.namespace,
                "task": self.task,
            }
        )


@dataclass(frozen=True)
class ReadOptions:
    """The options of one reading."""

    url: str
    scope: Scope
    #: None: `earliest` of a batch, `latest` of a stream.
    starting: Start | None
    ending: Start
    #: None: no limit.
    max_messages: int | None
    #: A batch waits for this many messages, or for this long. None means no wait.
    min_messages: int | None
    trigger_delay_ms: int
    min_partitions: int
    #: Of the payloads that one task reads.
    task_bytes: int
    fail_on_data_loss: bool
    consumer_group: str | None
    payload_type: str
    #: The fields of typed payloads. None leaves payloads as they are.
    payload_schema: StructType | None
    delivery_state: bool
    #: Conditions that the database applies, or None.
    where: str | None
    include_xid: bool
    warn_after_s: int
    #: How long to wait for a database that was there and is away.
    retry_s: int
    #: Positions that were taken in this database hold in that of the URL, too.
    continues_database: str | None
    #: The lake to read as well. None reads only live messages.
    archive: str | None
    #: The file with the keys of encrypted payloads. The driver reads it.
    key_file: str | None = None
    keys: tuple[Key, ...] = ()
    sealed_as: str = SEALED_AS[0]
    #: Every column may be NULL, as in a table that rows are inserted into.
    is_nullable: bool = False


def read_options(options: Mapping[str, str], *, is_stream: bool | None = None) -> ReadOptions:
    """Check and parse. `is_stream` None: not known yet, so both kinds are let through."""
    values = _read_known(options)
    _check_kind(values, is_stream)
    _check_together(values)
    return ReadOptions(
        url=_url(values),
        scope=_scope(values),
        starting=_place(values, "starting"),
        ending=_place(values, "ending") or Start("latest"),
        max_messages=_number(values, "maxMessagesPerTrigger", None, low=1),
        min_messages=_least(values),
        trigger_delay_ms=_delay_ms(values),
        min_partitions=_number(values, "minPartitions", 1, low=1) or 1,
        task_bytes=_number(values, "maxTaskBytes", TASK_BYTES, low=1) or TASK_BYTES,
        fail_on_data_loss=_flag(values, "failOnDataLoss", True),
        consumer_group=values.get("consumerGroup"),
        payload_type=_choice(values, "payloadType", PAYLOAD_TYPES),
        payload_schema=_payload_schema(values),
        delivery_state=_flag(values, "deliveryState", False),
        where=_where(values),
        include_xid=_flag(values, "includeXid", False),
        warn_after_s=_number(values, "openTransactionWarningSeconds", 60, low=0) or 0,
        retry_s=_number(values, "retrySeconds", 60, low=0) or 0,
        continues_database=values.get("continuesDatabase"),
        archive=_archive(values),
        key_file=values.get("encryptionKeys"),
        sealed_as=_choice(values, "encryptedPayloads", SEALED_AS),
    )


def _payload_schema(values: Mapping[str, str]) -> StructType | None:
    text = values.get("payloadSchema")
    return None if text is None else parse_ddl(text, "payloadSchema")


def _where(values: Mapping[str, str]) -> str | None:
    text = values.get("where")
    if text is not None:
        parse_where(text)
    return text


def _read_known(options: Mapping[str, str]) -> dict[str, str]:
    others = sorted(OTHERS.keys() & {name.lower() for name in options})
    if others:
        raise InvalidRequest(OTHERS[others[0]])
    unknown = sorted(name for name in options if name.lower() not in _SPELLING)
    if unknown:
        raise InvalidRequest(f"unknown option {', '.join(unknown)}; known are {', '.join(NAMES)}")
    values = {_SPELLING[name.lower()]: str(value) for name, value in options.items()}
    empty = sorted(name for name, value in values.items() if not value.strip())
    if empty:
        raise InvalidRequest(f"the option {', '.join(empty)} is empty; leave it out or give it")
    return values


def _check_kind(values: Mapping[str, str], is_stream: bool | None) -> None:
    wrong = {None: (), True: BATCH_ONLY, False: STREAM_ONLY}[is_stream]
    found = [name for name in wrong if name in values]
    if found:
        kind = "batch reads, not with streams" if is_stream else "streams, not with batch reads"
        raise InvalidRequest(f"{', '.join(found)} can be used with {kind}")


def _check_together(values: Mapping[str, str]) -> None:
    for pair in (
        ("queue", "queuePattern"),
        ("queue", "namespace"),
        ("queue", "task"),
        ("queuePattern", "namespace"),
        ("queuePattern", "task"),
        ("startingOffsets", "startingTimestamp"),
        ("endingOffsets", "endingTimestamp"),
        ("payloadType", "payloadSchema"),
        ("encryptionKeys", "encryptedPayloads"),
    ):
        if all(name in values for name in pair):
            raise InvalidRequest(f"{pair[0]} and {pair[1]} exclude each other; give one of them")
    if not values.keys() & {"queue", "queuePattern", "namespace", "task"}:
        raise InvalidRequest("nothing to read: give queue, queuePattern, namespace or task")
    if values.get("endingOffsets", "").strip().lower() == "earliest":
        raise InvalidRequest("endingOffsets cannot be earliest: there is nothing before it")


def _archive(values: Mapping[str, str]) -> str | None:
    path = values.get("archivePath")
    if not _flag(values, "includeArchive", False):
        if path is not None:
            raise InvalidRequest("archivePath needs includeArchive to be true")
        return None
    if path is None:
        raise InvalidRequest("includeArchive needs archivePath: the folder or URL of the lake")
    if _flag(values, "deliveryState", False):
        raise InvalidRequest(
            "includeArchive and deliveryState exclude each other: the archive has no delivery state"
        )
    return path


def _url(values: Mapping[str, str]) -> str:
    url = values.get("url")
    if url is None:
        raise InvalidRequest("the option url is missing: postgresql://user:password@host/database")
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        # Not the value: it may hold a password.
        raise InvalidRequest("the option url must begin with postgresql:// or postgres://")
    return url


def _scope(values: Mapping[str, str]) -> Scope:
    pattern = values.get("queuePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidRequest(
                f"queuePattern {pattern!r} is not a regular expression: {error}"
            ) from error
    return Scope(
        queues=_names(values, "queue"),
        pattern=pattern,
        namespace=values.get("namespace"),
        task=values.get("task"),
        partitions=_names(values, "partitions"),
    )


def _names(values: Mapping[str, str], option: str) -> tuple[str, ...] | None:
    text = values.get(option)
    return None if text is None else parse_names(text, option)


def parse_names(text: str, option: str) -> tuple[str, ...]:
    """Read `a`, `a,b`, or a JSON list for names with commas in them."""
    names: object = [name.strip() for name in text.split(",")]
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
    if not isinstance(names, list) or not names or not all(_is_name(name) for name in names):
        raise InvalidRequest(
            f'{option} must be a name, a list like a,b or a JSON list like ["a", "b"], not {text!r}'
        )
    return tuple(dict.fromkeys(names))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _place(values: Mapping[str, str], which: str) -> Start | None:
    offsets, timestamp = f"{which}Offsets", f"{which}Timestamp"
    if offsets in values:
        return parse_offset(values[offsets], offsets)
    if timestamp in values:
        return parse_time(values[timestamp], timestamp)
    return None


def _number(values: Mapping[str, str], option: str, default: int | None, *, low: int) -> int | None:
    text = values.get(option)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,12}", text.strip()) or int(text) < low:
        raise InvalidRequest(f"{option} must be a number, {low} or more, not {text!r}")
    return int(text)


def _least(values: Mapping[str, str]) -> int | None:
    least = _number(values, "minMessagesPerTrigger", None, low=1)
    most = _number(values, "maxMessagesPerTrigger", None, low=1)
    if least is None and "maxTriggerDelay" in values:
        raise InvalidRequest("maxTriggerDelay needs minMessagesPerTrigger; give both or neither")
    if least is not None and most is not None and least > most:
        raise InvalidRequest(
            f"minMessagesPerTrigger {least} is above maxMessagesPerTrigger {most}; lower the first"
        )
    return least


def _delay_ms(values: Mapping[str, str]) -> int:
    text = values.get("maxTriggerDelay", _TRIGGER_DELAY)
    seconds = parse_seconds(text)
    if seconds is None:
        raise InvalidRequest(f"maxTriggerDelay must be a time like 30s or 15m, not {text!r}")
    return round(seconds * 1000)


def _flag(values: Mapping[str, str], option: str, default: bool) -> bool:
    text = values.get(option, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidRequest(f"{option} must be true or false, not {text!r}")
    return text == "true"


def _choice(values: Mapping[str, str], option: str, choices: tuple[str, ...]) -> str:
    text = values.get(option, choices[0]).strip().lower()
    if text not in choices:
        raise InvalidRequest(f"{option} must be {', '.join(choices)}, not {text!r}")
    return text
