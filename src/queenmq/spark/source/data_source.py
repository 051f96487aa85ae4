"""The data source `queen`: connects Spark's calls to readers and writers."""

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

from queenmq.crypto.keys import read_keys
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
        """Return the name for `format("queen")`."""
        return "queen"

    def schema(self) -> StructType:
        """Return the columns of a read. They depend on the options."""
        if tables.is_definition(self.options):
            return tables.define_table(self.options)
        return spark_schema(read_options(tables.with_database(tables.locate(self.options))))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for `spark.read`."""
        return QueenBatchReader(self._check(schema, is_stream=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader for `spark.readStream`."""
        return QueenStreamReader(self._check(schema, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for `df.write` and INSERT."""
        options = tables.merge_write_options(self.options, schema)
        if tables.is_table(schema):
            return make_writer(options, schema, overwrite, TableWriter)
        return make_writer(options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer for `df.writeStream`."""
        return make_stream_writer(
            tables.merge_write_options(self.options, schema), schema, overwrite
        )

    def _check(self, schema: StructType, *, is_stream: bool) -> ReadOptions:
        options = read_options(tables.merge_read_options(self.options, schema), is_stream=is_stream)
        check_schema(schema, options)
        is_nullable = all(field.nullable for field in schema)
        keys = () if options.key_file is None else tuple(read_keys(None, options.key_file))
        return replace(options, is_nullable=is_nullable, keys=keys)
