"""The page's files, from the package's folder `page`: loaded once, nothing else is ever read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from aiohttp import web

from auricle_cloud.api.problems import RefusedError
from auricle_cloud.operations.round_answers import words_of_rounds

FOLDER = Path(__file__).parent / "page"

TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}

HEADERS = {
    "Server": "auricle",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every answer: nothing from outside, nothing inline, no frames."""


WORDS = "words.js"
"""The file that is made of what the coordinator itself calls things."""


def words() -> bytes:
    """These as constants of a script."""
    said = [f"export const {name} = {json.dumps(value, indent=2)};" for name, value in words_of_rounds().items()]
    return "\n".join(["/** Words of the coordinator. */", *said, ""]).encode()


class PageFiles:
    """Static files by their path below the page's folder, and `WORDS`."""

    def __init__(self) -> None:
        self._files = {
            path.relative_to(FOLDER).as_posix(): (path.read_bytes(), TYPES[path.suffix])
            for path in FOLDER.rglob("*")
            if path.suffix in TYPES and path.is_file() and not path.name.startswith(".")
        }
        self._files[WORDS] = words(), TYPES[".js"]

    async def serve(self, request: web.Request) -> web.Response:
        """Answer with a file; `/` is `index.html`."""
        path = request.match_info.get("path") or "index.html"
        if path not in self._files:
            raise RefusedError(404, "There is nothing at this address: /v1/openapi.json lists what there is.")
        content, kind = self._files[path]
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == tag:
            return web.Response(status=304, headers=headers)
        text = kind.startswith("text/") or kind.endswith(("+xml", "+json"))
        return web.Response(body=content, content_type=kind, charset="utf-8" if text else None, headers=headers)
