"""A server on this machine that sends one archive, whole or cut."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from auricle.speech.download import Archive


class ArchiveServer(ThreadingHTTPServer):
    """Serves one body; `cuts` are the numbers of bytes after which the next answers break off."""

    body = b""
    ranges = True
    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.cuts: list[int] = []
        self.asked: list[str | None] = []

    def archive(self, *, sha256: str | None = None, size: int | None = None) -> Archive:
        digest = sha256 or hashlib.sha256(self.body).hexdigest()
        return Archive("speech", f"http://127.0.0.1:{self.server_port}/speech.tar.gz", size or len(self.body), digest)


class _Handler(BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        asked = self.headers["Range"]
        self.server.asked.append(asked)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.ranges else 0
        if start >= len(self.server.body):
            self.send_error(416)
            return
        body = self.server.body[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.server.body) - 1}/{len(self.server.body)}")
        self.end_headers()
        self.wfile.write(body[: self.server.cuts.pop(0)] if self.server.cuts else body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving(body: bytes) -> Iterator[ArchiveServer]:
    """Serve a body until the block ends."""
    with ArchiveServer() as server:
        server.body = body
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def archive_of(members: Mapping[str, bytes | None], link: str = "") -> bytes:
    """Make a .tar.gz of files and folders (None), and a symbolic link where one is named."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.mode = 0o755
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
        if link:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    return held.getvalue()
