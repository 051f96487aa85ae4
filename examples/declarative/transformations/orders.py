"""Orders of a queue as a streaming table, and what each customer has spent as a view of it."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def _session() -> SparkSession:
    session = SparkSession.active()
    assert session is not None
    return session


@dp.table
def orders() -> DataFrame:
    """Each order once: `queen` is found by the name of its package."""
    spark = _session()
    source = (
        spark.readStream.format("queen")
        .option("url", spark.conf.get("queen.url"))
        .option("queue", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.try_parse_json("payload")
    return source.select(
        "partition",
        "seq",
        F.try_variant_get(order, "$.customer", "string").alias("customer"),
        F.try_variant_get(order, "$.total", "double").alias("total"),
        "created_at",
    )


@dp.materialized_view
def turnover() -> DataFrame:
    """Made anew by each run."""
    table = _session().read.table("orders")
    return table.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("total").alias("sum"))
