"""The computations of the analytics job: DataFrames in, DataFrames out. Built-in functions only.

Counts of pushes come from messages. Figures about consumers come from the ack history, and are NULL
for queues without one.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from queenmq.spark.jobs.ranges import Range

_PAIR = ["queue", "partition_id", "consumer_group"]
_DEFAULT = "Default"
_LATENCY = ("latency_p50_ms", "latency_p95_ms", "latency_p99_ms")
#: Numbers and ids in errors, which would make each of them its own.
_ID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}|\b(?:0x)?[0-9a-fA-F]{12,}\b"
_NUMBER = r"\b[0-9]+(?:\.[0-9]+)?"
_ERROR_LENGTH = 200


def bucket_of(column: str, span: Range) -> Column:
    """Return the start of the bucket of a time."""
    step = span.bucket_s * 1_000_000
    micros = F.unix_micros(F.col(column))
    return F.timestamp_micros(micros - F.pmod(micros, F.lit(step)))


def in_buckets(frame: DataFrame, column: str, span: Range) -> DataFrame:
    """Return rows of the range, with their bucket."""
    inside = (F.col(column) >= F.lit(span.start)) & (F.col(column) < F.lit(span.end))
    return frame.where(inside).withColumn("bucket_at", bucket_of(column, span))


def pushes(messages: DataFrame, span: Range) -> DataFrame:
    """Count pushes by partition and bucket. `head` is the last number given out in it."""
    return (
        in_buckets(messages, "created_at", span)
        .groupBy("queue", "partition", "partition_id", "bucket_at")
        .agg(
            F.count("*").alias("pushed"),
            F.sum("bytes").alias("bytes"),
            F.max("seq").alias("head"),
        )
    )


def percentiles(latencies: DataFrame, keys: list[str]) -> DataFrame:
    """Compute latency by these keys, and of how many messages."""
    shares = F.percentile_approx("latency_ms", [0.5, 0.95, 0.99], 10_000)
    grouped = latencies.groupBy(*keys).agg(shares.alias("p"), F.count("*").alias("measured"))
    wanted = [F.col("p")[number].alias(name) for number, name in enumerate(_LATENCY)]
    return grouped.select(*keys, "measured", *wanted)


def consumption(steps: DataFrame, span: Range) -> DataFrame:
    """Count messages consumed by partition, group and bucket.

    `cursor` is where the group stood at its end.
    """
    return (
        in_buckets(steps, "passed_at", span)
        .groupBy("queue", "partition", "partition_id", "consumer_group", "bucket_at")
        .agg(
            F.sum("consumed").alias("consumed"),
            F.sum("retries").alias("retries"),
            F.max_by("last_seq", "id").alias("cursor"),
        )
    )


def places(
    heads: DataFrame, cursors: DataFrame, steps: DataFrame, before: DataFrame, kept: list[str]
) -> DataFrame:
    """Return each partition and group of queues with a history: head and cursor as the range began.

    A group that has not begun in a partition has all of it before it. The cursor at the start is
    where the first step since then set out from; without one, where it is now. If the last step
    before went further, the group was brought back later, at an unknown time.
    """
    groups = cursors.select("queue", "consumer_group").distinct()
    every = heads.where(F.col("queue").isin(kept)).join(F.broadcast(groups), "queue", "inner")
    first = steps.groupBy(*_PAIR).agg((F.min_by("first_seq", "id") - 1).alias("set_out"))
    known = join_frames(_PAIR, every.drop("last_seq"), cursors, first, before)
    stood = F.coalesce("set_out", "cursor_seq", F.col("first_seq") - 1)
    return known.where("start_seq IS NOT NULL").select(
        *_PAIR,
        F.col("start_seq").alias("start_head"),
        F.greatest(stood, "reached").alias("start_cursor"),
    )


def backlogs(places: DataFrame, pushes: DataFrame, consumed: DataFrame) -> DataFrame:
    """Compute the backlog of each partition and group at the end of each bucket in which it
    changed, and the change.
    """
    heads = places.join(
        pushes.select("partition_id", "bucket_at", "head"), "partition_id", "inner"
    ).select(*_PAIR, "bucket_at", "head", F.lit(None).cast("bigint").alias("cursor"))
    cursors = consumed.select(
        *_PAIR, "bucket_at", F.lit(None).cast("bigint").alias("head"), "cursor"
    )
    changes = (
        heads.unionByName(cursors)
        .groupBy(*_PAIR, "bucket_at")
        .agg(F.max("head").alias("head"), F.max("cursor").alias("cursor"))
        .join(places, _PAIR, "inner")
    )
    so_far = (
        Window.partitionBy(*_PAIR).orderBy("bucket_at").rowsBetween(Window.unboundedPreceding, 0)
    )
    head = F.coalesce(F.last("head", ignorenulls=True).over(so_far), "start_head")
    cursor = F.coalesce(F.last("cursor", ignorenulls=True).over(so_far), "start_cursor")
    in_order = Window.partitionBy(*_PAIR).orderBy("bucket_at")
    start = _backlog(F.col("start_head"), F.col("start_cursor"))
    return changes.withColumn("backlog", _backlog(head, cursor)).select(
        *_PAIR,
        "bucket_at",
        "backlog",
        (F.col("backlog") - F.coalesce(F.lag("backlog").over(in_order), start)).alias("change"),
    )


def _backlog(head: Column, cursor: Column) -> Column:
    return F.greatest(head - cursor, F.lit(0))


def start_backlogs(places: DataFrame) -> DataFrame:
    """Return the backlog of each group as the range began."""
    start = _backlog(F.col("start_head"), F.col("start_cursor"))
    return places.groupBy("queue", "consumer_group").agg(F.sum(start).alias("start_backlog"))


def group_dead_letters(dead_letters: DataFrame, keys: list[str]) -> DataFrame:
    """Return dead letters by these keys."""
    return dead_letters.groupBy(*keys).agg(F.sum("letters").alias("dead_letters"))


def partition_series(
    pushes: DataFrame,
    consumed: DataFrame,
    backlogs: DataFrame,
    latencies: DataFrame,
    dead_letters: DataFrame,
    heads: DataFrame,
) -> DataFrame:
    """Join the figures by partition, group and bucket where something happened.

    Rows without a group are pushes.
    """
    keys = [*_PAIR, "bucket_at"]
    nobody = F.lit(None).cast("string").alias("consumer_group")
    found = join_frames(
        keys,
        pushes.select("queue", "partition_id", nobody, "bucket_at", "pushed", "bytes"),
        consumed.select(*keys, "consumed", "retries"),
        backlogs.select(*keys, "backlog"),
        percentiles(latencies, keys).drop("measured"),
        group_dead_letters(dead_letters, keys),
    )
    return found.join(heads.select("partition_id", "partition"), "partition_id", "inner")


def timeline(
    span: Range,
    kept: list[str],
    every: DataFrame,
    pushes: DataFrame,
    consumed: DataFrame,
    backlogs: DataFrame,
    starts: DataFrame,
    latencies: DataFrame,
    dead_letters: DataFrame,
) -> DataFrame:
    """Join the figures by queue, group and bucket, for every bucket.

    `every` has the queues and their groups.
    """
    keys = ["queue", "consumer_group", "bucket_at"]
    times = F.array(*(F.lit(time) for time in (span.start, span.end)))
    step = F.expr(f"INTERVAL {span.bucket_s} SECONDS")
    last = times[1] - step
    buckets = every.withColumn("bucket_at", F.explode(F.sequence(times[0], last, step)))
    nobody = F.lit(None).cast("string").alias("consumer_group")
    first = F.lit(span.start).alias("bucket_at")
    changes = backlogs.select(*keys, "change").unionByName(
        starts.select("queue", "consumer_group", first, F.col("start_backlog").alias("change"))
    )
    found = join_frames(
        keys,
        buckets,
        _sums(
            pushes.select("queue", nobody, "bucket_at", "pushed", "bytes"), keys, "pushed", "bytes"
        ),
        _sums(consumed, keys, "consumed", "retries"),
        _sums(changes, keys, "change"),
        percentiles(latencies, keys).drop("measured"),
        group_dead_letters(dead_letters, keys),
    )
    until = Window.partitionBy("queue", "consumer_group").orderBy("bucket_at")
    is_queue = F.col("consumer_group").isNull()
    is_kept = F.col("queue").isin(kept) & ~is_queue
    return found.withColumns(
        {
            "backlog": F.when(is_kept, F.sum(F.coalesce("change", F.lit(0))).over(until)),
            **{name: _zero_where(is_queue, name) for name in ("pushed", "bytes")},
            **{name: _zero_where(is_kept, name) for name in ("consumed", "retries")},
            "dead_letters": _zero_where(~is_queue, "dead_letters"),
        }
    )


def _zero_where(condition: Column, name: str) -> Column:
    """Return 0 instead of NULL where nothing is known to have happened, and NULL elsewhere."""
    return F.when(condition, F.coalesce(F.col(name), F.lit(0)))


def join_frames(keys: list[str], *frames: DataFrame) -> DataFrame:
    """Return columns of several DataFrames side by side, each with one row per key at most.

    One aggregation instead of a join per DataFrame; NULL is a key like others.
    """
    whole = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
    others = [name for name in whole.columns if name not in keys]
    return whole.groupBy(*keys).agg(*(F.max(name).alias(name) for name in others))


def _sums(frame: DataFrame, keys: list[str], *names: str) -> DataFrame:
    return frame.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in names))


def by_partition(pushes: DataFrame, heads: DataFrame) -> DataFrame:
    """Return all that was pushed to each partition, those that got nothing among them.

    Not the default partition if it never had a message: a queue has it whether it is used or not.
    """
    keys = ["queue", "partition_id"]
    sums = _sums(pushes, keys, "pushed", "bytes")
    used = heads.where((F.col("partition") != _DEFAULT) | (F.col("last_seq") > 0))
    found = join_frames(keys, used.select(*keys, "partition"), sums)
    return found.where("partition IS NOT NULL").fillna(0, ["pushed", "bytes"])


def hottest(partitions: DataFrame, top: int) -> DataFrame:
    """Return the partitions with most messages of each queue."""
    order = Window.partitionBy("queue").orderBy(F.desc("pushed"), "partition")
    total = F.sum("pushed").over(Window.partitionBy("queue"))
    return (
        partitions.withColumn("rank", F.row_number().over(order))
        .withColumn("share", F.col("pushed") / total)
        .where((F.col("rank") <= top) & (F.col("pushed") > 0))
        .select("queue", "rank", "partition", "pushed", "bytes", "share", "partition_id")
    )


def skew(partitions: DataFrame) -> DataFrame:
    """Return how unevenly pushes fall on the partitions of each queue: the largest by the mean, and
    the Gini coefficient.
    """
    place = F.row_number().over(Window.partitionBy("queue").orderBy("pushed", "partition_id"))
    count, total = F.count("*"), F.sum("pushed")
    weighted = F.sum(F.col("place").cast("double") * F.col("pushed"))
    gini = (2 * weighted) / (count * total) - (count + 1) / count
    return (
        partitions.withColumn("place", place)
        .groupBy("queue")
        .agg(
            count.alias("partitions"),
            total.alias("pushed"),
            F.sum("bytes").alias("bytes"),
            F.when(total > 0, F.max("pushed") * count / total).alias("max_by_mean"),
            F.when(total > 0, F.greatest(gini, F.lit(0.0))).alias("gini"),
        )
    )


def payload_shares(messages: DataFrame) -> DataFrame:
    """Compute sizes of payloads by queue."""
    shares = F.percentile_approx("bytes", [0.5, 0.95, 0.99], 10_000)
    grouped = messages.groupBy("queue").agg(shares.alias("p"), F.max("bytes").alias("payload_max"))
    names = ("payload_p50", "payload_p95", "payload_p99")
    wanted = [F.col("p")[number].alias(name) for number, name in enumerate(names)]
    return grouped.select("queue", "payload_max", *wanted)


def payload_sizes(messages: DataFrame) -> DataFrame:
    """Count payloads by queue and size, in classes of powers of two from 64 bytes on."""
    power = F.ceil(F.log2(F.greatest("bytes", F.lit(64)).cast("double")))
    return (
        messages.withColumn("up_to_bytes", F.pow(F.lit(2.0), power).cast("bigint"))
        .groupBy("queue", "up_to_bytes")
        .agg(F.count("*").alias("messages"), F.sum("bytes").alias("bytes"))
    )


def producers(messages: DataFrame, top: int) -> DataFrame:
    """Rank the producers that pushed most. All others are one row without a rank."""
    sums = messages.groupBy("queue", F.col("producer_sub").alias("producer")).agg(
        F.count("*").alias("pushed"), F.sum("bytes").alias("bytes")
    )
    order = Window.partitionBy("queue").orderBy(F.desc("pushed"), F.asc_nulls_last("producer"))
    ranked = sums.withColumn("rank", F.row_number().over(order))
    is_top = F.col("rank") <= top
    return (
        ranked.withColumn("producer", F.when(is_top, F.col("producer")))
        .withColumn("rank", F.when(is_top, F.col("rank")))
        .groupBy("queue", "producer", "rank")
        .agg(F.sum("pushed").alias("pushed"), F.sum("bytes").alias("bytes"))
    )


def errors(dead_letters: DataFrame, top: int) -> DataFrame:
    """Return dead letters by group and error, equal but for numbers and ids in it."""
    plain = F.regexp_replace(F.regexp_replace("error", _ID, "<id>"), _NUMBER, "<n>")
    order = Window.partitionBy("queue").orderBy(F.desc("letters"), "error")
    return (
        dead_letters.withColumn("error", F.substring(plain, 1, _ERROR_LENGTH))
        .groupBy("queue", "consumer_group", "error")
        .agg(
            F.sum("letters").alias("letters"),
            F.min("first_at").alias("first_at"),
            F.max("last_at").alias("last_at"),
        )
        .withColumn("place", F.row_number().over(order))
        .where(F.col("place") <= top)
        .drop("place")
    )


def group_totals(
    every: DataFrame,
    kept: list[str],
    heads: DataFrame,
    cursors: DataFrame,
    consumed: DataFrame,
    latencies: DataFrame,
    dead_letters: DataFrame,
) -> DataFrame:
    """Return each group over the whole range, and its backlog now."""
    keys = ["queue", "consumer_group"]
    groups = every.where(F.col("consumer_group").isNotNull())
    pairs = join_frames(
        _PAIR, heads.join(F.broadcast(groups), "queue", "inner").drop("partition"), cursors
    ).where("first_seq IS NOT NULL")
    now = F.greatest(F.coalesce("cursor_seq", F.lit(0)), F.col("first_seq") - 1)
    backlog = pairs.groupBy(*keys).agg(F.sum(_backlog(F.col("last_seq"), now)).alias("backlog_now"))
    found = join_frames(
        keys,
        groups,
        backlog,
        _sums(consumed, keys, "consumed", "retries"),
        percentiles(latencies, keys),
        group_dead_letters(dead_letters, keys),
    )
    is_kept = F.col("queue").isin(kept)
    return found.fillna(0, ["backlog_now", "dead_letters"]).withColumns(
        {name: _zero_where(is_kept, name) for name in ("consumed", "retries")}
    )
