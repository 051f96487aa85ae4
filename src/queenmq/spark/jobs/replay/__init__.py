"""The job `replay`: messages of a lake are pushed again. Start with `job.py`."""
