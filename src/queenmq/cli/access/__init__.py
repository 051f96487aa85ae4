"""Owns the commands about access: who may use the brokers, and what was done."""
