"""`auricle cloud preflight`: tries what `auricle cloud serve` will need, told by the same file and options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import typer

from auricle.checks.pack_checks import require_sound
from auricle.errors import SettingsError
from auricle.mqtt_link.private_link import broker_of
from auricle.packs.pack import Pack, load_pack
from auricle.packs.signature import read_trusted_key
from auricle.process.checkup import Finding, Verdict, disk, finding
from auricle.process.options import Given, with_options
from auricle.wire.frames import largest_message
from auricle_cloud.api.api_settings import require_address
from auricle_cloud.commands.checkup import LITTLE_DISK, broker_admits, database, messages_pass, tell
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings, read_coordinator
from auricle_cloud.commands.embedded_broker import EMBEDDED
from auricle_cloud.commands.operator_command import PLACE
from auricle_cloud.commands.serve_options import TOLD, by_table
from auricle_cloud.commands.target import Place
from auricle_cloud.evaluation.evaluator import choose_evaluator
from auricle_cloud.evaluation.labelled_clips import labelled_clips
from auricle_cloud.evaluation.validation_set import load_validation
from auricle_cloud.settings import NAME
from auricle_cloud.storage.store import FILE
from auricle_learning.aggregation.rules.rule import check_needs, given_with


@with_options(given=[option for _, option in TOLD if option.name not in PLACE])
def preflight(
    place: Place,
    *,
    config: Path | None = typer.Option(None, help="As of serve: its coordinator.toml."),
    given: Given,
    as_json: bool = False,
) -> int:
    """Try what serve will need, with serve's own options: exit code 1 where it would fail.

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
        yield finding("method", self._method)
        yield finding("api", self._api)
        if self.broker != EMBEDDED:
            admitted = finding("broker", lambda: broker_admits(broker_of(self.broker, NAME, self.folder), NAME))
            yield admitted
            if admitted.verdict == "good" and told.fleet is not None:
                yield finding("messages", self._messages)
        if told.storage.database is not None or database_file.is_file():
            yield finding("database", lambda: database(told.storage.database or database_file))
        if told.validation is not None:
            yield finding("validation", self._validation)
        if told.labelled is not None:
            yield finding("labelled", self._check_labelled)

    @cached_property
    def _load_pack(self) -> Pack:
        return load_pack(self.told.pack, read_trusted_key(self.told.pack_key))

    def _pack(self) -> str:
        loaded = self._load_pack
        require_sound(loaded)
        return f"The pack {loaded.manifest.name} is sound: {loaded.identity[:12]}, {len(loaded.labels)} words."

    def _method(self) -> str:
        preset = self.told.preset_for(trained=False)
        known, told = preset.method.get_rule(), self.told
        given = given_with(labelled=told.labelled is not None)
        mode, detection, codec = told.rounds.mode, told.detection.enabled, told.rounds.codec
        check_needs(known, given=given, mode=mode, detection=detection, codec=codec)
        preset.require_pack(self._load_pack)
        told.privacy.require(preset.method, mode=mode, detection=detection, codec=codec)
        noise = told.privacy.clip is not None
        told.secure_sum.require(preset.method, mode=mode, detection=detection, noise=noise, codec=codec)
        return f"The method {known.name} is there, with the preset {self.told.rounds.preset}."

    def _messages(self) -> tuple[Verdict, str]:
        size = largest_message(4 * self._load_pack.plugin_table.size)
        return messages_pass(broker_of(self.broker, NAME, self.folder), NAME, self.told.fleet or "", size)

    def _api(self) -> str:
        served = self.told.api_settings()
        if served is None:
            return "There will be no API and no page."
        require_address(served)
        return f"The API may listen on {self.told.api.listen}, {'without' if served.tls() is None else 'with'} TLS."

    def _check_labelled(self) -> str:
        clips = load_validation(Path(self.told.labelled or ""), self._load_pack)
        labelled_clips(self._load_pack, clips)
        return f"A method may learn from it: {clips.sentence or f'{len(clips)} clips.'}"

    def _validation(self) -> str:
        clips = load_validation(Path(self.told.validation or ""), self._load_pack)
        evaluator = choose_evaluator(self._load_pack, clips, self.told.compute)[1]
        return f"{clips.sentence or f'{len(clips)} clips.'} {evaluator}"
