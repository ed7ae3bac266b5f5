"""`auricle cloud releases`: what devices may install, signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auricle.errors import SettingsError, StorageError, because
from auricle.files import read_kept, read_text, write_durably
from auricle_cloud.commands.operator_command import ReleaseName, Yes, confirm, operator_command
from auricle_cloud.commands.target import Place, user
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.rollout_answers import ReleaseList, ReleaseRow
from auricle_cloud.operations.types import Done
from auricle_cloud.storage.release_folder import FOLDER

if TYPE_CHECKING:
    from auricle_cloud.ota.repository import Repository

app = typer.Typer(no_args_is_help=True, help="Release bundles and packs: signed metadata that devices fetch.")

Keys = Annotated[
    Path,
    typer.Option(
        "--keys", envvar="AURICLE_RELEASE_KEYS", help="Folder of the offline keys, best on a USB stick of its own."
    ),
]

LONGEST_KEY_FILE = 4096
"""Bytes of a file with a public key."""


@operator_command(app, "init")
def init(
    place: Place,
    keys: Keys,
    root: Annotated[Path, typer.Option(help="Where to copy the first root to.")] = Path("root.json"),
) -> Done:
    """Make keys and empty metadata; the first root goes into every bundle."""
    from auricle_cloud.ota.repository import Repository
    from auricle_cloud.storage.store import FILE, Store

    repository = Repository.create(folder_of(place), keys)
    store = Store(place.database or folder_of(place).parent / FILE)
    try:
        store.journal.note("releases made", who=user())
    finally:
        store.close()
    try:
        write_durably(root, read_kept(repository.root_file))
    except StorageError as error:
        raise StorageError(
            f"The releases are made, but {error} Copy {repository.root_file} yourself: devices trust it first."
        ) from error
    return Done(
        done=f"{root} is what devices trust first: name it in fleet.toml as update_root. {keys} holds the keys of "
        "root and targets: keep it apart, with a copy."
    )


@operator_command(app, "add")
def add(
    place: Place,
    keys: Keys,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Bundles' .tar, the newest of each board counts; a pack's .tar.zst."),
    ],
    key: Annotated[str | None, typer.Option(help="Public key, hex or file: refuse what it has not signed.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Accept it even if its version is not higher.")] = False,
    as_json: bool = False,
) -> ReleaseRow | Done:
    """Verify a bundle or pack, sign it, and offer it to devices; a rollout then installs it."""
    from auricle_cloud.ota.candidate import newest, read_candidate

    repository = repository_of(place)
    with place.local_store() as store:
        signer = None if key is None else public_of(key)
        candidates = newest(read_candidate(file, signer) for file in files)
        paths = [repository.add(candidate, keys, force=force) for candidate in candidates]
        store.releases.mirror(repository.releases(), who=user())
        with place.operations() as do:
            rows = {row.path: row for row in do.list_releases().releases}
    waiting = "" if all(path in rows for path in paths) else f" {waiting_for(repository)}"
    if waiting:
        return Done(
            done=f"{', '.join(paths)} {'is' if len(paths) == 1 else 'are'} added, but not released yet.{waiting}"
        )
    if as_json and len(paths) == 1:
        return rows[paths[0]]
    return Done(done=f"Released: {', '.join(paths)}. To install: auricle cloud rollouts start {' '.join(paths)}")


@operator_command(app, "list")
def list_(do: Operations) -> ReleaseList:
    """List what devices may install."""
    return do.list_releases()


@operator_command(app, "show")
def show(do: Operations, release: ReleaseName) -> ReleaseRow:
    """Show a release."""
    return _find_release(do, release)


@operator_command(app, "remove")
def remove(place: Place, release: ReleaseName, keys: Keys, yes: Yes = False) -> Done:
    """Stop offering a release, and remove its file."""
    repository = repository_of(place)
    with place.local_store() as store, place.operations() as do:
        path = _find_release(do, release).path
        offering = store.rollouts.offers(path)
        if offering:
            raise SettingsError(f"{path} is what {', '.join(offering)} installs: abort that rollout first.")
        confirm(f"Remove {path}?", yes=yes)
        repository.remove(path, keys)
        store.releases.mirror(repository.releases(), who=user())
    waiting = waiting_for(repository)
    return Done(done=f"{path} is removed." if not waiting else f"{path} will be removed. {waiting}")


@operator_command(app, "renew")
def renew(
    place: Place,
    keys: Keys,
    new_online_key: Annotated[bool, typer.Option("--new-online-key", help="Replace the key that serve uses.")] = False,
    yes: Yes = False,
) -> Done:
    """Sign again the metadata of each role whose key is in the folder: root every year, targets every 90 days."""
    repository = repository_of(place)
    if new_online_key:
        confirm("Replace the online key?", yes=yes)
        repository.replace_online_key(keys)
        renewed = ["root", "the online key"]
    else:
        renewed = repository.renew(keys)
    with place.local_store() as store:
        store.journal.note("releases renewed", who=user(), detail=", ".join(renewed))
    until = ", ".join(f"{expiry.role} {expiry.expires:%Y-%m-%d}" for expiry in repository.expiries())
    waiting = waiting_for(repository)
    if waiting:
        return Done(done=f"Signed: {' and '.join(renewed)}. {waiting}")
    return Done(done=f"Renewed: {' and '.join(renewed)}. Good until: {until}.")


def repository_of(place: Place) -> Repository:
    """The releases of a coordinator's folder."""
    from auricle_cloud.ota.repository import Repository

    return Repository(folder_of(place))


def waiting_for(repository: Repository) -> str:
    """Whose signatures are missing, in sentences."""
    return " ".join(waiting.sentence for waiting in repository.waiting())


def folder_of(place: Place) -> Path:
    """Where they lie."""
    if place.state is None:
        raise SettingsError("Name the coordinator's folder: --state FOLDER (or AURICLE_STATE).")
    return place.state / FOLDER


def _find_release(do: Operations, name: str) -> ReleaseRow:
    found = [row for row in do.list_releases().releases if row.path == name or row.identity.startswith(name)]
    if len(found) != 1:
        what = "several releases have" if found else "no release has"
        raise SettingsError(f'"{name}": {what} this path or beginning of an identity; see auricle cloud releases list.')
    return found[0]


def public_of(key: str) -> bytes:
    """A key from its hexadecimal digits, or from a file with them."""
    from auricle.packs.signature import public_key

    file = Path(key)
    try:
        return public_key(read_text(file, "The key", most=LONGEST_KEY_FILE) if file.is_file() else key)
    except OSError as error:
        raise SettingsError(f"The key {file} cannot be read: {because(error)}.") from error
    except SettingsError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise SettingsError(
            f"{file} holds no public key: give the 64 hex digits that auricle flash bundle printed, not the key's file."
        ) from error
