"""Requests and answers about what a queue holds: queues, groups, messages, dead letters, traces."""
