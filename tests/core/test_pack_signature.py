"""Signatures of packs: made once, verified whenever a pack is read, asked for by those who trust only some keys."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core import tiny_pack

from auricle.errors import PackError
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.shipped import SHIPPED
from auricle.packs.signature import DOMAIN, encode_signature, public_key, read_trusted_key, sign_manifest
from auricle.process.cli import main
from auricle.wire.identity import Identity

ALICE, BOB = (Identity(bytes([i]) * 32) for i in (1, 2))


def _signed(identity: Identity = ALICE) -> Pack:
    pack = tiny_pack.pack()
    return pack.signed(sign_manifest(identity, pack.manifest_bytes))


def _write(tmp_path: Path, pack: Pack) -> Path:
    path = tmp_path / "tiny.tar.zst"
    path.write_bytes(pack_bytes(pack))
    return path


def _folder(tmp_path: Path, pack: Pack, signature: bytes | None) -> Path:
    folder = tmp_path / "tiny"
    for path, content in {"manifest.json": pack.manifest_bytes, **pack.files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    if signature is not None:
        (folder / "manifest.sig").write_bytes(signature)
    return folder


def test_a_signature_survives_both_forms_and_leaves_the_identity(tmp_path: Path) -> None:
    pack = _signed()
    assert pack.signature is not None

    archive = load_pack(_write(tmp_path, pack))
    folder = load_pack(_folder(tmp_path, pack, encode_signature(pack.signature)))

    for loaded in (archive, folder):
        assert loaded.signature == pack.signature
        assert loaded.identity == tiny_pack.pack().identity == hashlib.sha256(pack.manifest_bytes).hexdigest()
        assert pack_bytes(loaded) == pack_bytes(pack)
    assert pack_bytes(pack) != pack_bytes(tiny_pack.pack())
    signature = ALICE.sign(DOMAIN + pack.manifest_bytes).hex()
    content = json.loads(encode_signature(pack.signature))
    assert content == {"format": 1, "key": ALICE.public.hex(), "signature": signature}


def test_trusted_keys_decide_who_may_have_signed(tmp_path: Path) -> None:
    signed = _write(tmp_path, _signed())

    assert load_pack(signed).signature is not None
    assert load_pack(signed, trusted=[BOB.public, ALICE.public]).signature is not None
    with pytest.raises(PackError, match=f"{ALICE.public.hex()[:16]}..., which is not a trusted key"):
        load_pack(signed, trusted=[BOB.public])
    with pytest.raises(PackError, match="not a trusted key"):
        load_pack(signed, trusted=[])
    signed.write_bytes(pack_bytes(tiny_pack.pack()))
    assert load_pack(signed).signature is None
    with pytest.raises(PackError, match="not signed"):
        load_pack(signed, trusted=[ALICE.public])


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_pack_comes_with_the_program_and_needs_no_signature(name: str) -> None:
    assert load_pack(name, trusted=[ALICE.public]).signature is None


def test_other_words_are_another_pack_that_nobody_signed() -> None:
    assert _signed().with_labels(("on", "off")).signature is None
    assert _signed().with_labels(tiny_pack.TASK.labels, "other").signature is None


def _replaced(**changes: Any) -> bytes:
    signature = _signed().signature
    assert signature is not None
    return encode_signature(msgspec.structs.replace(signature, **changes))


FORGED = {
    "another manifest": encode_signature(sign_manifest(ALICE, b"{}")),
    "another domain": _replaced(signature=ALICE.sign(tiny_pack.pack().manifest_bytes).hex()),
    "another key": _replaced(key=BOB.public.hex()),
    "zeros": _replaced(signature="00" * 64),
    "no point of the curve": _replaced(key="ff" * 32),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_signature_that_does_not_verify_is_refused_even_where_none_is_asked_for(tmp_path: Path, how: str) -> None:
    folder = _folder(tmp_path, tiny_pack.pack(), FORGED[how])
    with pytest.raises(PackError, match="The signature of the pack tiny is not one over its manifest"):
        load_pack(folder)


def test_a_changed_manifest_needs_a_new_signature(tmp_path: Path) -> None:
    folder = _folder(tmp_path, tiny_pack.pack(), _replaced())
    manifest = (folder / "manifest.json").read_bytes()
    for changed in (manifest.replace(b'"yes"', b'"yep"'), manifest + b"\n"):
        (folder / "manifest.json").write_bytes(changed)
        with pytest.raises(PackError, match="signature"):
            load_pack(folder)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        *((data, "not valid") for data in (b"", b"{}", b"\xff", b"[" * 900, _replaced().replace(b"{", b'{"more":1,'))),
        *((_replaced(**no), "not valid") for no in ({"key": "00" * 31}, {"key": "AA" * 32}, {"signature": "00" * 65})),
        (b" " * 2000, "1024 bytes"),
        (_replaced(format=2), "format 2"),
    ],
)
def test_a_file_that_is_no_signature_is_refused(tmp_path: Path, data: bytes, sentence: str) -> None:
    with pytest.raises(PackError, match=sentence):
        load_pack(_folder(tmp_path, tiny_pack.pack(), data))


def test_a_public_key_is_64_hex_digits() -> None:
    assert public_key(f" {ALICE.public.hex()}\n") == ALICE.public
    for text in ("", "00" * 31, "zz" * 32, "/etc/passwd"):
        with pytest.raises(PackError, match="public key"):
            public_key(text)


@pytest.mark.parametrize(
    "command",
    [["edge", "run", "--device", "kitchen-1", "--data", "/no/where", "--coordinator", "00" * 32], ["cloud", "serve"]],
)
@pytest.mark.several
def test_a_device_and_a_coordinator_refuse_a_pack_that_their_key_has_not_signed(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pack.tar.zst").write_bytes(pack_bytes(load_pack("digits")))
    given = ["--fleet", "home", "--broker", "mqtt://a:b@127.0.0.1:1", "--state", str(tmp_path / "state")]
    code = main([*command, *given, "--pack", str(tmp_path / "pack.tar.zst"), "--pack-key", "ab" * 32])
    assert code == 2
    assert "not signed" in capsys.readouterr().err
    assert read_trusted_key(None) is None
