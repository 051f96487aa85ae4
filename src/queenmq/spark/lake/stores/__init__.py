"""Lakes in object stores: their URLs, how to reach them, and their files without Spark's help."""
