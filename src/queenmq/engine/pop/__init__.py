"""Hands out messages: the pop path from a request to leased messages or an empty answer.

Enters: pops, and news about partitions. Leaves: one answer for each pop. Start with `machine.py`
(the states of a pop), then `board.py` (who waits for what), then `service.py` (what drives them).
"""
