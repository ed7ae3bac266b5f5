"""Images of deploy/ by digest: looked up in a registry that asks for a token, written everywhere, and checked."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from tools import image_digests
from tools.image_digests import DigestError, look_up, main, named, place_of, problems, read_lock

DEPLOY = image_digests.ROOT / "deploy"


def digest_of(image: str) -> str:
    return f"sha256:{sum(image.encode()):064x}"


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets")))
    assert main([], digest_of, copied) == 0
    return copied


def test_every_image_is_named_and_those_that_are_built_here_are_not() -> None:
    images = "eclipse-mosquitto grafana/grafana postgres prom/prometheus python"
    assert sorted({image.partition(":")[0] for image in named(DEPLOY)}) == images.split()


def test_an_image_without_a_digest_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "compose.yaml").write_text("services:\n  web:\n    image: nginx:1.29.1\n")
    assert main(["--check"], deploy=tmp_path) == 1
    assert "nginx:1.29.1" in capsys.readouterr().err


def test_what_is_pinned_is_pinned_everywhere_and_once(deploy: Path) -> None:
    assert problems(deploy) == []
    assert named(deploy) == {image: {digest_of(image)} for image in named(DEPLOY)}
    services = yaml.safe_load((deploy / "compose.yaml").read_text())["services"]
    assert services["postgres"]["image"] == f"postgres:17.6-bookworm@{digest_of('postgres:17.6-bookworm')}"
    assert services["coordinator"]["image"] == "auricle-coordinator:local"
    froms = [line for line in (deploy / "agent.Dockerfile").read_text().splitlines() if line.startswith("FROM")]
    assert froms[0] == f"FROM python:3.11.14-slim-bookworm@{digest_of('python:3.11.14-slim-bookworm')} AS build"
    before = {path: path.read_bytes() for path in image_digests.files(deploy)}

    assert main([], digest_of, deploy) == 0

    assert {path: path.read_bytes() for path in image_digests.files(deploy)} == before


def test_a_file_that_names_another_digest_or_another_tag_and_a_damaged_lock_are_told(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compose = deploy / "compose.yaml"
    whole = compose.read_text()
    right = digest_of("postgres:17.6-bookworm")
    compose.write_text(whole.replace(right, digest_of("another")))
    assert [told.split()[0] for told in problems(deploy)] == ["postgres:17.6-bookworm"]

    compose.write_text(whole.replace(f"eclipse-mosquitto:2.0.22@{digest_of('eclipse-mosquitto:2.0.22')}", "a:1"))

    assert [told.split()[0] for told in problems(deploy)] == ["a:1"]

    (deploy / "images.lock").write_text("postgres:17.6-bookworm latest\n")
    with pytest.raises(DigestError):
        read_lock(deploy / "images.lock")
    assert main(["--check"], deploy=deploy) == 1
    assert "images.lock" in capsys.readouterr().err


def test_what_the_tree_has_pinned_is_what_its_lock_says() -> None:
    """Nothing is pinned to a digest that nobody has looked up; where the lock is empty, nothing is pinned."""
    locked = read_lock(DEPLOY / "images.lock")
    assert {image: found - {None} for image, found in named(DEPLOY).items()} == {
        image: {locked[image]} if image in locked else set() for image in named(DEPLOY)
    }


@pytest.mark.parametrize(
    ("image", "place"),
    [
        ("python:3.13.9", ("docker.io", "library/python", "3.13.9")),
        ("prom/prometheus:v3.5.0", ("docker.io", "prom/prometheus", "v3.5.0")),
        ("ghcr.io/a/b:1", ("ghcr.io", "a/b", "1")),
        ("localhost:5000/b:1", ("localhost:5000", "b", "1")),
    ],
)
def test_where_an_image_is(image: str, place: tuple[str, str, str]) -> None:
    assert place_of(image) == place
    for untagged in ("python", "localhost:5000/b"):
        with pytest.raises(DigestError, match="tag"):
            place_of(untagged)


@contextmanager
def registry(answers: dict[str, str]) -> Iterator[str]:
    """One on loopback that gives a token to anybody, and knows these images."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"token": "let-me-in"}' if "scope=repository" in self.path else b"{}")

        def do_HEAD(self) -> None:
            if self.headers.get("Authorization") != "Bearer let-me-in":
                self.send_response(401)
                challenge = f'Bearer realm="{address}/token",service="here",scope="repository:library/python:pull"'
                self.send_header("WWW-Authenticate", challenge)
            elif self.path in answers and "image.index" in self.headers["Accept"]:
                self.send_response(200)
                self.send_header("Docker-Content-Digest", answers[self.path])
            else:
                self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_digest_is_asked_for_with_a_token_and_what_is_not_known_is_one_sentence() -> None:
    path = "/v2/library/python/manifests"
    with registry({f"{path}/3.13": digest_of("python"), f"{path}/odd": "latest"}) as address:
        assert look_up("python:3.13", address) == digest_of("python")
        with pytest.raises(DigestError, match=r"python:9 .* 404"):
            look_up("python:9", address)
        with pytest.raises(DigestError, match="python:odd"):
            look_up("python:odd", address)


def test_a_registry_that_is_away_changes_nothing(deploy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in image_digests.files(deploy)}
    assert main([], lambda image: look_up(image, "http://127.0.0.1:9"), deploy) == 1
    assert "docker.io" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in image_digests.files(deploy)} == before
