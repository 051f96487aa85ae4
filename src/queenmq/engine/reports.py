"""Reports on work that fails after its request was answered.

Operators see the stored reason over HTTP, so it must not name roles, constraints or tables. The log
has those, under the error id at the end of the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from queenmq.errors import is_confidential, public_text
from queenmq.ids import new_error_id

logger = logging.getLogger(__name__)


def report(error: Exception, what: str, facts: Mapping[str, object]) -> str:
    """Return the public reason why `what` failed. Log the rest, if there is more."""
    if not is_confidential(error):
        return str(error)
    error_id = new_error_id()
    logger.warning("%s: %s", what, error, extra={**facts, "error_id": error_id})
    return f"{public_text(error)}; error id {error_id}"
