"""The data source `queen`: which part of it does what Spark asks for."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from queenmq.spark.sink.writers import make_stream_writer, make_writer
from queenmq.spark.source.batch_reader import QueenBatchReader, QueenPushDownReader
from queenmq.spark.source.options import read_options
from queenmq.spark.source.schema import check_schema, spark_schema
from queenmq.spark.source.stream_reader import QueenStreamReader


class QueenDataSource(DataSource):
    """`format("queen")` of `read`, `readStream`, `write` and `writeStream`."""

    @classmethod
    def name(cls) -> str:
        """As in `format("queen")`."""
        return "queen"

    def schema(self) -> StructType:
        """The columns of a read; they depend on the options."""
        return spark_schema(read_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        options = read_options(self.options, is_stream=False)
        check_schema(schema, options)
        return QueenPushDownReader(options) if options.push_down else QueenBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        options = read_options(self.options, is_stream=True)
        check_schema(schema, options)
        return QueenStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        return make_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        return make_stream_writer(self.options, schema, overwrite)
