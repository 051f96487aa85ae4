"""Defines routes by path, request and answers, and builds the OpenAPI document.

A decorator above its handler declares a route. Start with `spec.py`.
"""
