"""A bundle that is not what it says it is: every kind of change is refused, and nothing unpacked before."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.export.small_bundle import SmallWorld, make_world

from auricle.wire.bundle import BundleError, sign
from auricle.wire.identity import Identity
from auricle_export.flash.bundle.build import Built
from auricle_export.flash.bundle.verify import verify_bundle


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    return make_world(tmp_path, monkeypatch)


@pytest.fixture
def bundle(world: SmallWorld, tmp_path: Path) -> Built:
    return world.build(tmp_path / "out", key=tmp_path / "key")


@pytest.fixture
def folder(bundle: Built, tmp_path: Path) -> Path:
    with tarfile.open(bundle.path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    return tmp_path / "unpacked"


def test_a_tar_and_its_folder_are_the_same_bundle(bundle: Built, folder: Path) -> None:
    assert bundle.signed_by is not None
    found = verify_bundle(bundle.path, bundle.signed_by)
    assert found == verify_bundle(folder, bundle.signed_by)
    facts = (bundle.identity, bundle.manifest, bundle.signed_by)
    assert (found.identity, found.manifest, found.signed_by) == facts


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        assert old in content
        (folder / name).write_bytes(content.replace(old, new, 1))

    return change


def written(name: str, content: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return change


def longer(folder: Path) -> None:
    with (folder / "pack.tar.zst").open("ab") as file:
        file.write(b"x")


def linked(folder: Path) -> None:
    (folder / "etc/edge.toml").rename(folder.parent / "elsewhere")
    (folder / "etc/edge.toml").symlink_to(folder.parent / "elsewhere")


def linked_above(folder: Path) -> None:
    (folder / "etc").rename(folder.parent / "etc")
    (folder / "etc").symlink_to(folder.parent / "etc")


def signature_forged(folder: Path) -> None:
    forged = json.loads(sign(Identity.create(), (folder / "bundle.json").read_bytes()))
    mine = json.loads((folder / "bundle.sig").read_bytes())
    (folder / "bundle.sig").write_text(json.dumps({**mine, "signature": forged["signature"]}))


CHANGES: dict[str, Callable[[Path], None]] = {
    "changed": replaced("slots.py", b"import", b"Import"),
    "longer": longer,
    "empty": written("install", b""),
    "missing": lambda folder: (folder / "etc/edge.toml").unlink(),
    "linked": linked,
    "linked above": linked_above,
    "added": written("wheels/extra.whl", b""),
    "manifest changed": replaced("bundle.json", b'"home"', b'"barn"'),
    "manifest gone": lambda folder: (folder / "bundle.json").unlink(),
    "manifest huge": written("bundle.json", b" " * (1 << 20 | 1)),
    "manifest deep": written("bundle.json", b"[" * 100_000),
    "signature forged": signature_forged,
    "signature strange": written("bundle.sig", b"{}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_folder_that_was_changed_is_refused(change: str, folder: Path) -> None:
    CHANGES[change](folder)
    with pytest.raises(BundleError):
        verify_bundle(folder)


Members = list[tuple[tarfile.TarInfo, bytes]]


def rewritten(bundle: Path, edit: Callable[[Members], None]) -> Path:
    with tarfile.open(bundle) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    edit(members)
    to = bundle.with_suffix(".other")
    with tarfile.open(to, "w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return to


def executable(members: Members) -> None:
    next(member for member, _ in members if member.name == "etc/edge.toml").mode = 0o4755


def hard_link(members: Members) -> None:
    member = next(member for member, _ in members if member.name == "slots.py")
    member.type, member.linkname, member.size = tarfile.LNKTYPE, "install", 0


EDITS: dict[str, Callable[[Members], None]] = {
    "twice": lambda members: members.append(members[-1]),
    "outside": lambda members: members.append((tarfile.TarInfo("../outside"), b"")),
    "executable": executable,
    "hard link": hard_link,
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_tar_that_holds_something_else_is_refused(edit: str, bundle: Built) -> None:
    with pytest.raises(BundleError):
        verify_bundle(rewritten(bundle.path, EDITS[edit]))


def test_a_header_that_makes_a_parser_loop_is_not_parsed(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 10
    bundle = tmp_path / "bundle.tar"
    bundle.write_bytes(entry.tobuf(tarfile.USTAR_FORMAT) + b"0 path=xx\n".ljust(512, b"\0"))
    with pytest.raises(BundleError, match="plain file"):
        verify_bundle(bundle)


def test_who_must_have_signed_is_asked_for_and_what_is_no_bundle_is_said(
    bundle: Built, folder: Path, tmp_path: Path
) -> None:
    other = Identity.create().public.hex()
    with pytest.raises(BundleError, match="key"):
        verify_bundle(bundle.path, other)
    (folder / "bundle.sig").unlink()
    with pytest.raises(BundleError, match="not signed"):
        verify_bundle(folder, other)
    assert verify_bundle(folder).signed_by is None

    (tmp_path / "text").write_text("hello " * 1000)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match="neither"):
        verify_bundle(tmp_path / "text")
    with pytest.raises(BundleError, match=r"bundle\.json"):
        verify_bundle(tmp_path / "empty")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255), cut=st.booleans())
def test_no_damaged_byte_changes_what_is_verified(bundle: Built, at: float, flip: int, cut: bool) -> None:
    data = bytearray(bundle.path.read_bytes())
    place = int(at * len(data))
    data[place] ^= flip
    damaged = bundle.path.with_suffix(".damaged")
    damaged.write_bytes(data[:place] if cut else data)

    try:
        found = verify_bundle(damaged)
    except BundleError:
        return
    finally:
        damaged.unlink()
    assert (found.identity, found.signed_by) in ((bundle.identity, bundle.signed_by), (bundle.identity, None))
