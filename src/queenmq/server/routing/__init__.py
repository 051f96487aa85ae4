"""Owns what a route is: its path, its request, its answers; and the OpenAPI document of all.

A route says this itself, in a decorator above its handler. Start with `spec.py`.
"""
