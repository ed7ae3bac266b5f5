"""What a run came to, as tables: a row a round, a row a device, and where its files lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from auricle.errors import StorageError, refuse_misfits_of
from auricle.settings import CheckedMeta
from auricle.speech.sound_faults import FindingCount
from auricle_fleet.population.attacks import Attackers
from auricle_fleet.population.held_out import DeviceScores, FleetScore, ModelRole
from auricle_fleet.results.run_folder import RunFolder


class RoundRow(msgspec.Struct, metaclass=CheckedMeta, frozen=True, kw_only=True):
    """A round, as `metrics.jsonl` has it. Accuracies and shares are from 0 to 1."""

    round: int
    """From 1."""
    rounds: int
    """How many the run has in all."""
    state: str
    """`published`, or `aborted`: the model stayed as it was."""
    plugin_accuracy_unseen: float | None
    """Of the shared plug-in on clips of speakers that no device has; None where there are none."""
    plugin_accuracy_validation: float | None = None
    """The same on clips of the validation speakers; None where none are kept apart."""
    personal_accuracy: float | None
    """Mean of the devices' newest accuracies on their own held-out clips, a fifth of what each has; None where none has
    any. One clip held out of few leaves its word rarer in training: a model that has learnt nothing is at 0.0."""
    invited: int
    """Devices that were asked."""
    counted: int
    """Devices whose update arrived in time, without those that the rule left out of every layer."""
    seconds: float
    """Of this round."""
    seconds_total: float
    """Of all rounds so far, those before an interruption included."""
    seconds_left: float
    """Estimated."""
    bytes_up: int
    """Sent by all devices so far."""
    bytes_down: int
    """Received by all devices so far."""
    inference_loss: float | None
    """Mean loss of the round's first model on the devices' clips: in nats, unless the method's `inference_loss` is of
    posteriors."""
    false_accepts_per_hour: float | None = None
    """Of the plug-in on sound without keywords; None where there is no such sound. Less than an hour of it shows no
    rate: people are told `false_accepts` and `negative_seconds`."""
    false_accepts: int | None = None
    """How many these are; None in rounds of an earlier version, too."""
    negative_seconds: float | None = None
    """In so much sound."""
    refused: tuple[str, ...] = ()
    """Devices that gave the round up because it made them worse."""
    personal: dict[str, float | None] = {}
    """The devices counted, each with the accuracy of its own model on its own held-out clips."""
    scores: DeviceScores = {}
    """The devices counted, each with accuracy and macro F1 on its own held-out clips, of the shared model as the round
    brought it, of that model after local training, and of the model that it would use; none of the live engine."""
    held_out: dict[ModelRole, FleetScore] = {}
    """The same over all devices so far, each with its newest."""
    bounded: tuple[str, ...] = ()
    """Devices that counted for less than they sent or said, or than the rule alone would have given them."""
    alarm: bool = False
    """Whether detection found the round's first model poisoned."""
    harmful: tuple[str, ...] = ()
    """Devices that detection blamed for it."""
    comparison_seconds: float | None = None
    """That asking for losses and comparing them took on this machine; None without detection."""
    shapley_seconds: float | None = None
    """That finding the harmful updates and the repair took; 0 without an alarm."""
    epsilon: float | None = None
    """Given away by all rounds so far towards who sees models; None without noise on devices."""
    accounting: str | None = None
    """What computed it: PLD, by privacy loss distributions, or RDP, by Renyi differential privacy."""
    device_epsilon: float | None = None
    """Towards who sees a device's single updates."""
    labelled_devices: int | None = None
    """Of those counted, who trained on labels; None in rounds in which everybody has to."""
    unlabelled_devices: int | None = None
    """Who had none."""
    coordinator_angle: float | None = None
    """Degrees between the direction of the coordinator's labelled clips and the round's; None without such a rule."""
    labelled_angle: float | None = None
    """Mean of those between the directions of devices with labels and the round's."""
    unlabelled_angle: float | None = None
    """The same for devices without."""
    left_out_by_rule: int = 0
    """Devices whose update arrived in time, and got the weight 0 in every layer from the rule."""
    left_out: dict[str, tuple[str, ...]] | None = None
    """By layer, the devices that did not count in it; None in rounds of a version that did not record it."""
    groups: dict[str, int] | None = None
    """The devices counted, each with the number of its group; None where the rule makes no groups."""
    backdoor: float | None = None
    """Share of the unseen speakers' clips of other labels that a backdoor's trigger turns into its label; None without
    a group that has one."""
    clock: float | None = None
    """When it began on the engine's own clock, seconds since the run began; None with an engine that has none."""
    available: int | None = None
    """Devices that could be invited then."""


class DeviceRow(msgspec.Struct, metaclass=CheckedMeta, frozen=True, kw_only=True):
    """A device over all rounds."""

    device: str
    speaker: str
    """Whose clips it has."""
    model: str
    """Architecture of its own model."""
    training_clips: int
    held_out_clips: int
    rounds: int
    """In which its update was counted."""
    left_out: int
    """Rounds in which it did not count in at least one layer."""
    refused: int
    """Rounds that it gave up because they made it worse."""
    harmful: int = 0
    """Rounds in which detection blamed it."""
    group: str | None = None
    """Of the settings' groups."""
    accuracy: float | None
    """Newest, of its own model on its own held-out clips."""


HEARD_BEFORE = "These voices may have been heard before: the pack was trained on recordings of this folder."
"""Of a run whose figures flatter."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run, as `summary.json` has it."""

    plugin_accuracy_unseen: float | None
    """Of the last plug-in on clips of speakers that no device has."""
    personal_accuracy: float | None
    """Mean of the devices' newest accuracies on their own held-out clips."""
    central_accuracy_unseen: float | None
    """Of the central training; None without."""
    start: str
    """`scratch`, `pack`, or the run whose model was the first one."""
    start_accuracy_unseen: float | None
    """Of the first plug-in."""
    start_false_accepts_per_hour: float | None
    """Of the first plug-in; less than an hour of sound shows no rate."""
    false_accepts_per_hour: float | None
    """Of the last plug-in."""
    judge: bool
    """Whether devices judged their rounds."""
    judged_seconds: float
    """Of sound without keywords, on which a device judges a round."""
    refused_rounds: int
    """Given up by devices, all together."""
    refusing_devices: int
    """That gave up one or more."""
    devices: int
    """Who learnt."""
    rounds: int
    """That were made."""
    rounds_planned: int
    """How many there were to be."""
    interrupted: bool
    """Whether it ended before that."""
    seconds: float
    """Of all rounds."""
    bytes_up: int
    """Sent by all devices."""
    bytes_down: int
    """Received by all devices."""
    words: tuple[str, ...]
    """Labels, in the order of the classifier."""
    training_clips: int
    """Of all devices."""
    unseen_clips: int
    """Of speakers that no device has."""
    unseen_speakers: int
    """How many these are."""
    skipped_files: int
    """Files of sound that could not be used."""
    method: str = msgspec.field(name="rule")
    """Of federated learning; `rule` in the file."""
    preset: str
    """As it was named."""
    rates: dict[str, float | str | None]
    """Learning rates of devices and of the server's optimizer."""
    seed: int
    """Of every draw."""
    pack: str
    """The pack's identity."""
    version: str
    """Of Auricle."""
    plugin_accuracy_validation: float | None = None
    """Of the last plug-in on the validation speakers' clips."""
    confusion: tuple[tuple[int, ...], ...] | None = None
    """(L, L) clips of unseen speakers by the word that was said, then by what the last plug-in took it for."""
    heard_before: bool = False
    """Whether the weights that it started from were trained on recordings of the same folder: the figures flatter."""
    start_false_accepts: int | None = None
    """Of the first plug-in, in as much sound as the last one's."""
    false_accepts: int | None = None
    """Of the last round's plug-in."""
    negative_seconds: float | None = None
    """Of sound without keywords, in which these false accepts were counted."""
    label_clips: tuple[int, ...] | None = None
    """(L,) training clips of all devices by what is said in them."""
    keyword_precision: tuple[float, ...] | None = None
    """Of the last plug-in on clips of unseen speakers, at recalls of 0.05 to 1 in steps of 0.05: of each keyword beside
    all other clips, the share of what it accepts that is right, at the highest threshold with which the recall is
    reached; the mean of the keywords."""
    held_out_precision: tuple[float, ...] | None = None
    """The same on the devices' own held-out clips, all together."""
    pretrain: int = 0
    """Epochs for which the first plug-in was trained on the coordinator's clips."""
    start_precision: tuple[float, ...] | None = None
    """Of the first plug-in, as `keyword_precision`; None where it is noise."""
    central_precision: tuple[float, ...] | None = None
    """Of the central training, likewise."""
    attackers: tuple[Attackers, ...] = ()
    """The groups that attack."""
    detect: bool = False
    """Whether the coordinator looked for attackers."""
    runtime: str | None = None
    """What trained the devices; None in a run of an earlier version."""
    runtime_reason: str | None = None
    """Why this one, a clause."""
    chosen: tuple[str, ...] = ()
    """What the run chose because its settings left it open, each a sentence."""
    left_to_onnxruntime: dict[str, str] = {}
    """Graphs that the runtime leaves to onnxruntime, by file, each with the reason."""
    findings: tuple[FindingCount, ...] = ()
    """Files of sound that could not be used, or not as they stand, by reason."""


@refuse_misfits_of
@dataclass(frozen=True)
class FleetResult:
    """What a run came to. `msgspec.to_builtins(result.rounds)` gives plain rows, for pandas or CSV."""

    rounds: tuple[RoundRow, ...]
    devices: tuple[DeviceRow, ...]
    summary: Summary
    paths: RunFolder

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C, SIGTERM or `stop` ended it early: `FleetRun.resume` goes on."""
        return self.summary.interrupted


def prolonged(rounds: Sequence[RoundRow]) -> str:
    """Why the command that repeats a run gives other weights, a sentence: it was prolonged; empty where it was not."""
    lengths = list(dict.fromkeys(row.rounds for row in rounds))
    if len(lengths) < 2:
        return ""
    return (
        f"This run was prolonged from {lengths[0]} to {lengths[-1]} rounds: where learning rates follow the number of "
        f"rounds, a run of {lengths[-1]} from its start has other weights."
    )


def round_rows(lines: Iterable[Mapping[str, object]], path: Path) -> tuple[RoundRow, ...]:
    """Read the lines of `metrics.jsonl` as rows; StorageError where one has not what a round has."""
    try:
        return tuple(msgspec.convert(line, RoundRow) for line in lines)
    except msgspec.ValidationError as error:
        raise StorageError(f"{path} has a line that is not a round of a fleet run: {error}.") from error


def device_rows(
    names: Sequence[str],
    models: Sequence[str],
    speakers: Sequence[str],
    counts: NDArray[np.int64],
    rounds: Sequence[RoundRow],
    groups: Sequence[str | None] | None = None,
) -> tuple[DeviceRow, ...]:
    """Add up the rounds by device.

    Parameters
    ----------
    names
        (N,) of the devices.
    models
        (N,) architecture of each one's own model.
    speakers
        (N,) whose voice each one hears.
    counts
        (N, 2) clips of each that it trains on, and that it holds out.
    rounds
        All rounds of the run.
    groups
        (N,) names of their groups, None where one is in none; without, nobody is in any.
    """
    newest = {name: value for row in rounds for name, value in row.personal.items() if value is not None}
    part = Counter(name for row in rounds for name in row.personal)
    left_out = Counter(name for row in rounds for name in set(chain.from_iterable((row.left_out or {}).values())))
    refused = Counter(name for row in rounds for name in set(row.refused))
    harmful = Counter(name for row in rounds for name in set(row.harmful))
    of_each = zip(names, models, speakers, counts.tolist(), groups or [None] * len(names), strict=True)
    return tuple(
        DeviceRow(
            device=name,
            speaker=speaker,
            model=model,
            training_clips=trained,
            held_out_clips=held_out,
            rounds=part[name],
            left_out=left_out[name],
            refused=refused[name],
            harmful=harmful[name],
            group=group,
            accuracy=newest.get(name),
        )
        for name, model, speaker, (trained, held_out), group in of_each
    )
