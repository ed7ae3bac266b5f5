"""`auricle cloud releases`: which keys sign, how many of them must, and the signatures of further holders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auricle.errors import DataError
from auricle.files import read_kept
from auricle_cloud.commands.operator_command import Yes, confirm, operator_command
from auricle_cloud.commands.releases_commands import Keys, app, public_of, repository_of, waiting_for
from auricle_cloud.commands.target import Place, user
from auricle_cloud.operations.rollout_answers import PendingList, PendingRow, RoleKeysList, RoleKeysRow
from auricle_cloud.operations.types import Done
from auricle_cloud.storage.release_folder import Offline

Role = Annotated[Offline, typer.Argument(metavar="ROLE", help="Whose keys: root or targets.")]
RootKeys = Annotated[Path | None, typer.Option(help="Folder of root.key, where it is not with the others.")]


def rotate(place: Place, role: Role, keys: Keys, root_keys: RootKeys = None, yes: Yes = False) -> Done:
    """Replace the key of root or targets: the old one may be lost to others. Devices follow at their next look."""
    repository = repository_of(place)
    confirm(f"Replace the key of {role}?", yes=yes)
    in_use = repository.replace_key(role, keys, root_keys)
    with place.local_store() as store:
        store.journal.note("release key replaced", who=user(), detail=role)
    if not in_use:
        return Done(
            done=f"{keys / f'{role}.next.key'} is the new key of {role}, copy it. {waiting_for(repository)} Then "
            "run this command again."
        )
    return Done(
        done=f"The key of {role} is replaced: {keys / f'{role}.key'} is the new one, copy it. {role}.old.key is needed "
        "only with a backup from before: make a new one with auricle cloud backup, then destroy it."
    )


def threshold(
    place: Place,
    role: Role,
    count: Annotated[int, typer.Argument(metavar="COUNT", min=1, help="How many keys must sign.")],
    keys: Keys,
    add: Annotated[list[str] | None, typer.Option(help="Public key of another holder, hex or file.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="First digits of a public key that is to go.")] = None,
    root_keys: RootKeys = None,
    yes: Yes = False,
) -> Done:
    """Set how many of which keys must sign root or targets; what lacks signatures waits for them."""
    repository = repository_of(place)
    confirm(f"Let {count} keys sign {role}?", yes=yes)
    given = [public_of(key) for key in add or []]
    repository.set_threshold(role, count, keys, add=given, remove=remove or [], root_keys=root_keys)
    with place.local_store() as store:
        store.journal.note("release keys changed", who=user(), detail=f"{role}: {count}, +{len(given)}")
    waiting = waiting_for(repository)
    if waiting:
        return Done(done=f"{role} is to need {count} keys. {waiting}")
    row = next(row for row in repository.role_keys() if row.role == role)
    return Done(done=f"{role} needs {row.threshold} of {len(row.keys)} keys.")


def keys_(place: Place) -> RoleKeysList:
    """List how many of which keys sign root and targets."""
    rows = repository_of(place).role_keys()
    return RoleKeysList(roles=[RoleKeysRow(role=r.role, threshold=r.threshold, keys=list(r.keys)) for r in rows])


def pending(place: Place) -> PendingList:
    """List metadata that wait for the signatures of further holders."""
    return PendingList(
        pending=[
            PendingRow(
                role=row.role,
                version=row.version,
                signed=list(row.signed),
                missing=row.missing,
                unsigned=list(row.unsigned),
                file=str(row.file),
            )
            for row in repository_of(place).waiting()
        ]
    )


def make_key(
    place: Place,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to keep it, NAME.key, best on a stick.")],
) -> Done:
    """Make the key of a further holder; its public half is for releases threshold --add."""
    from auricle_cloud.ota.countersigning import make_holder_key

    return Done(
        done=f"{file} is the key: copy it, and give nobody the file. Its public half is {make_holder_key(file)}"
    )


def sign(
    place: Place,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy of pending/root.json or targets.json.")],
    key: Annotated[Path, typer.Option(help="File of the key to sign with.")],
    out: Annotated[Path, typer.Option(help="Where to write it with the signature; FILE itself is allowed.")],
) -> Done:
    """Sign metadata that waits for signatures, without a coordinator or a network, and say what was signed."""
    from auricle_cloud.ota.countersigning import countersign

    said = countersign(file, key, out)
    return Done(done=f"Signed: {' '.join(said)} {out} is for auricle cloud releases publish.")


def publish(
    place: Place,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...", help="What releases sign wrote.")] = None,
) -> Done:
    """Take signatures of other key holders, and publish what has enough of them."""
    repository, done = repository_of(place), list[str]()
    with place.local_store() as store:
        for data in [_read(file) for file in files or []] or [None]:
            done += repository.publish(data)
        store.releases.mirror(repository.releases(), who=user())
        if done:
            store.journal.note("releases published", who=user(), detail=", ".join(done))
    said = f"Published: {' and '.join(done)}." if done else "Nothing was published."
    return Done(done=f"{said} {waiting_for(repository)}".strip())


def drop(place: Place, yes: Yes = False) -> Done:
    """Drop changes that wait for signatures: devices never see them."""
    repository = repository_of(place)
    confirm("Drop what waits for signatures?", yes=yes)
    dropped = repository.drop()
    with place.local_store() as store:
        store.journal.note("pending releases dropped", who=user(), detail=", ".join(dropped))
    return Done(done=f"Dropped: {' and '.join(dropped)}." if dropped else "Nothing waits for signatures.")


def _read(file: Path) -> bytes | None:
    try:
        return read_kept(file)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror or error}).") from error


for _name, _command in (
    ("rotate", rotate),
    ("threshold", threshold),
    ("keys", keys_),
    ("pending", pending),
    ("make-key", make_key),
    ("sign", sign),
    ("publish", publish),
    ("drop", drop),
):
    operator_command(app, _name)(_command)
