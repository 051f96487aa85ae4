"""Builds what routes share of an answer: status codes, errors, health, refusals."""
