"""The jobs of `queen pipeline`: each can say what it would do, do it, and do it again."""

from __future__ import annotations
