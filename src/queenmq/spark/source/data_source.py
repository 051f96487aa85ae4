"""The data source `queen`: which part of it does what Spark asks for."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from queenmq.spark.sink.table_writer import TableWriter
from queenmq.spark.sink.writers import make_stream_writer, make_writer
from queenmq.spark.source import tables
from queenmq.spark.source.batch_reader import QueenBatchReader
from queenmq.spark.source.options import ReadOptions, read_options
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
        if tables.is_definition(self.options):
            return tables.define_table(self.options)
        return spark_schema(read_options(tables.with_database(tables.locate(self.options))))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return QueenBatchReader(self._checked(schema, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        return QueenStreamReader(self._checked(schema, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write` and INSERT."""
        options = tables.writing(self.options, schema)
        if tables.is_table(schema):
            return make_writer(options, schema, overwrite, TableWriter)
        return make_writer(options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        return make_stream_writer(tables.writing(self.options, schema), schema, overwrite)

    def _checked(self, schema: StructType, *, is_stream: bool) -> ReadOptions:
        options = read_options(tables.reading(self.options, schema), is_stream=is_stream)
        check_schema(schema, options)
        is_nullable = all(field.nullable for field in schema)
        return replace(options, is_nullable=is_nullable)
