"""A device and a coordinator that were told no pack run the same one."""

from __future__ import annotations

from inspect import signature

from typer.models import OptionInfo

from auricle.packs.pack import DEFAULT_PACK, SHIPPED, load_pack
from auricle_cloud.commands.coordinator_settings import CoordinatorSettings
from auricle_edge.commands.evaluate_commands import evaluate
from auricle_edge.settings import EdgeSettings


def test_device_and_coordinator_agree() -> None:
    options = [signature(command).parameters["pack"].default for command in (evaluate,)]
    defaults = [option.default if isinstance(option, OptionInfo) else option for option in options]
    assert [*defaults, EdgeSettings(state="x").pack, CoordinatorSettings().pack] == [DEFAULT_PACK] * 3
    assert DEFAULT_PACK in SHIPPED


def test_it_listens_for_a_wake_word_with_a_trained_model() -> None:
    pack = load_pack(DEFAULT_PACK)
    assert pack.listening is not None and pack.listening.wake == ("computer", "jarvis")
    assert pack.manifest.plugin in pack.manifest.start
