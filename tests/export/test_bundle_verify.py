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

from auricle.wire.identity import Identity
from auricle_export.flash.bundle.build import Built
from auricle_export.flash.bundle.manifest import BundleError, sign
from auricle_export.flash.bundle.verify import verify_bundle


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    """What small bundles are made of."""
    return make_world(tmp_path, monkeypatch)


@pytest.fixture
def bundle(world: SmallWorld, tmp_path: Path) -> Built:
    """A signed bundle."""
    return world.build(tmp_path / "out", key=tmp_path / "key")


@pytest.fixture
def folder(bundle: Built, tmp_path: Path) -> Path:
    """What it unpacks to."""
    with tarfile.open(bundle.path) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    return tmp_path / "unpacked"


def test_a_tar_and_its_folder_are_the_same_bundle(bundle: Built, folder: Path) -> None:
    assert bundle.signed_by is not None
    from_tar = verify_bundle(bundle.path, bundle.signed_by)

    assert from_tar == verify_bundle(folder, bundle.signed_by)
    assert (from_tar.identity, from_tar.manifest, from_tar.signed_by) == (
        bundle.identity,
        bundle.manifest,
        bundle.signed_by,
    )


def changed(folder: Path) -> None:
    path = folder / "slots.py"
    path.write_bytes(path.read_bytes().replace(b"import", b"Import", 1))


def longer(folder: Path) -> None:
    with (folder / "pack.tar.zst").open("ab") as file:
        file.write(b"x")


def empty(folder: Path) -> None:
    (folder / "install").write_bytes(b"")


def missing(folder: Path) -> None:
    (folder / "etc/edge.toml").unlink()


def linked(folder: Path) -> None:
    (folder / "etc/edge.toml").rename(folder.parent / "elsewhere")
    (folder / "etc/edge.toml").symlink_to(folder.parent / "elsewhere")


def linked_above(folder: Path) -> None:
    (folder / "etc").rename(folder.parent / "etc")
    (folder / "etc").symlink_to(folder.parent / "etc")


def added(folder: Path) -> None:
    (folder / "wheels/extra.whl").write_bytes(b"")


def manifest_changed(folder: Path) -> None:
    path = folder / "bundle.json"
    path.write_bytes(path.read_bytes().replace(b'"home"', b'"barn"'))


def manifest_gone(folder: Path) -> None:
    (folder / "bundle.json").unlink()


def manifest_huge(folder: Path) -> None:
    (folder / "bundle.json").write_bytes(b" " * (1 << 20 | 1))


def manifest_deep(folder: Path) -> None:
    (folder / "bundle.json").write_bytes(b"[" * 100_000)


def signature_forged(folder: Path) -> None:
    forged = json.loads(sign(Identity.create(), (folder / "bundle.json").read_bytes()))
    mine = json.loads((folder / "bundle.sig").read_bytes())
    (folder / "bundle.sig").write_text(json.dumps({**mine, "signature": forged["signature"]}))


def signature_strange(folder: Path) -> None:
    (folder / "bundle.sig").write_text("{}")


CHANGES = (
    changed,
    longer,
    empty,
    missing,
    linked,
    linked_above,
    added,
    manifest_changed,
    manifest_gone,
    manifest_huge,
    manifest_deep,
    signature_forged,
    signature_strange,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_folder_that_was_changed_is_refused(change: Callable[[Path], None], folder: Path) -> None:
    change(folder)

    with pytest.raises(BundleError):
        verify_bundle(folder)


def rewritten(bundle: Path, edit: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]) -> Path:
    """The tar with its members edited."""
    with tarfile.open(bundle) as archive:
        members = [(member, archive.extractfile(member).read()) for member in archive]  # type: ignore[union-attr]
    edit(members)
    to = bundle.with_suffix(".other")
    with tarfile.open(to, "w", format=tarfile.USTAR_FORMAT) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return to


def twice(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.append(members[-1])


def outside(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    members.append((tarfile.TarInfo("../outside"), b""))


def executable(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    next(member for member, _ in members if member.name == "etc/edge.toml").mode = 0o4755


def hard_link(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    member = next(member for member, _ in members if member.name == "slots.py")
    member.type, member.linkname, member.size = tarfile.LNKTYPE, "install", 0


@pytest.mark.parametrize("edit", [twice, outside, executable, hard_link], ids=lambda edit: edit.__name__)
def test_a_tar_that_holds_something_else_is_refused(
    edit: Callable[[list[tuple[tarfile.TarInfo, bytes]]], None], bundle: Built
) -> None:
    with pytest.raises(BundleError):
        verify_bundle(rewritten(bundle.path, edit))


def test_a_header_that_makes_a_parser_loop_is_not_parsed(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("x")
    entry.type, entry.size = tarfile.XHDTYPE, 10
    bundle = tmp_path / "bundle.tar"
    bundle.write_bytes(entry.tobuf(tarfile.USTAR_FORMAT) + b"0 path=xx\n".ljust(512, b"\0"))

    with pytest.raises(BundleError, match="which is not a plain file"):
        verify_bundle(bundle)


def test_who_must_have_signed_is_asked_for(bundle: Built, folder: Path) -> None:
    other = Identity.create().public.hex()

    with pytest.raises(BundleError, match="is not the key that was given"):
        verify_bundle(bundle.path, other)
    (folder / "bundle.sig").unlink()
    with pytest.raises(BundleError, match="not signed"):
        verify_bundle(folder, other)
    assert verify_bundle(folder).signed_by is None


def test_what_is_no_bundle_is_said(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello " * 1000)
    (tmp_path / "empty").mkdir()

    with pytest.raises(BundleError, match="is neither a bundle nor the folder of one"):
        verify_bundle(tmp_path / "text")
    with pytest.raises(BundleError, match=r"has no file bundle\.json: copy the bundle again"):
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
