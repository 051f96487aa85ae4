"""Builds the query of a definition: the same steps for the stream, and for a second look at one of
its batches."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from queenmq.spark.streams.definition import Definition, Window, milliseconds
from queenmq.spark.streams.durations import spark_interval
from queenmq.spark.streams.expressions import Expressions, parse_field
from queenmq.spark.streams.rows import PLACE, SEQ, SOURCE, number_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: What the progress of a batch has of ours.
OBSERVATION = "queen"
#: Why a message cannot be used, or NULL.
REASON = "_reason"
_KEY = "_key"
#: Of a stream without a window: where each of its results comes from.
_ORIGIN = ("message_id", "created_at", SOURCE, SEQ, PLACE, _KEY)
_TIME = "_time"
_WINDOW = "_window"
_ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
_DEFAULT_PARTITION = "Default"


@dataclass(frozen=True)
class Query:
    """A definition with its database."""

    definition: Definition
    file: str
    url: str
    #: The file with the keys of encrypted queues.
    key_file: str | None = None
    #: Its expressions were found to be right.
    is_checked: bool = False

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the messages as they come."""
        source = self.definition.source
        options = self.scope() | {
            "maxMessagesPerTrigger": str(source.max_messages),
            "failOnDataLoss": str(source.fail_on_data_loss).lower(),
            "openTransactionWarningSeconds": str(
                milliseconds(source.open_transaction_warning) // 1000
            ),
            "retrySeconds": self.retry_seconds,
        }
        if source.continues_database is not None:
            options["continuesDatabase"] = source.continues_database
        is_time = source.starting[:1].isdigit()
        options["startingTimestamp" if is_time else "startingOffsets"] = source.starting
        group = self.definition.name if source.group is None else source.group
        if group:
            options["consumerGroup"] = group
        return spark.readStream.format("queen").options(**options).load()

    @property
    def retry_seconds(self) -> str:
        """Return how long to wait for a database that is away, as the option says it."""
        return str(milliseconds(self.definition.source.retry) // 1000)

    def batch(self, spark: SparkSession, start: int, end: int) -> DataFrame:
        """Return the messages of one batch once more."""
        options = self.scope() | {
            "startingOffsets": json.dumps({"xid": str(start)}),
            "endingOffsets": json.dumps({"xid": str(end)}),
        }
        return spark.read.format("queen").options(**options).load()

    def scope(self) -> dict[str, str]:
        """Return the options that say which messages are meant."""
        source = self.definition.source
        queues = [source.queue] if isinstance(source.queue, str) else source.queue
        values = {
            "queue": json.dumps(queues) if queues else None,
            "queuePattern": source.pattern,
            "namespace": source.namespace,
            "task": source.task,
            "partitions": json.dumps(source.partitions) if source.partitions else None,
        }
        given = {name: value for name, value in values.items() if value is not None}
        return self.place | given

    @property
    def place(self) -> dict[str, str]:
        """Return the options that reading and writing have in common."""
        keys = {} if self.key_file is None else {"encryptionKeys": self.key_file}
        return {"url": self.url, **keys}

    def prepare(self, messages: DataFrame) -> DataFrame:
        """Return fields, key and time of messages that pass the filter, and why others are unfit.

        A message whose fields have the wrong types is kept, whatever the filter says.
        """
        typed = self._with_fields(messages)
        expressions = self._expressions(typed)
        passing = typed
        if self.definition.filter is not None:
            passes = expressions.condition("filter", self.definition.filter)
            passing = typed.where(F.col(REASON).isNotNull() | passes)
        key, time = self._key(expressions), self._time(expressions)
        return (
            passing.withColumn(_KEY, key)
            .withColumn(_TIME, time)
            .withColumn(REASON, F.coalesce(F.col(REASON), *self._gaps()))
        )

    def results(self, prepared: DataFrame) -> DataFrame:
        """Return the results of the stream."""
        usable = prepared.where(F.col(REASON).isNull())
        window = self.definition.window
        if window is None:
            return self._results_by_message(usable)
        expressions = self._expressions(prepared)
        aggregates = [
            expressions.aggregate(f"aggregations.{name}", text).alias(name)
            for name, text in self.definition.aggregations.items()
        ]
        keys = [_KEY] if self.definition.key is not None else []
        delay = spark_interval(milliseconds(window.watermark))
        grouped = usable.withWatermark(_TIME, delay).groupBy(_window(window).alias(_WINDOW), *keys)
        return grouped.agg(*aggregates).select(
            F.col(f"{_WINDOW}.start").alias("window_start"),
            F.col(f"{_WINDOW}.end").alias("window_end"),
            *(F.col(name).alias("key") for name in keys),
            *self.definition.aggregations,
        )

    def _results_by_message(self, usable: DataFrame) -> DataFrame:
        """Return one row per message, or as many as an expression such as `explode` makes of it."""
        return number_rows(
            usable.select(
                "message_id",
                "created_at",
                F.col("partition_id").alias(SOURCE),
                F.col("seq").alias(SEQ),
                _KEY,
                *self._select(usable),
            )
        )

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns of `to_messages` that the rows of a key are sorted by.

        Times never go back within a partition, so its messages keep the order of `seq`, even if
        several partitions share a key.
        """
        if self.definition.window is None:
            return ("created_at", SOURCE, SEQ, PLACE)
        return ("window_end",)

    @property
    def identity(self) -> tuple[str, ...]:
        """Return columns of `results` that distinguish any two rows and never change."""
        if self.definition.window is None:
            return ("message_id", PLACE)
        keys = ("key",) if self.definition.key is not None else ()
        return ("window_start", "window_end", *keys)

    def to_messages(self, results: DataFrame) -> DataFrame:
        """Return results as rows for a queue. A result always has the same transaction id."""
        name = F.lit(self.definition.name)
        default = F.lit(_DEFAULT_PARTITION)
        if self.definition.window is None:
            columns = [n for n in results.columns if n not in _ORIGIN]
            payload = F.col("payload") if not self.definition.select else _json(columns)
            # The first row of a message is named after it alone, as if it were the only one.
            place = F.when(F.col(PLACE) > 0, F.col(PLACE).cast("string"))
            return results.select(
                (F.col(_KEY) if self.definition.key is not None else default).alias("partition"),
                payload.alias("payload"),
                F.concat_ws("/", name, "message_id", place).alias("transaction_id"),
                *self.order,
            )
        times = [F.date_format(edge, _ISO) for edge in ("window_start", "window_end")]
        return results.select(
            (F.col("key") if self.definition.key is not None else default).alias("partition"),
            _json(results.columns).alias("payload"),
            F.concat_ws("/", name, *times).alias("transaction_id"),
            *self.order,
        )

    def to_rows(self, results: DataFrame) -> DataFrame:
        """Return results as rows for the lake, with the columns of their identity."""
        if self.definition.window is not None:
            return results
        return results.withColumnRenamed(_KEY, "key").drop(SOURCE, SEQ)

    def to_table(self, results: DataFrame) -> DataFrame:
        """Return results as they will be in the lake."""
        return self.to_rows(results).drop(PLACE)

    def find_late(self, prepared: DataFrame, watermark_ms: int) -> DataFrame:
        """Return messages that a batch with this watermark left out of windows, with those
        windows.
        """
        window = self.definition.window
        usable = prepared.where(F.col(REASON).isNull())
        if window is None:
            return usable.where(F.lit(False)).withColumn("missed", F.array())
        if window.type == "session":
            gap = F.expr(f"INTERVAL '{milliseconds(window.gap) / 1000:f}' SECOND")
            ends = F.struct(F.col(_TIME).alias("start"), (F.col(_TIME) + gap).alias("end"))
        else:
            ends = _window(window)
        # As Spark decides it: a window is over when the watermark has reached its end.
        over = usable.withColumn(_WINDOW, ends).where(
            F.col(f"{_WINDOW}.end") <= F.timestamp_millis(F.lit(watermark_ms))
        )
        others = [F.first(name).alias(name) for name in usable.columns if name != "message_id"]
        missed = F.sort_array(F.collect_list(_WINDOW)).alias("missed")
        return over.groupBy("message_id").agg(*others, missed).withColumn(REASON, F.lit("late"))

    def _expressions(self, frame: DataFrame) -> Expressions:
        return Expressions(self.file, frame, is_checked=self.is_checked)

    def _with_fields(self, messages: DataFrame) -> DataFrame:
        fields = [parse_field(name, text) for name, text in self.definition.fields.items()]
        expressions = self._expressions(messages)
        for field in fields:
            expressions.field(field, f"fields.{field.name}")
        if not fields:
            return messages.withColumn(REASON, F.lit(None).cast("string"))
        parsed = messages.withColumn("_json", F.try_parse_json("payload"))
        json_ = F.col("_json")
        reasons = [
            F.when(F.col("payload").isNull(), "the payload is encrypted"),
            F.when(json_.isNull(), "the payload is too large or too deep"),
        ]
        for field in fields:
            given = F.try_variant_get(json_, field.path, "variant")
            value = F.try_variant_get(json_, field.path, field.type)
            parsed = parsed.withColumn(field.name, value)
            is_given = given.isNotNull() & ~F.is_variant_null(given)
            reasons.append(
                F.when(is_given & value.isNull(), f"{field.path} is not of type {field.type}")
            )
        return parsed.withColumn(REASON, F.coalesce(*reasons)).drop("_json")

    def _key(self, expressions: Expressions) -> Column:
        if self.definition.key is None:
            return F.lit(None).cast("string")
        return expressions.column("key", self.definition.key).cast("string")

    def _time(self, expressions: Expressions) -> Column:
        window = self.definition.window
        return (
            F.col("created_at") if window is None else expressions.time("window.time", window.time)
        )

    def _gaps(self) -> list[Column]:
        """Return what a message may lack though all its fields are right."""
        key, time = F.col(_KEY), F.col(_TIME)
        gaps = []
        if self.definition.key is not None:
            is_name = (F.length(key) > 0) & (F.length(key) <= 255) & (F.octet_length(key) <= 765)
            gaps.append(F.when(key.isNull() | ~is_name, "the key is not a valid partition name"))
        window = self.definition.window
        if window is not None:
            gaps.append(F.when(time.isNull(), "the event time is missing"))
            ahead = F.expr(f"INTERVAL '{milliseconds(window.ahead) / 1000:f}' SECOND")
            # One time far in the future would close the windows of all other keys.
            gaps.append(F.when(time > F.col("created_at") + ahead, "the event time is ahead"))
        return gaps or [F.lit(None).cast("string")]

    def _select(self, prepared: DataFrame) -> list[Column]:
        if not self.definition.select:
            return [F.col("payload")]
        expressions = self._expressions(prepared)
        return [
            expressions.column(f"select.{name}", text).alias(name)
            for name, text in self.definition.select.items()
        ]


def observe_rows(prepared: DataFrame) -> DataFrame:
    """Return the same rows, counted for the progress of the stream."""
    return prepared.observe(
        OBSERVATION,
        F.count(F.lit(1)).alias("passed"),
        F.count(F.col(REASON)).alias("unusable"),
    )


def _window(window: Window) -> Column:
    if window.type == "session":
        return F.session_window(_TIME, spark_interval(milliseconds(window.gap)))
    size = spark_interval(milliseconds(window.size))
    slide = None if window.slide is None else spark_interval(milliseconds(window.slide))
    return F.window(_TIME, size, slide)


def _json(columns: list[str]) -> Column:
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
