"""A repository of signed targets made here, and a server on loopback that can be made to misbehave."""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]
from tuf.api.metadata import (  # type: ignore[attr-defined]
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from auricle_edge.board.trusted_time import TrustedTime
from auricle_edge.ota.signed_targets import SignedTargets
from auricle_edge.ota.update_server import Patience, UpdateServer

NOW = datetime.datetime(2026, 11, 22, tzinfo=datetime.timezone.utc)
DAY = datetime.timedelta(days=1)
ROLES = ("root", "targets", "snapshot", "timestamp")
KINDS: dict[str, Any] = {"root": Root, "targets": Targets, "snapshot": Snapshot, "timestamp": Timestamp}

Answer = Callable[[BaseHTTPRequestHandler], None]


def at(moment: datetime.datetime = NOW, kept: bool | None = True) -> TrustedTime:
    return TrustedTime(moment.timestamp(), kept)


class Repository:
    """Signed metadata and targets; what was published last is in `files`, by path."""

    def __init__(self, signers: dict[str, list[CryptoSigner]] | None = None) -> None:
        self.signers = signers or {role: [CryptoSigner.generate_ed25519()] for role in ROLES}
        self.files: dict[str, bytes] = {}
        self.parts: dict[str, Any] = {role: KINDS[role]() for role in ROLES}
        self.parts["root"].consistent_snapshot = True
        for role in ROLES:
            self.parts[role].expires = NOW + 30 * DAY
            for signer in self.signers[role]:
                self.parts["root"].add_key(signer.public_key, role)
            self.parts["root"].roles[role].threshold = len(self.signers[role])
        self.publish_root(again=False)
        self.root = self.files["metadata/1.root.json"]
        self.publish(again=False)

    def sign(self, role: str, signers: list[CryptoSigner] | None = None) -> bytes:
        """A part as it is now, signed by its own keys or by others."""
        metadata = Metadata(copy.deepcopy(self.parts[role]))
        for signer in self.signers[role] if signers is None else signers:
            metadata.sign(signer, append=True)
        data: bytes = metadata.to_bytes()
        return data

    def publish_root(self, *, again: bool = True, signers: list[CryptoSigner] | None = None) -> None:
        """The root; by the keys of the former one too when those are given."""
        root = self.parts["root"]
        root.version += again
        self.files[f"metadata/{root.version}.root.json"] = self.sign("root", signers)

    def publish(self, *, again: bool = True) -> None:
        for role in ROLES[1:]:
            self.parts[role].version += again
        targets, snapshot, timestamp = (self.parts[role] for role in ROLES[1:])
        snapshot.meta["targets.json"] = MetaFile(targets.version)
        timestamp.snapshot_meta = MetaFile(snapshot.version)
        self.files[f"metadata/{targets.version}.targets.json"] = self.sign("targets")
        self.files[f"metadata/{snapshot.version}.snapshot.json"] = self.sign("snapshot")
        self.files["metadata/timestamp.json"] = self.sign("timestamp")

    def add(self, path: str, content: bytes, custom: dict[str, Any] | None, *, publish: bool = True) -> str:
        """Offer a target; where it lies."""
        sha256 = hashlib.sha256(content).hexdigest()
        extra = {} if custom is None else {"custom": custom}
        self.parts["targets"].targets[path] = TargetFile(len(content), {"sha256": sha256}, path, extra)
        folder, _, name = path.rpartition("/")
        place = f"targets/{folder}/{sha256}.{name}"
        self.files[place] = content
        if publish:
            self.publish()
        return place

    def rotate(self, role: str) -> None:
        """Give a role a new key in a new root, as an operator does whose key was stolen."""
        old, new = self.signers[role], CryptoSigner.generate_ed25519()
        for signer in old:
            self.parts["root"].revoke_key(signer.public_key.keyid, role)
        self.parts["root"].add_key(new.public_key, role)
        self.signers[role] = [new]
        signers = [*old, new] if role == "root" else None
        self.publish_root(signers=signers)
        self.publish()

    def copied(self) -> Repository:
        """The same as it is now, to go another way from here."""
        twin = Repository.__new__(Repository)
        twin.signers = {role: list(signers) for role, signers in self.signers.items()}
        twin.files, twin.parts, twin.root = dict(self.files), copy.deepcopy(self.parts), self.root
        return twin


class Server:
    """Serves what a repository has published; `instead` answers single paths in another way."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.instead: dict[str, Answer] = {}
        self.asked: list[tuple[str, str | None]] = []
        """Paths with their Range."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.lstrip("/")
        self.asked.append((path, request.headers.get("Range")))
        if path in self.instead:
            self.instead[path](request)
            return
        content = self.repository.files.get(path)
        if content is None:
            request.send_error(404)
            return
        start = int((request.headers.get("Range") or "bytes=0-")[6:-1])
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        request.wfile.write(content[start:])


@contextmanager
def serving(repository: Repository | None = None) -> Iterator[Server]:
    """A running server; of a repository that never runs out unless one is given."""
    server = Server(lasting() if repository is None else repository)
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def lasting() -> Repository:
    repository = Repository()
    for part in repository.parts.values():
        part.expires = NOW.replace(year=2100)
    repository.publish_root()
    repository.publish()
    return repository


def whole(content: bytes) -> Answer:
    return cut(content, len(content))


def cut(content: bytes, sent: int) -> Answer:
    """Announce everything, send the beginning, hang up."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[:sent])
        request.close_connection = sent < len(content)

    return answer


def endless(piece: bytes = b" " * 65536, pause: float = 0.0) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.close_connection = True
        try:
            while True:
                request.wfile.write(piece)
                time.sleep(pause)
        except OSError:
            return

    return answer


def refresh(
    folder: Path, server: Server, root: bytes, now: TrustedTime | None = None, patience: Patience | None = None
) -> SignedTargets:
    return SignedTargets(folder, UpdateServer(server.url, patience=patience), root, now or at())


def altered(data: bytes, **changes: Any) -> bytes:
    decoded = json.loads(data)
    decoded["signed"].update(changes)
    return json.dumps(decoded).encode()
