"""Hypothesis for a shared machine: no deadline per example, and a seed to repeat a failure with."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("queen", deadline=None, print_blob=True)
settings.load_profile("queen")
