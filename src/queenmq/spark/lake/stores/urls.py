"""Translates URLs of object stores between delta-rs and Spark, and explains errors. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from queenmq.errors import InvalidRequest


@dataclass(frozen=True)
class Store:
    """A kind of object store."""

    #: How Spark begins its URLs.
    spark_scheme: str
    #: The variables of the environment that delta-rs takes credentials from.
    credentials: str
    #: What Spark needs to write checkpoints and read files there by itself.
    jar: str
    example: str


_S3 = Store(
    "s3a",
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION",
    "org.apache.hadoop:hadoop-aws",
    "s3://bucket/lake",
)
_GOOGLE = Store(
    "gs",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "org.apache.hadoop:hadoop-gcp",
    "gs://bucket/lake",
)
_AZURE = Store(
    "abfss",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "org.apache.hadoop:hadoop-azure",
    "abfss://container@account.dfs.core.windows.net/lake",
)
#: By the scheme that users write.
STORES = {"s3": _S3, "s3a": _S3, "gs": _GOOGLE, "abfs": _AZURE, "abfss": _AZURE}
#: Schemes that delta-rs writes in another way than users may.
_CANONICAL = {"s3a": "s3", "abfs": "abfss"}
#: File systems that both know by the same URL.
_OTHERS = ("hdfs", "viewfs")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m|\u21b3")


def normalize_url(text: str) -> str:
    """Return the URL of a lake as delta-rs takes it. Raises InvalidRequest for any other URL."""
    parts = urlsplit(text)
    if parts.scheme in _OTHERS:
        return text.rstrip("/")
    if parts.scheme not in STORES:
        known = "s3://, gs://, abfss:// or hdfs://"
        raise InvalidRequest(
            f"the lake {text!r} begins with {parts.scheme}://, which is not a supported store;"
            f" give a folder, or a URL that begins with {known}"
        )
    store = STORES[parts.scheme]
    if not parts.netloc or parts.query or parts.fragment or parts.password:
        raise InvalidRequest(
            f"the lake {text!r} must be a store and a path, as in {store.example};"
            f" credentials come from {store.credentials}"
        )
    scheme = _CANONICAL.get(parts.scheme, parts.scheme)
    return f"{scheme}://{parts.netloc}{parts.path}".rstrip("/")


def find_store(location: str) -> Store | None:
    """Return the kind of store of a lake; None for a folder or another file system."""
    return STORES.get(urlsplit(location).scheme)


def to_spark_url(location: str) -> str:
    """Return the location as Spark takes it."""
    store = find_store(location)
    if store is None:
        return location
    return f"{store.spark_scheme}://{location.partition('://')[2]}"


def explain(location: str, text: str) -> str:
    """Return why a store could not be used, and what to do, from the text of an error."""
    plain = " ".join(_COLOURS.sub(" ", text).split())
    store = find_store(location)
    if store is None:
        return plain
    place = urlsplit(location).netloc
    for pattern, words in (
        (
            # Where machines in a cloud get theirs; no server answers elsewhere.
            r"169\.254\.169\.254|metadata\.google\.internal|/latest/api/token|/latest/meta-data"
            r"|Missing (AccessKeyId|SecretAccessKey)",
            f"there are no credentials; set {store.credentials}",
        ),
        (r"NoSuchBucket|BucketNotFound|ContainerNotFound", f"{place} does not exist; create it"),
        (
            r"AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|AuthenticationFailed"
            r"|ExpiredToken|40[13] ",
            f"the store refused the credentials; check {store.credentials}, and the rights on"
            f" {place}",
        ),
        (
            r"URL scheme is not allowed",
            "its endpoint is plain http; set AWS_ALLOW_HTTP=true if that is intended",
        ),
        (
            r"client error \(Connect\)|dns error|operation timed out|connection closed",
            f"no server answers{_endpoint(plain)}; check the network and any endpoint setting",
        ),
    ):
        if re.search(pattern, plain):
            return words
    return plain


def _endpoint(text: str) -> str:
    found = re.search(r"https?://[^/\s?]+", text)
    return f" at {found.group()}" if found else ""
