"""The job that measures queues: what it reads, what it works out, where the results go."""
