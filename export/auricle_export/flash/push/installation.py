"""One board, from the first question to a look at its health; every step may be cut off and made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from auricle.errors import SettingsError
from auricle.process.checkup import Finding
from auricle.wire.bundle import BundleError, Manifest
from auricle.wire.kinds import UNDECODABLE
from auricle_export.flash.board import Board
from auricle_export.flash.bundle.archive import Part
from auricle_export.flash.bundle.verify import verify_bundle
from auricle_export.flash.push.facts import PROBE, SIGN, Facts, active, read_facts, refusals
from auricle_export.flash.push.session import PushError, Session

COPY = r"""
set -eu
umask 077
folder=$HOME/.cache/auricle-push/$1
mkdir -p "$folder"
cat >"$folder/bundle.part"
if [ "$(sha256sum <"$folder/bundle.part" | cut -c1-64)" != "$2" ]; then
  echo "the copy differs from the bundle; try again" >&2
  exit 3
fi
mv "$folder/bundle.part" "$folder/bundle.tar"
"""
"""$1: the bundle's identity, $2: SHA-256 of the tar, which comes in."""
INSTALL = r"""
set -eu
export LC_ALL=C
umask 022
root=$1 python=$2 folder=$3 identity=$4 length=$5 sum=$6
if [ "$length" != 0 ]; then
  mkdir -p "$root/etc/auricle"
  new=$root/etc/auricle/.claim.token.new
  rm -f "$new"
  (umask 077 && cat >"$new")
  if [ "$(wc -c <"$new")" -ne "$length" ]; then
    rm -f "$new"
    echo "the token did not arrive whole; try again" >&2
    exit 3
  fi
  mv "$new" "$root/etc/auricle/claim.token"
fi
own=$root/opt/auricle/slots.py
if [ "$folder" ]; then
  own_copy=$(mktemp -d -p /var/tmp)
  trap 'rm -rf "$own_copy"' EXIT
  trap 'exit 3' HUP INT PIPE TERM
  cat "$folder/bundle.tar" >"$own_copy/bundle.tar"
  if [ "$(sha256sum <"$own_copy/bundle.tar" | cut -c1-64)" != "$sum" ]; then
    echo "the copy is not the bundle any more: somebody changed it there" >&2
    exit 3
  fi
  tar -xf "$own_copy/bundle.tar" -C "$own_copy" --no-same-owner slots.py
  "$python" -I "$own_copy/slots.py" install "$own_copy/bundle.tar" --identity "$identity" --root "$root/" </dev/null >&2
  rm -rf "$folder"
else
  "$python" -I "$own" check --root "$root/" </dev/null >&2
fi
printf 'auricle:status=%s\n' "$("$python" -I "$own" status --json --root "$root/")"
"""
"""Run by root; $1: root without a slash at its end, $2: its Python, $3: folder of the copy; nothing where the bundle is
active, $4: the bundle's identity, $5: bytes of the token, which comes in, $6: SHA-256 of the tar. Root uses a copy of
its own: the other is in the hands of the user who logged in."""
HEALTH = r"""
export LC_ALL=C
if [ "$1" = claim ]; then
  timeout 120 systemctl start auricle-claim.service || true
fi
if [ -e /etc/auricle/claim.token ]; then
  journalctl --sync || true
  why=$(journalctl --quiet --boot --lines=20 --unit=auricle-claim.service --output=cat | sed -n 's/^auricle: //p')
  printf 'auricle:claim=%s\n' "$(printf '%s\n' "$why" | tail -n 1)"
fi
timeout 60 systemctl start auricle-edge.service || true
printf 'auricle:service=%s\n' "$(systemctl is-active auricle-edge.service)"
groups=$(systemctl show --property=SupplementaryGroups --value auricle-edge.service)
printf 'auricle:doctor=%s\n' "$(
  systemd-run --quiet --pipe --wait --collect --property=DynamicUser=yes --property=User=auricle \
    --property=StateDirectory=auricle --property=StateDirectoryMode=0700 --property="SupplementaryGroups=$groups" \
    --property=RuntimeMaxSec=120 \
    /opt/auricle/bin/auricle edge doctor --config /etc/auricle/edge.toml --json </dev/null
)"
"""
"""Run by root; $1: `claim` where a token was put there. The check-up reads what the agent has written and runs the pack
that it has chosen, so it is the agent's user that does it."""
LONGEST_INSTALLATION = 1800.0
"""Seconds; a Zero 2 W writes slowly."""

Step = Callable[[str, int, int], None]
"""Told what is done, how much of it, and how much there is; 0 where nobody knows."""


@dataclass(frozen=True)
class Parcel:
    """A bundle that is ready to be pushed."""

    path: Path
    manifest: Manifest
    identity: str
    length: int
    sha256: str
    """Of the tar."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended on a board."""

    host: str
    state: Literal["installed", "unchanged", "failed", "interrupted"]
    reason: str = ""
    version: str = ""
    identity: str = ""
    slot: str = ""
    service: str = ""
    """What systemd says of the agent; nothing where it was not asked."""
    findings: tuple[Finding, ...] = ()
    """Of `auricle edge doctor`, on the board."""

    @property
    def failed(self) -> bool:
        """Whether the bundle is not on the board."""
        return self.state in ("failed", "interrupted")


class _Findings(msgspec.Struct):
    findings: tuple[Finding, ...]


def open_parcel(path: Path, board: Board) -> Parcel:
    """Look at a bundle.

    Raises
    ------
    BundleError
        It is not a bundle, or not whole.
    SettingsError
        It is for another board, or for a container.
    """
    if not path.is_file():
        raise BundleError(f"There is no bundle {path}: auricle flash bundle makes them.")
    verified = verify_bundle(path)
    manifest = verified.manifest
    if manifest.board != board.name:
        raise SettingsError(f"{path.name} is a bundle for {manifest.board}, not for {board.name}.")
    if board.system(manifest.os).container is not None:
        raise SettingsError(f"On {board.title} with {manifest.os} the agent runs in a container: nothing to push.")
    return Parcel(path, manifest, verified.identity, path.stat().st_size, Part(path).sha256)


def push(session: Session, parcel: Parcel, board: Board, step: Step, *, root: str = "", sudo: bool = False) -> Outcome:
    """Install a bundle on a board.

    Parameters
    ----------
    root
        A folder of the board to install below, with nothing started; from the home where it is not absolute.
        Nothing: its own root.
    sudo
        Whether root is become by sudo.

    Raises
    ------
    PushError
        It cannot be reached, is not the right one, or a step failed.
    """
    step("looking", 0, 0)
    facts = read_facts(session.run(PROBE, root.rstrip("/"), parcel.manifest.python, parcel.identity))
    reason = next(refusals(facts, parcel.manifest, board, parcel.length, sudo=sudo), None)
    if reason is not None:
        raise PushError(f"{session.host} {reason}.")
    _become_root(session, facts, sudo)
    there = facts.installed
    unchanged = there is not None and there.identity == parcel.identity and there.confirmed
    if not unchanged and facts.kept != parcel.sha256:
        named = (parcel.identity, parcel.sha256)
        session.send(COPY, *named, file=parcel.path, heard=lambda sent: step("copying", sent, parcel.length))
    step("installing", 0, 0)
    token = session.host.token
    folder = "" if unchanged else f"{facts.home}/.cache/auricle-push/{parcel.identity}"
    words = (facts.root, facts.python, folder, parcel.identity, str(len(token)), parcel.sha256)
    said = session.run(INSTALL, *words, given=token, as_root=True, seconds=LONGEST_INSTALLATION)
    now = active(read_facts(said).status)
    if now is None or now.identity != parcel.identity:
        raise PushError(f"{session.host} does not say that the bundle is active: look at slots.py status there.")
    step("checking", 0, 0)
    service, findings = _health(session, facts)
    return Outcome(
        host=str(session.host),
        state="unchanged" if unchanged else "installed",
        version=parcel.manifest.version,
        identity=now.identity,
        slot=now.slot,
        service=service,
        findings=findings,
    )


def _become_root(session: Session, facts: Facts, sudo: bool) -> None:
    """Use sudo where it is needed. PushError: it asks for a password that nobody gave."""
    session.sudo = sudo and facts.user != "0"
    if facts.sudo == "free":
        session.password = None
    elif session.sudo and session.password is None:
        raise PushError(
            f"{session.host} asks for a password for sudo: give it in AURICLE_SUDO_PASSWORD, or push from a terminal."
        )


def _health(session: Session, facts: Facts) -> tuple[str, tuple[Finding, ...]]:
    """What systemd and the board's own check say; nothing where the board does not run what was installed."""
    if facts.root or not facts.systemd:
        return "", ()
    return read_health(session.run(HEALTH, "claim" if session.host.token else "", as_root=True, seconds=300))


def read_health(said: str) -> tuple[str, tuple[Finding, ...]]:
    """What the look at a board's health printed: what systemd says of the agent, and what was found."""
    told = dict(line.removeprefix(SIGN).partition("=")[::2] for line in said.splitlines() if line.startswith(SIGN))
    try:
        found = msgspec.json.decode(told.get("doctor", "").encode(), type=_Findings).findings
    except UNDECODABLE:
        found = (Finding(check="doctor", verdict="bad", sentence="It did not run: look at the board."),)
    if "claim" in told:
        why = told["claim"] or "look at journalctl -u auricle-claim."
        found = (Finding(check="claim", verdict="bad", sentence=f"The token was not exchanged yet: {why}"), *found)
    findings = (
        Finding(check=printable(each.check), verdict=each.verdict, sentence=printable(each.sentence)) for each in found
    )
    return told.get("service", "")[:40], tuple(findings)


def printable(said: str) -> str:
    """What a board said, without characters that a terminal obeys."""
    return "".join(character for character in said[:500] if character.isprintable())
