"""Files that people write for boards, fleets and recipes are the same with a byte order mark, or in UTF-16 with one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from auricle.errors import AuricleError
from auricle.wire.claims import read_token_file, token_text
from auricle_export.flash.boards import load_board
from auricle_export.flash.fleet_file import load_fleet
from auricle_export.flash.push.hosts import read_hosts
from auricle_export.pretrain.recipe import load_recipe

CHECKOUT = Path(__file__).parents[2]
TOKEN = token_text("A" * 43, "https://hub:8443", "ab" * 32)
FLEET = f"""name = "home"
broker = "mqtts://hub.lan:8883"
server = "https://hub.lan:8443"
ca_pin = "{"ab" * 32}"
coordinator = "{"0f" * 32}"
[wifi]
ssid = "für uns"
psk_file = "wifi.txt"
country = "DE"
"""
FILES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "recipe": ("home.toml", (CHECKOUT / "export/auricle_export/pretrain/recipes/home.toml").read_text("utf-8"),
               lambda path: load_recipe(str(path))),
    "board": ("pi5.toml", (CHECKOUT / "firmware-configs/pi5.toml").read_text("utf-8"), load_board),
    "fleet": ("fleet.toml", FLEET, load_fleet),
    "passphrase": ("wifi.txt", "correct horse\n", lambda path: load_fleet(path.parent / "fleet.toml")),
    "token": ("kitchen.token", TOKEN, read_token_file),
    "boards": ("hosts.txt", "pi@10.0.0.7 # für die Küche\npi@10.0.0.8:2222\n", read_hosts),
}  # fmt: skip


def _folder(folder: Path) -> Path:
    (folder / "fleet.toml").write_text(FLEET, "utf-8")
    (folder / "wifi.txt").write_text("correct horse\n")
    return folder


@pytest.mark.parametrize("kind", FILES)
def test_a_byte_order_mark_changes_nothing(tmp_path: Path, kind: str) -> None:
    name, text, read = FILES[kind]
    path = _folder(tmp_path) / name
    path.write_text(text, "utf-8")
    told = read(path)
    for encoding in ("utf-8-sig", "utf-16"):
        for end in ("\n", "\r\n"):
            path.write_bytes(text.replace("\n", end).encode(encoding))
            assert read(path) == told


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("spoil", ["pipe", "folder", "zero bytes", "latin-1", "large"])
def test_what_is_no_text_is_one_sentence_at_once(tmp_path: Path, kind: str, spoil: str) -> None:
    name, text, read = FILES[kind]
    path = _folder(tmp_path) / name
    path.unlink(missing_ok=True)
    if spoil == "pipe":
        os.mkfifo(path)
    elif spoil == "folder":
        path.mkdir()
    else:
        content = {"zero bytes": text.encode() + b"\0", "latin-1": b"# f\xfcr\n", "large": b"#" * (17 << 20)}[spoil]
        path.write_bytes(content)
    with pytest.raises(AuricleError) as refused:
        read(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)
