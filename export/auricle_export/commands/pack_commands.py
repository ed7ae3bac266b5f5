"""`auricle export inspect`, `verify`, `sign` and `diff`: packs as they are. None of them needs PyTorch."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import typer
from rich.console import Console

from auricle.checks.pack_checks import Check, checks_of, require_sound
from auricle.errors import PackError, SettingsError
from auricle.files import write_durably
from auricle.packs.pack import Pack, load_pack, pack_bytes
from auricle.packs.shipped import SHIPPED
from auricle.packs.signature import SIGNATURE_FILE, encode_signature, public_key, require_key, sign_manifest
from auricle.wire.identity import Identity
from auricle_export.packs.diff import describe, pack_differences
from auricle_export.packs.facts import describe_pack, kilobytes, print_facts

DIFFERENT_CODE = 1
"""Exit code of `diff` for packs that differ, as that of `diff` for files."""

UNSEEN_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""

PACK = typer.Argument(..., help="home, home-more, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst.")
TRUSTED = typer.Option(None, "--key", help="Public key in hex that must have signed it; may be repeated.")
KEY_FILE = typer.Option(..., "--key", help="File of the private key, 32 bytes.")
NEW_KEY = typer.Option(False, "--new-key", help="Draw a new key and keep it in the file of --key.")
SIGNED = typer.Option(None, "--out", help="The signed .tar.zst [NAME.signed.tar.zst beside it; of a folder: in it].")
AS_JSON = typer.Option(False, "--json", help="Print a JSON object, nothing else.")


def inspect(pack: str = PACK, as_json: bool = AS_JSON) -> None:
    """Show what a pack holds: words, models, graphs, trained weights, who signed it, and the hash that names it."""
    facts = describe_pack(load_pack(pack))
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(facts)))
    else:
        print_facts(facts, Console(width=None if sys.stdout.isatty() else UNSEEN_WIDTH))


def verify(
    pack: str = PACK,
    key: list[str] | None = TRUSTED,
    as_json: bool = AS_JSON,
) -> None:
    """Check every file, hash, signature, graph and weight of a pack; exit code 2 for one that is not sound."""
    trusted = None if not key else [public_key(text) for text in key]
    loaded = load_pack(pack, trusted)
    if trusted is not None and loaded.signature is None:
        raise PackError(f"The pack {pack} comes with Auricle and is not signed: leave out --key.")
    checks = list(checks_of(loaded))
    failed = [check for check in checks if check.reason is not None]
    if as_json:
        typer.echo(json.dumps(_verdict(loaded, checks)))
        if failed:
            raise typer.Exit(PackError.exit_code)
        return
    typer.echo(f"ok      manifest      format {loaded.manifest.format}, {loaded.identity}")
    typer.echo(
        f"ok      files         {len(loaded.files)}, {kilobytes(sum(map(len, loaded.files.values())))} kB, SHA-256"
    )
    typer.echo(f"{_signature_line(loaded)}")
    for check in checks:
        typer.echo(f"{'ok' if check.reason is None else 'REFUSED':<8}{check.kind:<14}{check.file}")
    if failed:
        more = f" {len(failed) - 1} more of its files are refused." if len(failed) > 1 else ""
        raise PackError(f"{failed[0].reason}{more}")
    typer.echo(f"{loaded.manifest.name} is sound: {len(checks)} graphs, weights and artifacts checked.")


def _verdict(pack: Pack, checks: list[Check]) -> dict[str, object]:
    return {
        "name": pack.manifest.name,
        "identity": pack.identity,
        "format": pack.manifest.format,
        "files": len(pack.files),
        "bytes": sum(map(len, pack.files.values())),
        "signed_by": None if pack.signature is None else pack.signature.key,
        "sound": all(check.reason is None for check in checks),
        "checks": [{"kind": c.kind, "file": c.file, "ok": c.reason is None, "reason": c.reason} for c in checks],
    }


def _signature_line(pack: Pack) -> str:
    if pack.signature is None:
        return "-       signature     none"
    return f"ok      signature     by {pack.signature.key}"


def sign(
    pack: str = PACK,
    key: Path = KEY_FILE,
    new_key: bool = NEW_KEY,
    out: Path | None = SIGNED,
    as_json: bool = AS_JSON,
) -> None:
    """Vouch for a pack: check all of it, sign its manifest, and write it with the signature; nothing is overwritten."""
    loaded = load_pack(pack)
    require_sound(loaded)
    inside = out is None and Path(pack).is_dir() and pack not in SHIPPED
    target = Path(pack) / SIGNATURE_FILE if inside else out or _beside(pack)
    if target.exists():
        raise SettingsError(f"{target} exists and is not overwritten: say where else with --out, or remove it.")
    require_key(key, new=new_key)
    identity = Identity.load_or_create(key)
    signed = loaded.signed(sign_manifest(identity, loaded.manifest_bytes))
    assert signed.signature is not None
    write_durably(target, encode_signature(signed.signature) if inside else pack_bytes(signed))
    if as_json:
        typer.echo(json.dumps({"identity": signed.identity, "key": identity.public.hex(), "path": str(target)}))
        return
    typer.echo(f"{loaded.manifest.name} {signed.identity[:12]} -> {target}")
    typer.echo(f"signed by {identity.public.hex()}")


def _beside(pack: str) -> Path:
    path = Path(pack)
    return path.with_name(f"{path.name.removesuffix('.tar.zst')}.signed.tar.zst")


def diff(
    a: str = typer.Argument(
        ..., help="A pack: home, home-more, gsc12-res, gsc12, gsc35, digits, a folder or a .tar.zst."
    ),
    b: str = typer.Argument(..., help="Another one."),
    as_json: bool = AS_JSON,
) -> None:
    """Say in what two packs differ: words, models, graphs, weights, files. Exit code 0: in nothing; 1: in something."""
    first, second = load_pack(a), load_pack(b)
    found = pack_differences(first, second)
    if as_json:
        facts = [{"part": d.part, "name": d.name, "a": d.a, "b": d.b} for d in found]
        typer.echo(
            json.dumps(
                {
                    "a": first.identity,
                    "b": second.identity,
                    "same": not found,
                    "differences": facts,
                }
            )
        )
    else:
        for difference in found:
            typer.echo(describe(difference))
        if not found:
            typer.echo(f"The same pack: {first.manifest.name} {first.identity[:12]}.")
    if found:
        raise typer.Exit(DIFFERENT_CODE)
