"""The job that checks invariants: in the live tables, in the history, in the lake."""
