"""An authority for tests of TLS, with certificates in files."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import trustme


class Pki:
    """Files of an authority: a server's certificate, a client's, and itself."""

    def __init__(self, home: Path) -> None:
        self.ca, self.client_ca = trustme.CA(), trustme.CA()
        self.ca_file, self.client_ca_file = str(home / "ca.pem"), str(home / "clients.pem")
        self.ca.cert_pem.write_to_path(self.ca_file)
        self.client_ca.cert_pem.write_to_path(self.client_ca_file)
        self.cert, self.key = home / "cert.pem", home / "key.pem"
        self.client_cert, self.client_key = str(home / "c.pem"), str(home / "ck.pem")
        client = self.client_ca.issue_cert("client@example.org")
        client.cert_chain_pems[0].write_to_path(self.client_cert)
        client.private_key_pem.write_to_path(self.client_key)
        self.issue()

    def issue(self) -> int:
        """Write a new certificate; its serial number."""
        leaf = self.ca.issue_cert("127.0.0.1", "localhost")
        # The key first: a look in between sees a pair that does not fit, and keeps the old one.
        leaf.private_key_pem.write_to_path(str(self.key))
        leaf.cert_chain_pems[0].write_to_path(str(self.cert))
        der = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
        from cryptography.x509 import load_der_x509_certificate

        return load_der_x509_certificate(der).serial_number

    @property
    def environ(self) -> dict[str, str]:
        return {"QUEEN_TLS_CERT": str(self.cert), "QUEEN_TLS_KEY": str(self.key)}

    def context(self, **options: Any) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        for name, value in options.items():
            setattr(context, name, value)
        return context
