"""Other queues, measured in the same way as ours. One module each, named like the peer.

A module has NAME, PROMISES (what it promises less or more than we do) and `open_peer(home)`, which
starts the peer's server on a free loopback port with its data below `home` and stops it again. It
raises `Missing` when the peer is not installed. `requirements.txt` lists the clients; the servers
are Debian packages: redis-server, rabbitmq-server, nats-server.
"""
