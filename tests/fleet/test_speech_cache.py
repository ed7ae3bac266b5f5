"""Speech that runs share: read once for all that hear the same, and the same models as with speech of their own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from auricle.speech.row_store import Spill
from auricle_fleet.population.data import FleetData, Progress, load_data
from auricle_fleet.population.speech_cache import IRRELEVANT, KEPT, SpeechCache, key_of
from auricle_fleet.run import FleetRun
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.groups import Group
from auricle_fleet.settings.partition import Partition

SETTINGS = FleetSettings(
    words="yes,no",
    devices=4,
    unseen=2,
    takes=5,
    min_clips=4,
    rounds=2,
    local="crnn-lite",
    preset="fedavg",
    engine="virtual",
    processes=1,
)


class Counted:
    """Counts what is read."""

    def __init__(self) -> None:
        self.seeds: list[int] = []

    def __call__(self, settings: FleetSettings, progress: Progress, spill: Spill | None) -> FleetData:
        self.seeds.append(settings.seed)
        return load_data(settings, progress, spill)


def changed(**settings: object) -> FleetSettings:
    return msgspec.structs.replace(SETTINGS, **settings)


def test_runs_of_other_methods_and_rounds_share_their_speech_and_others_do_not() -> None:
    load = Counted()
    cache = SpeechCache(load)
    first = cache(SETTINGS)
    assert cache(changed(method="median", rounds=9, rate=0.3, detect=True)) is first
    assert cache(changed(seed=1)) is not first
    assert cache(SETTINGS) is first
    assert load.seeds == [0, 1]
    cache(changed(seed=2))
    cache(changed(seed=1))
    assert KEPT == 2 and load.seeds == [0, 1, 2, 1]


def test_whatever_is_not_known_to_be_irrelevant_decides_the_speech() -> None:
    assert set(FleetSettings.__struct_fields__) >= IRRELEVANT
    others = (
        {"words": "up,no"},
        {"takes": 6},
        {"devices": 5},
        {"partition": Partition(kind="split")},
        {"groups": (Group(name="a", count=1, noise_db=5.0),)},
    )
    assert len({key_of(SETTINGS), *(key_of(changed(**each)) for each in others)}) == 1 + len(others)


@pytest.mark.slow
def test_a_run_on_shared_speech_makes_the_same_model(tmp_path: Path) -> None:
    cache = SpeechCache()
    spoilt = changed(groups=(Group(name="spoilt", count=4, noise_db=3.0, label_errors=0.5),))
    runs = {"plain": SETTINGS, "spoilt": spoilt, "plain again": SETTINGS}
    models = {}
    for name, settings in runs.items():
        shared = FleetRun(settings, tmp_path / f"{name} shared", load=cache).run()
        models[name] = shared.paths.model.read_bytes()
        if name != "plain again":
            alone = FleetRun(settings, tmp_path / f"{name} alone").run()
            assert alone.paths.model.read_bytes() == models[name]
    assert models["plain"] == models["plain again"] != models["spoilt"]
