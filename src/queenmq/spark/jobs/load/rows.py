"""Files as rows of the sink: partition, transaction id, payload, and the columns of their order.

JSON lines are read as text: the line is the message, byte for byte, and fields are picked out of it
without a look at all lines for a schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queenmq.crypto.keys import make_salt, read_keys
from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.load.options import LoadOptions
from queenmq.spark.runtime.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DEFAULT_PARTITION = "Default"
#: Whole rows keep all of their fields and digits.
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_FILE = ("_file", "_block", "_row")


def read_rows(spark: SparkSession, options: LoadOptions) -> tuple[DataFrame, list[str]]:
    """Return the rows of all files, and the columns that put them into order."""
    with spark_failures("the files cannot be read"):
        files = _Files(spark, options)
        order = {
            f"_order_{place}": column
            for place, column in enumerate(
                part for name in options.sort_columns for part in files.sort_key(name)
            )
        }
        rows = files.rows.select(
            files.partition().alias("partition"),
            files.payload().alias("payload"),
            files.transaction_id().alias("transaction_id"),
            *(column.alias(name) for name, column in order.items()),
            *(column.alias(name) for name, column in zip(_FILE, files.place(), strict=True)),
        )
        if options.transaction_id_column is None:
            rows = _with_ids(rows, name_rows(options))
    return rows, [*order, *_FILE, "transaction_id"]


def name_rows(options: LoadOptions) -> str:
    """Return what ids and names of batches begin with: the name of the load, and with keys a salt,
    because the database stores them in clear beside encrypted rows.
    """
    keys = () if options.key_file is None else read_keys(None, options.key_file)
    return options.name + make_salt(keys, "load")


def _with_ids(rows: DataFrame, name: str) -> DataFrame:
    """Return an id from file and content; rows that are the same are told apart by counting
    them.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    content = F.md5(F.to_json(F.struct("partition", "payload")))
    same = Window.partitionBy("_file", "_content").orderBy("_block", "_row")
    parts = (F.lit(name), F.col("_file"), F.col("_content"), F.row_number().over(same))
    text = F.concat_ws("\n", *(part.cast("string") for part in parts))
    return (
        rows.withColumn("_content", content)
        .withColumn("transaction_id", F.concat(F.lit("load-"), F.md5(text)))
        .drop("_content")
    )


class _Files:
    """The rows of the files, whatever their format."""

    def __init__(self, spark: SparkSession, options: LoadOptions) -> None:
        self._options = options
        self._is_text = options.format == "json"
        paths = list(options.inputs)
        if self._is_text:
            self.rows = spark.read.text(paths).where("trim(value) <> ''")
        elif options.format == "csv":
            reader = spark.read.options(header="true", sep=options.delimiter, mode="FAILFAST")
            self.rows = reader.csv(paths)
        else:
            self.rows = spark.read.parquet(*paths)

    def _field(self, name: str, option: str) -> Column:
        from pyspark.sql import functions as F

        if self._is_text:
            return F.get_json_object("value", f"$['{name}']")
        if name not in self.rows.columns:
            raise InvalidRequest(
                f"{option} {name!r} is not a column; use one of {', '.join(self.rows.columns)}"
            )
        return F.col(_quote(name))

    def partition(self) -> Column:
        from pyspark.sql import functions as F

        if self._options.partition_column is None:
            return F.lit(self._options.partition or _DEFAULT_PARTITION)
        return self._field(self._options.partition_column, "--partition-column").cast("string")

    def transaction_id(self) -> Column:
        from pyspark.sql import functions as F

        if self._options.transaction_id_column is None:
            return F.lit(None).cast("string")
        column = self._field(self._options.transaction_id_column, "--transaction-id-column")
        # A row without one could not be told from itself later, so it is a bad row; "" makes it so.
        return F.coalesce(column.cast("string"), F.lit(""))

    def payload(self) -> Column:
        from pyspark.sql import functions as F

        name = self._options.payload_column
        if name is None and self._is_text:
            return F.col("value")
        if name is None:
            return F.to_json(F.struct(*map(_quote, self.rows.columns)), _JSON)
        column = self._field(name, "--payload-column")
        kind = "string" if self._is_text else self.rows.schema[name].dataType.simpleString()
        if kind.startswith(("string", "varchar(", "char(")):
            return column.cast("string")
        if not kind.startswith(("struct<", "array<", "map<", "variant")):
            raise InvalidRequest(
                f"--payload-column {name!r} is of type {kind}; give a column that is text with"
                " JSON in it, or a struct, array, map or variant"
            )
        return F.to_json(column, _JSON)

    def sort_key(self, name: str) -> list[Column]:
        column = self._field(name, "--sort-column")
        if self._options.format == "parquet":
            return [column]
        # Text that is a number is sorted as one.
        return [column.try_cast("double"), column]

    def place(self) -> tuple[Column, Column, Column]:
        """Return file, part of the file and row in it: the order of the rows in the files."""
        from pyspark.sql import functions as F

        file = F.col("_metadata.file_path")
        if self._options.format == "parquet":
            return file, F.lit(0).cast("long"), F.col("_metadata.row_index")
        return file, F.col("_metadata.file_block_start"), F.monotonically_increasing_id()


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
