"""Whose certificate is believed when updates are fetched: the claimed authority's, and nobody else's."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.edge.update_site import Repository, Server, at, serving

from auricle.errors import AuricleError, StorageError
from auricle.wire.claims import pin
from auricle_edge.ota.records import UpdateLaterError
from auricle_edge.ota.signed_targets import SignedTargets
from auricle_edge.ota.update_server import server_of

PEM = serialization.Encoding.PEM


@dataclass
class Authority:
    root: x509.Certificate
    server: bytes
    """Certificate and key, PEM."""


def authority() -> Authority:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("root", "server")]
    made = []
    for key, name, is_root in zip(keys, names, (True, False), strict=True):
        builder = x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(datetime.datetime(2020, 1, 1))
        builder = builder.not_valid_after(datetime.datetime(2100, 1, 1))
        builder = builder.add_extension(x509.BasicConstraints(ca=is_root, path_length=None), critical=True)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made.append(builder.add_extension(address, critical=False).sign(keys[0], hashes.SHA256()))
    private = keys[1].private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Authority(made[0], made[1].public_bytes(PEM) + private)


@pytest.fixture
def ours() -> Authority:
    return authority()


@pytest.fixture
def server(tmp_path: Path, ours: Authority) -> Iterator[Server]:
    (tmp_path / "server.pem").write_bytes(ours.server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    repository = Repository()
    repository.files = {f"v1/updates/{path}": content for path, content in repository.files.items()}
    with serving(repository) as running:
        running.http.socket = context.wrap_socket(running.http.socket, server_side=True)
        running.url = running.url.replace("http:", "https:")
        yield running


def claimed(state: Path, url: str, believed: x509.Certificate, pinned: x509.Certificate) -> Path:
    folder = state / "identity"
    folder.mkdir(parents=True)
    record = {"device": "kitchen-1", "server": url, "pin": pin(pinned), "renew_after": 0.0}
    (folder / "claim.json").write_text(json.dumps(record))
    (folder / "authority.pem").write_bytes(believed.public_bytes(PEM))
    return state


def refresh(folder: Path, server: Server, state: Path, url: str | None = None) -> None:
    SignedTargets(folder / "tuf", server_of(url, state), server.repository.root, at())


def test_the_server_of_the_claim_is_believed_by_its_authority(tmp_path: Path, ours: Authority, server: Server) -> None:
    state = claimed(tmp_path / "state", server.url, ours.root, ours.root)
    refresh(tmp_path, server, state)
    refresh(tmp_path, server, state, f"{server.url}/v1/updates")


def test_another_authoritys_server_is_not_spoken_to(tmp_path: Path, ours: Authority, server: Server) -> None:
    theirs = authority()
    state = claimed(tmp_path / "state", server.url, theirs.root, theirs.root)
    with pytest.raises(UpdateLaterError, match="hold"):
        refresh(tmp_path, server, state)
    assert server.asked == []
    state = claimed(tmp_path / "swapped", server.url, ours.root, theirs.root)
    with pytest.raises(StorageError, match="authority"):
        refresh(tmp_path, server, state)


@pytest.mark.parametrize("kind", ["pipe", "link", "huge"])
def test_an_authority_that_is_no_plain_file_is_not_waited_for(kind: str, tmp_path: Path, ours: Authority) -> None:
    state = claimed(tmp_path / "state", "https://hub.lan:8443", ours.root, ours.root)
    path = state / "identity/authority.pem"
    there = path.rename(tmp_path / "elsewhere.pem")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(there)
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(StorageError, match=r"authority\.pem"):
        server_of(None, state)


@pytest.mark.parametrize("text", ["{}", "not json", '{"device":"kitchen-1","server":"x","pin":"y"}'], ids=str)
def test_a_damaged_claim_is_a_sentence(text: str, tmp_path: Path, server: Server) -> None:
    (tmp_path / "state/identity").mkdir(parents=True)
    (tmp_path / "state/identity/claim.json").write_text(text)
    with pytest.raises(AuricleError):
        refresh(tmp_path, server, tmp_path / "state")
