"""Turns a lake into one as release 0.1.0 wrote it: its folders, its files, its log."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from uuid import UUID

from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, CommitProperties
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from queenmq.spark.lake import Lake, read_messages
from queenmq.spark.lake.layout import COLUMNS, PARTITIONED_BY, path_in_table
from queenmq.spark.lake.table import MessageTable, open_table, transactions

FOLDER = f"data-{'1' * 32}"
_BOUNDS = ("xid", "seq", "created_at")


def to_first_layout(spark: SparkSession, lake: Lake, queue_ids: Iterable[UUID]) -> None:
    """Write all messages of a lake anew, into a table with the same id and positions."""
    table = open_table(lake)
    old = Lake(f"{lake.location}-first")
    name = F.col("queue")
    folder = F.when(name.rlike("^[ -|]{1,80}$"), name).otherwise(F.concat(F.lit("~"), F.md5(name)))
    rows = read_messages(spark, table).withColumns({"q": folder, "d": F.col("day")})
    rows.write.partitionBy("q", "d").parquet(old.for_spark(FOLDER))
    _create(old, table.id)
    _commit(spark, old, table, queue_ids)
    shutil.rmtree(lake.messages)
    os.rename(old.messages, lake.messages)
    os.rmdir(old.location)


def _create(lake: Lake, table_id: UUID) -> None:
    schema = Schema([Field(name, PrimitiveType(kind)) for name, kind in COLUMNS])
    made = DeltaTable.create(lake.messages, schema, partition_by=list(PARTITIONED_BY))
    log = Path(lake.messages, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace(str(made.metadata().id), str(table_id)))


def _commit(spark: SparkSession, lake: Lake, table: MessageTable, ids: Iterable[UUID]) -> None:
    file = F.col("_metadata")
    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS)
    found = (
        spark.read.schema(schema)
        .parquet(lake.for_spark(FOLDER))
        .groupBy(file["file_path"].alias("uri"), file["file_size"].alias("bytes"), *PARTITIONED_BY)
        .agg(
            F.count("*").alias("messages"),
            *(F.min(name).alias(f"low_{name}") for name in _BOUNDS),
            *(F.max(name).alias(f"high_{name}") for name in _BOUNDS),
        )
    )
    actions = [
        AddAction(
            path=path_in_table(row["uri"], FOLDER),
            size=row["bytes"],
            partition_values={"queue": row["queue"], "day": row["day"].isoformat()},
            modification_time=0,
            data_change=True,
            stats=json.dumps(
                {
                    "numRecords": row["messages"],
                    "minValues": {name: _value(row[f"low_{name}"]) for name in _BOUNDS},
                    "maxValues": {name: _value(row[f"high_{name}"]) for name in _BOUNDS},
                    "nullCount": dict.fromkeys(_BOUNDS, 0),
                }
            ),
        )
        for row in found.toArrow().to_pylist()
    ]
    delta = DeltaTable(lake.messages)
    notes = transactions({key: table.position(key) for key in ids})
    delta.create_write_transaction(
        actions,
        "append",
        delta.schema(),
        partition_by=list(PARTITIONED_BY),
        commit_properties=CommitProperties(app_transactions=notes),
    )


def _value(value: object) -> object:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value
