"""Builds the parts of answers that routes share: status codes, errors, health, refusals."""
