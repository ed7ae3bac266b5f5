"""What a run chooses where its settings leave open what its method or its devices need: a name alone runs.

Each choice is a sentence and stands in the run's `settings.json` as if it had been told.
"""

from __future__ import annotations

from math import ceil

from msgspec import structs

from auricle.errors import DataError
from auricle.speech.corpora import split_corpus
from auricle.speech.voices import most_voices
from auricle.speech.words import WORD_SETS
from auricle_fleet.settings.check import check_run, learns_from_labelled
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_fleet.settings.partition import Partition
from auricle_learning.presets import Preset, get_preset

SYNTHETIC = "synthetic"
SYNTHETIC_UNSEEN = 12
WORDS = "gsc12"
"""What is learnt when neither words nor a pack are named."""
LABELLED = "share:0.2"
FEW = range(2, 7)
"""Devices whose few clips the pack's negatives outweigh."""
CARRIED_BY_FEW = 0.25
DEALT_DEVICES = 50
"""Among which FedMLAC's print deals UrbanSound8K."""


def with_choices(told: FleetSettings) -> tuple[FleetSettings, tuple[str, ...]]:
    """The settings with what they leave open and the run needs, and a sentence for each choice.

    Raises
    ------
    SettingsError
        A value is not allowed, or settings do not go together.
    """
    check_run(told)
    sentences: list[str] = []
    for choose in (_labelled, _without_drops, _deal_clips, _voices, _few_people):
        settings, sentence = choose(told)
        if sentence:
            told, sentences = settings, [*sentences, sentence]
    return told, tuple(sentences)


def _preset(told: FleetSettings) -> Preset:
    return told.with_method(get_preset(told.preset))


def _labelled(told: FleetSettings) -> tuple[FleetSettings, str]:
    """Labelled clips for the coordinator of a method that learns from them, or for the first model."""
    learns = learns_from_labelled(told)
    if told.labelled is not None or not (learns or told.pretrain):
        return told, ""
    who = f"The method {_preset(told).method.name} learns" if learns else "The first model learns"
    return structs.replace(told, labelled=LABELLED), (
        f"{who} from labelled clips at the coordinator. None are named, so --labelled "
        f"{LABELLED} is taken: that share of the devices' clips, drawn by label, which the devices have no more."
    )


def _without_drops(told: FleetSettings) -> tuple[FleetSettings, str]:
    """Training without dropped activations where the shipped models, which have no layers for that, are trained."""
    chosen = _preset(told)
    if told.pack is not None or not chosen.plan.bavd or "bavd" in told.method_options:
        return told, ""
    return structs.replace(told, method_options={**told.method_options, "bavd": False}), (
        f"The method {chosen.method.name} drops activations, and the models of shipped packs have no layers for that, "
        f"so --method-option bavd=false is taken. For the whole method: auricle export build {told.words or WORDS} "
        "--bavd --weights shipped --out packs, and its pack with --pack."
    )


def _deal_clips(settings: FleetSettings) -> tuple[FleetSettings, str]:
    """How many devices have shares of a corpus that says of no clip whose it is."""
    named, partition = split_corpus(settings.data), settings.partition
    if named is None or named[0].has_speakers or (partition.deals and settings.devices is not None):
        return settings, ""
    if not partition.deals:
        partition = Partition(kind="dirichlet", imbalance=partition.imbalance, tail=partition.tail)
    devices = DEALT_DEVICES if settings.devices is None else settings.devices
    return structs.replace(settings, partition=partition, devices=devices), (
        f"A clip of {named[0].title} is nobody's, so --partition {partition.kind} is taken, with {devices:,} devices."
    )


def _voices(told: FleetSettings) -> tuple[FleetSettings, str]:
    """Voices made from those of the synthetic speakers where there are more devices than these."""
    if told.data != SYNTHETIC or told.devices is None or told.partition.deals:
        return told, ""
    unseen = SYNTHETIC_UNSEEN if told.unseen is None else told.unseen
    try:
        most = most_voices()
    except DataError:  # espeak-ng is missing, which the run says when it synthesises
        return told, ""
    if told.devices + unseen <= most or unseen >= most:
        return told, ""
    partition = structs.replace(told.partition, kind="voices")
    takes = min(told.takes, ceil(partition.clips / _words(told)))
    return structs.replace(told, partition=partition, takes=takes), (
        f"There are {most} synthetic speakers for {told.devices:,} devices and {unseen} unseen speakers, so "
        "--partition voices is taken: devices beyond the speakers have one of their voices, stretched, and all have "
        f"{partition.clips} clips at most, of {takes} takes of each word."
    )


def _few_people(told: FleetSettings) -> tuple[FleetSettings, str]:
    """Less sound without keywords where a few people teach a trained model: with more it hears others less."""
    if told.carried is not None or told.start != "pack" or told.devices not in FEW:
        return told, ""
    return structs.replace(told, carried=CARRIED_BY_FEW), (
        f"With {told.devices} devices the pack's sound without keywords would outweigh their clips, so --carried "
        f"{CARRIED_BY_FEW} is taken, half of what more devices have (docs/gate.md)."
    )


def _words(told: FleetSettings) -> int:
    """How many words are spoken, at least."""
    words = told.words or WORDS
    return len(WORD_SETS[words]) if words in WORD_SETS else words.count(",") + 1
