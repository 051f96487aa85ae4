"""Serves the dashboard: the files of `queenmq/dashboard/`, unchanged.

`assets.py` reads, hashes and compresses them once. `routes/inspection/dashboard.py` answers with
them. The page holds no data: it asks the public API, which checks each request.
"""
