"""Name the container images of deploy/ by digest, so that nobody can put another image under the same tag.

    python tools/image_digests.py            # look every image up in its registry, write deploy/images.lock, and pin
    python tools/image_digests.py --check    # exit 1 where one is not pinned, or not as the lock says

A digest is what the registry answers for `name:tag`: that of the index of all architectures. It is looked up by
nothing but HTTPS, with a token that a registry gives to anybody. Images that are built here (`:local`) have none.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = "images.lock"
HEAD = "# Digests of the images that deploy/ names, by `python tools/image_digests.py`.\n"
PATTERNS = ("*.Dockerfile", "compose.yaml", "agent/compose.yaml", "kubernetes/*.yaml")
NAMED = re.compile(
    r"^(?P<before>FROM |\s*(?:- )?image: )(?P<image>[^\s@#&*]+)(?:@(?P<digest>sha256:[0-9a-f]{64}))?", re.M
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
SECONDS = 30
HUB, HUB_ADDRESS = "docker.io", "https://registry-1.docker.io"
Lookup = Callable[[str], str]


class DigestError(Exception):
    """A digest that is not known; the sentence says why."""


def files(deploy: Path) -> list[Path]:
    """Every file that names images."""
    return sorted(path for pattern in PATTERNS for path in deploy.glob(pattern))


def named(deploy: Path) -> dict[str, set[str | None]]:
    """By image that is not built here: the digests with which files name it; None: without one."""
    found: dict[str, set[str | None]] = {}
    for path in files(deploy):
        for match in NAMED.finditer(path.read_text(encoding="utf-8")):
            if not match["image"].endswith(":local"):
                found.setdefault(match["image"], set()).add(match["digest"])
    return found


def read_lock(path: Path) -> dict[str, str]:
    """Digest by image.

    Raises
    ------
    DigestError
        A line is not an image and its digest.
    """
    locked = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        if line.strip() and not line.startswith("#"):
            image, _, digest = line.partition(" ")
            if DIGEST.fullmatch(digest) is None:
                raise DigestError(f'{path.name}: "{line}" is no image with a digest.')
            locked[image] = digest
    return locked


def problems(deploy: Path) -> list[str]:
    """A sentence for each image that is not pinned as the lock says."""
    locked, images = read_lock(deploy / LOCK), named(deploy)
    said = [f"{image} is in {LOCK} and in no file." for image in sorted(locked.keys() - images)]
    for image, digests in sorted(images.items()):
        if image not in locked:
            said.append(f"{image} has no digest: python tools/image_digests.py looks it up.")
        elif digests != {locked[image]}:
            said.append(f"{image} is not everywhere named by the digest of {LOCK}: python tools/image_digests.py.")
    return said


def pin(deploy: Path, locked: Mapping[str, str]) -> None:
    """Write the lock, and each digest behind its image in every file."""

    def pinned(match: re.Match[str]) -> str:
        digest = locked.get(match["image"])
        return match[0] if digest is None else f"{match['before']}{match['image']}@{digest}"

    for path in files(deploy):
        path.write_text(NAMED.sub(pinned, path.read_text(encoding="utf-8")), encoding="utf-8")
    lines = "".join(f"{image} {digest}\n" for image, digest in sorted(locked.items()))
    (deploy / LOCK).write_text(HEAD + lines, encoding="utf-8")


# -- a registry


def place_of(image: str) -> tuple[str, str, str]:
    """Registry, repository and tag of an image as it is written.

    Raises
    ------
    DigestError
        It has no tag.
    """
    name, _, tag = image.rpartition(":")
    if not name or "/" in tag:
        raise DigestError(f"{image} has no tag.")
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first):
        return first, rest, tag
    return HUB, name if slash else f"library/{name}", tag


def look_up(image: str, address: str | None = None) -> str:
    """Ask the image's registry, or one at another address, for the digest.

    Raises
    ------
    DigestError
        It cannot be reached, does not know the image, or answers something else.
    """
    registry, repository, tag = place_of(image)
    base = address or (HUB_ADDRESS if registry == HUB else f"https://{registry}")
    request = urllib.request.Request(f"{base}/v2/{repository}/manifests/{tag}", method="HEAD")
    request.add_header("Accept", ", ".join(KINDS))
    try:
        try:
            answer = urllib.request.urlopen(request, timeout=SECONDS)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            request.add_header("Authorization", f"Bearer {_token(error.headers.get('WWW-Authenticate', ''))}")
            answer = urllib.request.urlopen(request, timeout=SECONDS)
        with answer:
            digest = str(answer.headers.get("Docker-Content-Digest", ""))
    except (OSError, ValueError) as error:
        raise DigestError(f"{image} cannot be looked up at {registry}: {error}") from error
    if DIGEST.fullmatch(digest) is None:
        raise DigestError(f"{image}: {registry} answers without a digest.")
    return digest


def _token(challenge: str) -> str:
    """What a registry gives to anybody who asks where its challenge says."""
    told = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = told.pop("realm", "")
    if urllib.parse.urlsplit(realm).scheme not in ("https", "http"):
        raise ValueError("the registry asks for a login and does not say where")
    with urllib.request.urlopen(f"{realm}?{urllib.parse.urlencode(told)}", timeout=SECONDS) as answer:
        found = json.loads(answer.read(1 << 20))
    token = found.get("token") or found.get("access_token")
    if not isinstance(token, str):
        raise ValueError("the registry gives no token")
    return token


def main(arguments: list[str] | None = None, lookup: Lookup = look_up, deploy: Path = ROOT / "deploy") -> int:
    """Look up and pin, or say what is not pinned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where an image is not pinned")
    given = parser.parse_args(arguments)
    try:
        if not given.check:
            pin(deploy, {image: lookup(image) for image in named(deploy)})
        said = problems(deploy)
    except DigestError as error:
        said = [str(error)]
    for sentence in said:
        print(sentence, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
