"""The contract of Queen MQ 0.15.1, route by route: what its clients may rely on."""
