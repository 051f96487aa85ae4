"""The pop board through 100,000 random steps: one answer for each pop, no wake is lost, and
look-ups keep their distance.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.support.pop_simulation import PopSimulation

_WORLDS, _STEPS = 20, 5_000
#: A seed to repeat, as a failing run prints it.
_SEED_VARIABLE = "QUEEN_TEST_SEED"


@pytest.mark.parametrize("world", range(_WORLDS))
def test_every_pop_is_answered_once_and_no_wake_is_lost(world: int) -> None:
    given = os.environ.get(_SEED_VARIABLE)
    seed = int(given) if given else random.SystemRandom().getrandbits(32)
    simulation = PopSimulation(seed)
    try:
        simulation.run(_STEPS)
    except AssertionError as error:
        raise AssertionError(f"{error}; repeat it with {_SEED_VARIABLE}={seed}") from error
    assert simulation.answered > 100 and simulation.delivered > 100
