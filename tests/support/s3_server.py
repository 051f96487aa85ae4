"""An S3 server on a port of its own, as a process: `python -m tests.support.s3_server <socket>`.

The port is taken when a test run begins, because Spark's workers know the environment of that
moment. Nobody answers there before a test starts the server.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.broker import SOON_S
from tests.support.waiting import wait_until


class S3Port:
    """A port for an S3 server, and the variables by which delta-rs finds it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
        }

    @contextmanager
    def serve(self, *buckets: str) -> Iterator[None]:
        """Run the server for a while, with some buckets."""
        handle = self._socket.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(handle)],
            pass_fds=[handle],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for bucket in buckets:
                # The socket listens already, so this waits for the server.
                answer = httpx.put(f"{self.url}/{bucket}", timeout=SOON_S)
                assert answer.status_code == 200, answer.text
            yield
        finally:
            process.terminate()
            wait_until(
                lambda: process.poll() is not None, timeout_s=SOON_S, what="the S3 server to end"
            )

    def close(self) -> None:
        self._socket.close()


def main(handle: str) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    make_server("127.0.0.1", 0, application, threaded=True, fd=int(handle)).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
