"""Hands out messages: the pop path from a request to leased messages or an empty answer.

Enters: pops, and news about partitions. Leaves: one answer for each pop. Start with `machine.py`
(the states of a pop), then `board/board.py` (the waiting pops), then `service.py` (the event loop
side).
"""
