"""The jobs of `queen pipeline`. Each can plan, run, and be repeated safely."""

from __future__ import annotations
