"""The job that measures queues: its inputs, its computations, and its outputs."""
