"""The job `load`: files become messages. Start with `job.py`."""
