"""Owns every decision of the broker and the shells that carry decisions out.

Knows no SQL, no HTTP and no wire format; time, randomness and the store come in as arguments.
"""
