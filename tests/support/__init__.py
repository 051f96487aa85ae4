"""Helpers of several test folders: waiting, processes, data makers. Holds no tests."""
