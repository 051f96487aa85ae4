"""The whole pop path against a model of the database, in every order of events.

Nobody is told that there is nothing while there is something for them all the time; nobody who
waits is forgotten; nothing is left behind when all is over.
"""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.support.model_store import StillLoop
from tests.support.pop_story import MODULES, Story


@given(st.binary(min_size=800, max_size=800))
@settings(max_examples=120)
def test_nobody_is_sent_away_or_forgotten_while_there_is_something_for_them(story: bytes) -> None:
    loop = StillLoop()
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "now_ms", loop.now_ms)
        try:
            told = Story(loop)
            told.tell(story)
            told.finish()
        finally:
            for intention in told.asked:
                # Errors that their callers would have read.
                if intention.answer.done() and not intention.answer.cancelled():
                    intention.answer.exception()
            loop.close()
