"""The one table of routes: the server, the OpenAPI document and the remote client are made of it.

An operation's parameters and result are the signature of its method in `Operations`. Those named in the path stand
there; of GET and DELETE the others stand in the query, of POST and PUT in a JSON object.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import get_args, get_type_hints

import msgspec

from auricle.errors import SettingsError, nearest
from auricle_cloud.operations.operations import Operations
from auricle_cloud.operations.types import PATTERNS, File
from auricle_cloud.storage.access_rows import ROLES, Role


@dataclass(frozen=True)
class Route:
    """One operation over HTTP."""

    method: str
    path: str
    operation: str
    """The method of `Operations`."""
    role: Role
    """Who may at least call it."""
    status: int = 200
    """Of success; 202: the coordinator acts on it later."""
    successor: str = ""
    """Path that takes its place: this one answers for one more version, and is marked in the OpenAPI document."""

    @property
    def in_path(self) -> list[str]:
        """Parameters that stand in the path."""
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def names(self) -> tuple[str, ...]:
        """All its parameters in the method's order."""
        return self.parameters.__struct_fields__

    @property
    def in_query(self) -> bool:
        """Whether the other parameters stand in the query."""
        return self.method in ("GET", "DELETE")

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        return inspect.getdoc(getattr(Operations, self.operation)) or ""

    @cached_property
    def parameters(self) -> type[msgspec.Struct]:
        """All its parameters with their constraints."""
        function = getattr(Operations, self.operation)
        types = get_type_hints(function, include_extras=True)
        fields = [
            (name, types[name]) if given.default is given.empty else (name, types[name], given.default)
            for name, given in inspect.signature(function).parameters.items()
            if name != "self"
        ]
        return msgspec.defstruct(self.operation, fields, forbid_unknown_fields=True, frozen=True, kw_only=True)

    @cached_property
    def result(self) -> type[msgspec.Struct]:
        """What it answers."""
        answer: type[msgspec.Struct] = get_type_hints(getattr(Operations, self.operation))["return"]
        return answer

    @property
    def is_file(self) -> bool:
        """Whether it answers bytes instead of JSON."""
        return self.result is File

    def converted(self, name: str, text: str) -> object:
        """A parameter of the path, of its type; SettingsError when it is not of that."""
        try:
            return msgspec.convert(text, get_type_hints(self.parameters, include_extras=True)[name], strict=False)
        except msgspec.ValidationError as error:
            raise SettingsError(_refusal(error, name)) from error

    def checked(self, values: Mapping[str, object], *, texts: bool = False) -> dict[str, object]:
        """Parameters for the operation.

        Parameters
        ----------
        values
            What was given, by name.
        texts
            Take numbers and the like from their text, as it stands in a path or query.

        Raises
        ------
        SettingsError
            One is missing, unknown, or not allowed.
        """
        try:
            given = msgspec.convert(values, self.parameters, strict=not texts)
        except msgspec.ValidationError as error:
            raise SettingsError(_refusal(error, "the request", self.parameters)) from error
        return {name: getattr(given, name) for name in self.names}


KINDS = {
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "text",
    "`bool`": "true or false",
    "`array`": "a list",
}


_PLACE = re.compile(r"\[(?:\d+|\.\.\.)\]$")
"""Of a list's entry: people have named words, and not numbered them."""


def _refusal(error: msgspec.ValidationError, where: str, known: type[msgspec.Struct] | None = None) -> str:
    """Say which parameter is not allowed and what would be."""
    what, _, place = str(error).removesuffix("`").partition(" - at `$")
    where = place.removeprefix(".") or where
    names = known.__struct_fields__ if known else ()
    if what.startswith("Object missing required field"):
        return f"{what.split('`')[1]} is missing."
    if what.startswith("Object contains unknown field"):
        name = what.split("`")[1]
        return f'There is no parameter "{name}"' + (f"; {nearest(name, names)}" if names else ".")
    if what.startswith("Invalid enum value") and where in names:
        given, choices = (
            what[len("Invalid enum value ") :][1:-1],
            _choices(get_type_hints(known, include_extras=True)[where]),
        )
        return f'{where}: there is no "{given}"; {nearest(given, choices)}'
    words = next((words for pattern, words in PATTERNS.items() if repr(pattern) in what), None)
    if words is not None:
        return f"{re.sub(_PLACE, '', where)}: it has to be {words}."
    for kind, words in KINDS.items():
        what = what.replace(kind, words)
    return f"{where}: {what[:1].lower()}{what[1:]}."


def _choices(kind: object) -> list[str]:
    """The values of a literal, which may be optional or annotated."""
    parts = [_choices(part) if get_args(part) else [part] for part in get_args(kind)]
    return [value for part in parts for value in part if isinstance(value, str)]


ROUTES = (
    Route("GET", "/v1/overview", "overview", "viewer"),
    Route("GET", "/v1/journal", "list_events", "viewer"),
    Route("GET", "/v1/rounds", "list_rounds", "viewer"),
    Route("POST", "/v1/rounds", "start_rounds", "operator", 202),
    Route("GET", "/v1/rounds/{number}", "show_round", "viewer"),
    Route("GET", "/v1/rounds/{number}/why", "why_round", "viewer"),
    Route("POST", "/v1/rounds/{number}/abort", "abort_round", "operator", 202),
    Route("POST", "/v1/rounds/{number}/resume", "resume_round", "operator", 202),
    Route("GET", "/v1/schedules", "list_schedules", "viewer"),
    Route("PUT", "/v1/schedules/{name}", "set_schedule", "operator"),
    Route("DELETE", "/v1/schedules/{name}", "remove_schedule", "operator"),
    Route("GET", "/v1/devices", "list_devices", "viewer"),
    Route("GET", "/v1/devices/{device}", "show_device", "viewer"),
    Route("GET", "/v1/devices/{device}/log", "device_logs", "viewer"),
    Route("GET", "/v1/devices/{device}/hearing", "device_hearing", "viewer"),
    Route("GET", "/v1/hearing", "show_hearing", "viewer"),
    Route("PUT", "/v1/devices/{device}/label", "label_device", "operator"),
    Route("PUT", "/v1/sensitivities", "set_sensitivity", "operator"),
    Route("DELETE", "/v1/devices/{device}", "forget_device", "operator"),
    Route("POST", "/v1/approvals", "approve_devices", "operator"),
    Route("POST", "/v1/quarantines", "quarantine_devices", "operator"),
    Route("POST", "/v1/devices/{device}/release", "release_device", "operator"),
    Route("POST", "/v1/releases", "release_devices", "operator", successor="/v1/devices/{device}/release"),
    Route("POST", "/v1/revocations", "revoke_devices", "admin"),
    Route("GET", "/v1/models", "list_models", "viewer"),
    Route("GET", "/v1/models/{version}", "show_model", "viewer"),
    Route("GET", "/v1/models/{version}/file", "download_model", "viewer"),
    Route("POST", "/v1/models/{version}/promote", "promote_model", "operator"),
    Route("POST", "/v1/rollbacks", "rollback_model", "operator"),
    Route("GET", "/v1/updates/releases", "list_releases", "viewer"),
    Route("GET", "/v1/rollouts", "list_rollouts", "viewer"),
    Route("POST", "/v1/rollouts", "start_rollout", "operator", 202),
    Route("GET", "/v1/rollouts/{rollout}", "show_rollout", "viewer"),
    Route("POST", "/v1/rollouts/{rollout}/pause", "pause_rollout", "operator"),
    Route("POST", "/v1/rollouts/{rollout}/resume", "resume_rollout", "operator"),
    Route("POST", "/v1/rollouts/{rollout}/abort", "abort_rollout", "operator"),
    Route("GET", "/v1/enrolled", "list_enrolled", "viewer"),
    Route("POST", "/v1/claims", "create_claims", "admin", 201),
    Route("POST", "/v1/join-codes", "draw_join_code", "admin", 201),
    Route("GET", "/v1/tokens", "list_tokens", "admin"),
    Route("POST", "/v1/tokens", "create_token", "admin", 201),
    Route("DELETE", "/v1/tokens/{name}", "revoke_token", "admin"),
)

BY_OPERATION = {route.operation: route for route in ROUTES}


def allows(role: Role, least: Role) -> bool:
    """Whether a role may do what another one may."""
    return ROLES.index(role) >= ROLES.index(least)
