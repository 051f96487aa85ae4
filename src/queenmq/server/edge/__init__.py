"""The HTTP edge: bytes of a TCP connection in, requests out, answers back as bytes.

Start reading at `machine.py`, the states of a connection. `connection.py` moves through them,
`intake.py` puts a request together. `head.py`, `bodies.py`, `chunked.py`, `origins.py` and
`encodings.py` decide about single parts of a request without any I/O. `crowd.py` bounds what all
connections take together, `server.py` listens. The edge knows nothing about queues: it hands each
request to one function and sends what that answers.
"""
