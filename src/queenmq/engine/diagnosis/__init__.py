"""Explains why a group does not move on.

Enters: facts about a queue and a group. Leaves: findings in words. Start with `findings.py`.
"""
