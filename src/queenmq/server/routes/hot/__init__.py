"""Serves the hot routes: push, pop, ack and transactions, straight on the engine.

The edge calls them with parsed bytes, without a framework in between. The other routes run on
Starlette and talk to a store.
"""
