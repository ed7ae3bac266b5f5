"""`auricle cloud preflight`: tries what `auricle cloud serve` will need, told by the same file and options."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.packs.pack import load_pack
from auricle.packs.signature import trusted_key
from auricle.process.checkup import Finding, disk, finding
from auricle.process.options import Given, with_options
from auricle.process.until_signal import broker_of
from auricle_cloud.aggregation.rules import get_rule
from auricle_cloud.commands.checkup import LITTLE_DISK, broker_admits, database, tell
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings, read_coordinator
from auricle_cloud.commands.embedded_broker import EMBEDDED
from auricle_cloud.commands.operator_command import PLACE
from auricle_cloud.commands.serve_options import TOLD, by_table
from auricle_cloud.commands.target import Place
from auricle_cloud.evaluation.evaluator import choose_evaluator
from auricle_cloud.evaluation.validation_set import load_validation
from auricle_cloud.settings import NAME
from auricle_cloud.storage.store import FILE


@with_options(given=[option for _, option in TOLD if option.name not in PLACE])
def preflight(
    place: Place,
    *,
    config: Path | None = typer.Option(None, help="As of serve: its coordinator.toml."),
    given: Given,
    as_json: bool = False,
) -> int:
    """Try what serve will need, told as serve is, before it: exit code 1 where it would fail.

    Do not run it beside a coordinator that is connected to the same broker: it would be thrown out for a moment.
    """
    where = {name: getattr(place, name) for name in PLACE}
    told = read_coordinator(config, by_table({**given, **where}))
    if told.state is None:
        raise SettingsError("Name the folder that serve will use: --state FOLDER, or state in --config.")
    if told.broker is None:
        raise SettingsError("Name the broker that serve will use: --broker URL, or broker in --config.")
    return tell(list(_Preflight(told, Path(told.state), told.broker).findings()), as_json)


@dataclass(frozen=True)
class _Preflight:
    """What would be served."""

    told: CoordinatorSettings
    folder: Path
    broker: str

    def findings(self) -> Iterator[Finding]:
        """Try all of it."""
        told, database_file = self.told, self.folder / FILE
        yield finding("disk", lambda: disk(self.folder, LITTLE_DISK))
        yield finding("pack", self._pack)
        yield finding("rule", self._rule)
        yield finding("api", self._api)
        if self.broker != EMBEDDED:
            yield finding("broker", lambda: broker_admits(broker_of(self.broker, NAME, self.folder), NAME))
        if told.storage.database is not None or database_file.is_file():
            yield finding("database", lambda: database(told.storage.database or database_file))
        if told.validation is not None:
            yield finding("validation", self._validation)

    def _pack(self) -> str:
        loaded = load_pack(self.told.pack, trusted_key(self.told.pack_key))
        require_sound(loaded)
        return f"The pack {loaded.manifest.name} is sound: {loaded.identity[:12]}, {len(loaded.labels)} words."

    def _rule(self) -> str:
        preset = self.told.preset_for(trained=False)
        known = get_rule(preset.rule, **preset.rule_options)
        return f"The rule {known.name} is there, with the preset {self.told.rounds.preset}."

    def _api(self) -> str:
        served = self.told.api_settings()
        if served is None:
            return "There will be no API and no page."
        context = served.tls()
        family = socket.AF_INET6 if ":" in served.host else socket.AF_INET
        with socket.create_server((served.host, served.port), family=family):
            said = self.told.api.listen
            return f"The API may listen on {said}, {'without' if context is None else 'with'} TLS."

    def _validation(self) -> str:
        loaded = load_pack(self.told.pack, trusted_key(self.told.pack_key))
        clips = load_validation(Path(self.told.validation or ""), loaded)
        return f"{clips.sentence or f'{len(clips)} clips.'} {choose_evaluator(loaded, clips, self.told.compute)[1]}"
