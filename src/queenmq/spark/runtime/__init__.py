"""Starts Spark: a session, its Java, its Python workers, its failures in one sentence."""
