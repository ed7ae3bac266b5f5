"""Contexts: which coordinator the commands act on, named once and kept in a settings file of the user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from auricle.errors import NOT_FOUND, SettingsError, StorageError, nearest
from auricle.files import describe, write_durably
from auricle.settings import from_mapping, read_toml

FILE = "cloud.toml"


class ContextError(SettingsError):
    """No context of this name is there."""

    exit_code = NOT_FOUND


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One coordinator, as the options of the commands name it."""

    state: str | None = None
    database: str | None = None
    blobs: str | None = None
    server: str | None = None
    task: str | None = None
    token: str | None = None
    """Of an operator, for `server`."""


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings file: every context by name, and the one in use."""

    current: str | None = None
    context: Mapping[str, Context] = {}

    @property
    def in_use(self) -> Context:
        """The one in use; without one, an empty one."""
        return Context() if self.current is None else self.named(self.current)

    def named(self, name: str) -> Context:
        """The context of this name; ContextError without one."""
        if name not in self.context:
            hint = nearest(name, self.context) if self.context else "no context exists yet."
            raise ContextError(
                f'There is no context "{name}"; {hint} To make it: auricle cloud use {name} --server URL'
            )
        return self.context[name]


def settings_file() -> Path:
    """Where contexts are kept: `$XDG_CONFIG_HOME/auricle/cloud.toml`."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "auricle" / FILE


def read_contexts() -> Contexts:
    """The contexts of this user.

    Raises
    ------
    SettingsError
        The file is not one.
    """
    path = settings_file()
    return from_mapping(Contexts, read_toml(path), str(path)) if path.exists() else Contexts()


def write_contexts(contexts: Contexts) -> None:
    """Keep them, readable by their user alone: tokens stand there."""
    lines = [] if contexts.current is None else [f"current = {_quote(contexts.current)}"]
    for name, context in sorted(contexts.context.items()):
        lines += ["", f"[context.{_quote(name)}]"]
        lines += [f"{key} = {_quote(value)}" for key, value in msgspec.structs.asdict(context).items() if value]
    path = settings_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, ("\n".join(lines).strip() + "\n").encode(), mode=0o600)
    except OSError as error:
        raise StorageError(describe(error, path)) from error


def _quote(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's."""
    return msgspec.json.encode(text).decode()
