"""Watches for the open transaction that keeps the messages of a stream waiting."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from queenmq.spark.database.connection import Database
from queenmq.spark.database.sql_text import fill, load
from queenmq.spark.source.selection import Selection

logger = logging.getLogger(__name__)


class Holders:
    """The open transactions that hold up one stream. Warns of each once."""

    def __init__(self, warn_after_s: int) -> None:
        self._warn_after_s = warn_after_s
        self._warned: set[str] = set()
        #: The one that messages wait for now.
        self.text: str | None = None

    def check(self, database: Database, selection: Selection, horizon: int) -> None:
        """Warn of a transaction that has kept messages above the horizon waiting for long."""
        self.text = None
        above = replace(selection, start=horizon)
        if above.is_empty:
            return
        for row in database.rows(fill(load("read")["holder"], selection=above.condition())):
            if (row["age_s"] or 0) >= self._warn_after_s:
                self._warn(row)

    def _warn(self, row: Mapping[str, Any]) -> None:
        self.text = f"pid {row['pid']}, {row['name']}, open for {row['age_s']} s"
        name = f"{row['pid']} {row['name']}"
        if name in self._warned:
            return
        self._warned.add(name)
        logger.warning(
            "new messages wait for an open transaction: %s",
            self.text,
            extra={
                "event": "spark_horizon_held",
                "holder_pid": row["pid"],
                "holder": row["name"],
                "age_s": row["age_s"],
            },
        )
