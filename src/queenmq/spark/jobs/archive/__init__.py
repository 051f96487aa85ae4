"""The job `archive`: moves closed history into a lake and verifies it. Start with `job.py`."""
