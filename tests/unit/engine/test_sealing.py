"""Names of messages that are encrypted before it is known whether they have to be."""

from __future__ import annotations

from uuid import uuid4

from queenmq.crypto.keys import Key
from queenmq.crypto.vault import Vault
from queenmq.engine.push.naming import name_spooled
from queenmq.engine.push.sealing import Sealing
from queenmq.engine.requests import PartitionKey, PushItems, RequestKey


def _request(key: RequestKey) -> PushItems:
    return PushItems(
        keys=[PartitionKey("q", "p")] * 3,
        payloads=["1", "2", "3"],
        transaction_ids=[None, "given", None],
        request_key=key,
    )


def test_a_keyed_request_has_the_same_names_encrypted_or_not() -> None:
    """It may be kept on disk encrypted, and be answered again from its key."""
    key = RequestKey(uuid4(), uuid4())
    sealed = _request(key)
    Sealing(Vault([Key("k", b"0" * 32)])).fit_for_disk(sealed, lambda _: None)
    assert sealed.encrypted == [True] * 3
    assert sealed.transaction_ids == name_spooled(_request(key), key)


def test_a_copy_has_the_same_names_and_another_request_under_the_key_has_others() -> None:
    """Queen forgets keys, and does not forget the names of messages."""
    key = RequestKey(uuid4(), uuid4())
    names = name_spooled(_request(key), key)
    assert names[1] == "given"
    assert names == name_spooled(_request(key), key._replace(origin=uuid4()))
    other = name_spooled(_request(key), key._replace(digest=uuid4()))
    assert set(names) & set(other) == {"given"}
