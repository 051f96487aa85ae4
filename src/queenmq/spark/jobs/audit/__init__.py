"""The job that looks for what must not be: in the live tables, in the history, in the lake."""
