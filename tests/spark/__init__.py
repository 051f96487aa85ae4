"""Tests of the data source on a real Spark and a real PostgreSQL; skipped without the extra."""
