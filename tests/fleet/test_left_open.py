"""What a run chooses where its settings leave open what it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.errors import SettingsError
from auricle_fleet import FleetRun, FleetSettings
from auricle_fleet.commands.run_commands import read_settings, rounds_alone
from auricle_fleet.population.speech_cache import SpeechCache
from auricle_fleet.settings.left_open import with_choices
from auricle_fleet.settings.partition import Partition
from auricle_learning.methods import rule_names

pytest.importorskip("espeakng_loader")
ALONE = {"fedlaw": "--labelled", "fedrpo": "--labelled", "mupfl": "bavd=false", "zeno": "--labelled"}
"""Methods that need more than updates, and what the sentence of their choice names."""


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_method_that_needs_more_takes_it_and_says_so(name: str) -> None:
    settings, sentences = with_choices(FleetSettings(method=name))
    assert len(sentences) == 1 and ALONE[name] in sentences[0]
    assert with_choices(settings) == (settings, ())


def test_what_is_told_is_kept() -> None:
    for told in (
        FleetSettings(),
        FleetSettings(method="zeno", labelled="share:0.03"),
        FleetSettings(method="mupfl", method_options={"bavd": True}),
        FleetSettings(method="mupfl", pack="own"),
        FleetSettings(devices=1000, data="recordings"),
        FleetSettings(devices=1000, partition=Partition(kind="split")),
        FleetSettings(devices=652),
    ):
        assert with_choices(told) == (told, ())


def test_more_devices_than_speakers_have_voices_made_from_theirs() -> None:
    settings, (sentence,) = with_choices(FleetSettings(devices=1000))
    assert settings.partition == Partition(kind="voices") and settings.takes == 2
    assert "--partition voices" in sentence and "664" in sentence
    few = with_choices(FleetSettings(devices=653, words="yes,no", takes=20))[0]
    assert few.takes == 8  # 16 clips of two words


@pytest.mark.parametrize(("devices", "share"), [(None, 0.5), (1, 0.5), (2, 0.25), (6, 0.25), (7, 0.5)])
def test_few_people_train_on_less_sound_without_keywords(devices: int | None, share: float) -> None:
    settings, sentences = with_choices(FleetSettings(start="pack", devices=devices))
    assert settings.carried_share == share
    assert [("--carried 0.25" in sentence, str(devices) in sentence) for sentence in sentences] == [(True, True)] * (
        share == 0.25
    )
    assert with_choices(FleetSettings(start="pack", devices=devices, carried=0.4))[0].carried_share == 0.4
    assert with_choices(FleetSettings(devices=devices))[0].carried_share == 0


def test_the_partition_is_an_option_and_joins_that_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    file.write_text("[partition]\nkind = 'voices'\nclips = 20\n")
    assert read_settings(file, {"kind": "voices"}).partition == Partition(kind="voices", clips=20)
    assert read_settings(None, {"kind": "split"}).partition == Partition(kind="split")
    with pytest.raises(SettingsError, match=r"leave out --partition, --dp-noise\.$"):
        rounds_alone(None, {"noise": 1.0, "kind": "split", "rounds": 3})


SPEECH = SpeechCache()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", rule_names())
def test_every_method_runs_by_its_name_alone(name: str, tmp_path: Path) -> None:
    told = FleetSettings(method=name, devices=4, rounds=1, engine="virtual")
    summary = FleetRun(told, tmp_path, load=SPEECH).run().summary
    assert (summary.method, summary.rounds, bool(summary.chosen)) == (name, 1, name in ALONE)
