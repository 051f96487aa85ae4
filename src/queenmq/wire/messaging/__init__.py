"""Requests and answers of the hot routes: push, pop, ack, transactions."""
