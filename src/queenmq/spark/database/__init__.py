"""Talks to PostgreSQL from Spark: connections, SQL texts, outages."""
