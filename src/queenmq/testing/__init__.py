"""Owns what users' tests and ours share: a fake clock, signals, an embedded broker.

Never imported by production code below the command line.
"""
