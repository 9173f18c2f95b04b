"""A certificate for the simulator's own HTTPS port.

kubectl and every other Go client leave out the bearer token when a server is reached by plain HTTP, so the
kubeconfig names an HTTPS port and trusts this one certificate. Its key is made at each start and never leaves
the process but for the moment in which the TLS library reads it from a private file.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import pathlib
import ssl
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NOT_BEFORE = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
NOT_AFTER = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)
"""Wide bounds: clients check them by the machine's clock, which the simulator does not look at."""


@dataclasses.dataclass(frozen=True)
class Identity:
    """What a TLS server needs, and what its clients need to trust it."""

    context: ssl.SSLContext
    """Holds the certificate and its key."""
    authority_pem: bytes
    """The certificate, which is its own authority."""


def create(address: str) -> Identity:
    """Make a certificate for a server at an IP address."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tpuctl simulator")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOT_BEFORE)
        .not_valid_after(NOT_AFTER)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_usage(), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority_pem = certificate.public_bytes(serialization.Encoding.PEM)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Identity(_context(key_pem + authority_pem), authority_pem)


def _context(chain_pem: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Created readable by its owner alone, and gone before the server answers.
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        pathlib.Path(file.name).write_bytes(chain_pem)
        context.load_cert_chain(file.name)
    return context


def _usage() -> x509.KeyUsage:
    """A server's key that also signs one certificate, its own; strict verifiers want both said."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
