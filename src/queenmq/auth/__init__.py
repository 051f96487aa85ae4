"""Decides who sends a request and what they may do. Pure: no I/O, no clock, no settings.

Enters: tokens, claims and the time. Leaves: an Identity, or an error that says why not. Start with
`rights.py`, the table of what each route needs.
"""
