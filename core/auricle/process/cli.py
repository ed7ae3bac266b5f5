"""The command `auricle`: one sub-command a part, loaded only when it is called; options of the version before work."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from auricle import __version__
from auricle.errors import INVALID_CODE, AuricleError, nearest
from auricle.process.command_groups import needs_extra, tidy
from auricle.process.ending import begin_log, fail
from auricle.process.interrupt import raise_again
from auricle.process.options import CommandLineError
from auricle.process.wrong_line import of_the_system, wrong_line
from auricle.settings import is_text

RENAMED: dict[tuple[str, ...], dict[str, str]] = {
    ("cloud", "models", "download"): {"--output": "--out"},
    ("cloud", "models", "evaluate"): {"--device": "--compute"},
    ("cloud", "rounds", "show"): {"--fate": "--outcome"},
    ("cloud", "rounds", "start"): {"--count": "--rounds"},
    ("cloud", "rounds", "why"): {"--fate": "--outcome"},
    ("cloud", "tokens", "create"): {"--days": "--ttl"},
    ("cloud", "why"): {"--fate": "--outcome"},
    ("edge", "run"): {"--speech": "--data"},
    ("export", "pretrain"): {"--device": "--compute"},
}
"""Old and new names of options, by the words that call their command."""
UNITS = {"--days": "d"}
"""What stands behind the number now that stood alone behind an old name."""


def with_names_of_today(given: Sequence[str]) -> list[str]:
    """A command line in which options have the names that they have now; the old ones are told on standard error."""
    path, rest = _words_of_command(given)
    if path not in RENAMED:
        return list(given)
    names = RENAMED[path]
    changed = list(given)
    for at in range(rest, len(given)):
        if given[at] == "--":
            break
        name, equals, value = given[at].partition("=")
        if name in names:
            unit = UNITS.get(name, "")
            changed[at] = f"{names[name]}{equals}{value}{unit if equals else ''}"
            if unit and not equals and at + 1 < len(given):
                changed[at + 1] = f"{given[at + 1]}{unit}"
            print(f"{name} is now {names[name]}; the old name goes with the next version.", file=sys.stderr)
    return changed


def _words_of_command(given: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The words that call a command with renamed options, and where its own arguments begin; () where it is another.

    Options of a group, which stand before its command, all have a value.
    """
    path: tuple[str, ...] = ()
    at = 0
    while at < len(given) and path not in RENAMED:
        if given[at].startswith("-"):
            at += 1 if "=" in given[at] else 2
            continue
        path += (given[at],)
        at += 1
        if not any(known[: len(path)] == path for known in RENAMED):
            return (), at
    return path, at


PARTS = {
    "fleet": ("auricle_fleet.commands", "Emulate a fleet: real speech, real agents, a real broker."),
    "edge": ("auricle_edge.commands", "Run the agent of one device."),
    "cloud": ("auricle_cloud.commands", "Run the coordinator."),
    "export": ("auricle_export.commands", "Build, train, sign and inspect training packs."),
    "flash": ("auricle_export.flash.commands", "Put agents on boards: profiles, bundles, images."),
}

NEEDS = {
    "edge": ("soundfile", "safetensors"),
    "cloud": ("sqlalchemy", "aiohttp", "safetensors"),
    "fleet": ("onnxruntime", "soundfile", "sqlalchemy", "aiohttp"),
}
"""Libraries that a part imports only when it uses them, and cannot do without; a device may do without onnxruntime,
where the wheel brings what runs its models."""

COMPLETE = "_AURICLE_COMPLETE"
"""Environment variable by which a shell's completion asks."""


class _Root(TyperGroup):
    """Gives Ctrl-C on to `main`: typer by itself ends with 130 and without a word."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as of typer's own copy of click, or of click
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error


def _load(part: str) -> typer.Typer:
    module, _ = PARTS[part]
    with needs_extra(part):
        app: typer.Typer = importlib.import_module(module).app
        for library in NEEDS.get(part, ()):
            if importlib.util.find_spec(library) is None:
                raise ModuleNotFoundError(name=library)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"auricle {__version__}")
        raise typer.Exit


def build_app(wanted: str | None) -> typer.Typer:
    """Assemble the command with one part loaded and the others named.

    Parameters
    ----------
    wanted
        The part that will be called; None for the overview.
    """
    return _assemble(wanted, _load(wanted) if wanted in PARTS else None)


def _assemble(wanted: str | None, loaded: typer.Typer | None) -> typer.Typer:
    app = typer.Typer(
        cls=_Root,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def root(
        version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
    ) -> None:
        """Federated keyword spotting: devices learn from their own microphone, the audio stays on them."""

    for part, (_, text) in PARTS.items():
        own = loaded if loaded is not None and part == wanted else typer.Typer()
        app.add_typer(own, name=part, help=text, no_args_is_help=True)
    return app


@functools.cache
def _command(wanted: str | None, loaded: typer.Typer | None) -> Any:  # noqa: ANN401 - as of typer's or of click's click
    """What takes a command line, assembled once a process: that takes longer than many a command."""
    command = typer.main.get_command(_assemble(wanted, loaded))
    tidy(command)
    return command


def _part_to_complete() -> str | None:
    """The part of the command line that a shell asks to complete; None when none does, or it is not there yet."""
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return words[1] if len(words) > 1 and words[1] in PARTS else None


def _complete() -> int:
    """Answer a shell's question what may come next; nothing where a part is not installed."""
    try:
        typer.main.get_command(build_app(_part_to_complete())).main([], prog_name="auricle")
    except AuricleError:
        return 1
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    return 0


def _not_text(given: Sequence[str]) -> str | None:
    """Why a command line is refused whose words, folder, or settings of the environment, no file of ours could hold."""
    with contextlib.suppress(OSError):  # a folder that was deleted
        given = (*given, str(Path.cwd()))
    for word in given:
        if not is_text(word):
            return _rename(word)
    ours = ((name, value) for name, value in os.environ.items() if name.startswith("AURICLE_"))
    wrong = next((name for name, value in ours if not is_text(value)), None)  # its value may be a secret
    return None if wrong is None else f"{wrong} of the environment is not UTF-8: set another."


def _rename(word: str) -> str:
    return f"{word[:200]!a} is not UTF-8: rename it, or name another."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, 2 for a user's mistake, 130 when interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if COMPLETE in os.environ:
        return _complete()
    if (why := _not_text(given)) is not None:
        return fail(why, INVALID_CODE, "--json" in given)
    given = with_names_of_today(given)
    as_json = "--json" in given
    begin_log(as_json)
    if "--state=" in given or ("--state", "") in pairwise(given):
        return fail("--state is empty: name a folder, or leave it out.", INVALID_CODE, as_json)
    part = given[0] if given else None
    if not given or (given == [part] and part in PARTS):
        given.append("--help")
    if part is not None and not part.startswith("-") and part not in PARTS:
        return fail(f'There is no command "{part}": {nearest(part, PARTS)}', 2, as_json)
    try:
        wanted = part if part in PARTS else None
        command = _command(wanted, None if wanted is None else _load(wanted))
        raise_again()
        result = command.main(given, prog_name="auricle", standalone_mode=False)
    except AuricleError as error:
        return fail(str(error), error.exit_code, as_json)
    except CommandLineError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group alone, as a part alone above
            print(error.format_message())
            return 0
        return fail(wrong_line(error), INVALID_CODE, as_json)
    except UnicodeEncodeError as error:  # of a file that was listed
        return fail(_rename(str(error.object)), INVALID_CODE, as_json)
    except OSError as error:  # what no part has a sentence of its own for, such as a folder that may not be read
        return fail(of_the_system(error), INVALID_CODE, as_json)
    except (typer.Abort, KeyboardInterrupt):
        return fail("Interrupted.", 130, as_json)
    return result if isinstance(result, int) else 0
