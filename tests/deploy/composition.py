"""Reads compose.yaml and Dockerfiles as far as deploy/ uses them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from auricle.errors import DataError
from tests.arm64.wheels import CHECKOUT

DEPLOY = CHECKOUT / "deploy"
_VARIABLE = re.compile(r"\$\{(\w+)(?::([?-])([^}]*))?\}")


def interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """A document with `${NAME}`, `${NAME:?why}` and `${NAME:-else}` filled in; DataError where one is missing."""
    if isinstance(value, dict):
        return {key: interpolated(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [interpolated(each, variables) for each in value]
    return _VARIABLE.sub(lambda found: _filled(found, variables), value) if isinstance(value, str) else value


def _filled(found: re.Match[str], variables: Mapping[str, str]) -> str:
    name, kind, rest = found.groups()
    if variables.get(name):
        return variables[name]
    if kind == "-":
        return str(rest)
    raise DataError(f"{name}: {rest or 'is not set'}")


def read_environment(path: Path) -> dict[str, str]:
    """The lines NAME=VALUE of a file."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@dataclass(frozen=True)
class Image:
    """What a Dockerfile's last stage says."""

    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    copied: dict[str, str] = field(default_factory=dict)
    """Files of deploy/ by their place in the image."""
    user: str = ""

    @classmethod
    def read(cls, path: Path) -> Image:
        """The image that a Dockerfile makes, without making it."""
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
        stage = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[-1]
        found = cls()
        values: dict[str, Any] = {"environment": {}, "copied": {}}
        for line in stage.splitlines():
            word, _, rest = line.partition(" ")
            if word == "ENV":
                values["environment"] |= dict(each.split("=", 1) for each in shlex.split(rest))
            elif word in ("ENTRYPOINT", "CMD"):
                values["entrypoint" if word == "ENTRYPOINT" else "command"] = yaml.safe_load(rest)
            elif word == "USER":
                values["user"] = rest.strip()
            elif word == "COPY" and "--from" not in rest:
                source, target = shlex.split(rest)[-2:]
                values["copied"][target] = source
        return cls(**{**vars(found), **values})


@dataclass(frozen=True)
class Composition:
    """A compose file with its variables filled in."""

    path: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, path: Path, variables: Mapping[str, str]) -> Composition:
        """Read and fill in."""
        return cls(path, interpolated(yaml.safe_load(path.read_text()), variables))

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        """By name."""
        found: dict[str, dict[str, Any]] = self.content["services"]
        return found

    def image(self, service: str) -> Image:
        """What the service's Dockerfile says; nothing of an image that is made elsewhere."""
        build = self.services[service].get("build")
        if build is None:
            return Image()
        return Image.read(self.path.parent / build["context"] / build["dockerfile"])
