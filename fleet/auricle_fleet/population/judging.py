"""The judge of emulated devices: the sound it listens to, and the false accepts and precision of the plug-in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from auricle.errors import SettingsError
from auricle.packs.manifest import SPECIAL_LABELS
from auricle.packs.pack import Pack
from auricle.speech.features import Energies
from auricle.wire.tensors import Flat
from auricle_cloud.evaluation.evaluator import Evaluator, choose_evaluator
from auricle_cloud.evaluation.validation_set import ValidationSet
from auricle_edge.listening.detect import DetectTable, detect_settings
from auricle_edge.runtimes import choose_runtime
from auricle_edge.training.judge.clips import NEGATIVES
from auricle_edge.training.judge.comparison import Heard
from auricle_edge.training.judge.sound import Judging, Negatives, load_negatives
from auricle_edge.training.judge.streams import join
from auricle_fleet.population.conditions import target_of, triggered
from auricle_fleet.population.data import FleetData
from auricle_fleet.population.occlusion import occlusion
from auricle_fleet.settings.fleet_settings import FleetSettings
from auricle_learning.methods.vectors import private_vectors
from auricle_learning.runtimes import accuracy, frontend_of, recogniser
from auricle_learning.training.learn_settings import LearnSettings
from auricle_learning.training.speech_data import Clips

RECALLS = tuple(n / 20 for n in range(1, 21))
"""0.05 to 1, at which precision is measured."""
MEASURED_MINUTES = 3.0
"""Most minutes of the unseen speakers' clips on which each round's plug-in is measured."""

MOST_HELD_OUT_CLIPS = 20_000
"""Of the devices' own held-out clips, on which precision is measured."""


def of_no_keyword(clips: Clips, labels: Sequence[str]) -> list[Energies]:
    """Clips of other words and of silence, joined to one stretch; none where there are none."""
    silent = np.array([name in NEGATIVES for name in labels])
    return join(clips.energies[silent[clips.targets]])


def _half(data: FleetData, group: int) -> Clips:
    return data.unseen.chosen(np.flatnonzero(data.unseen_groups == group))


class FleetJudging:
    """What the devices of a run are judged by, and its plug-ins measured.

    Where the pack carries negatives, devices are judged and plug-ins measured on the half of these that nobody trains
    on, each model once however many devices ask. Otherwise both are done on clips of other words and of silence by
    unseen speakers, joined to a stream: devices are judged by those of one half of these speakers, plug-ins are
    measured by the other half's, which decide nothing. Nobody is trained on any. With detection the clips of the first
    half are the operator's, and plug-ins are measured on those of the second only; with validation speakers theirs are
    the operator's, and plug-ins are measured on those of all unseen.

    Parameters
    ----------
    settings, data
        Of the run.
    """

    def __init__(self, settings: FleetSettings, data: FleetData) -> None:
        pack, detect = data.pack, detect_settings(DetectTable(), data.pack)
        self._settings, self._data, self._detect = settings, data, detect
        self.runtime = choose_runtime(settings.runtime, pack).runtime
        half = settings.detect and data.validation is None
        self._heard = heard = _half(data, 1) if half else data.unseen
        self._frontend = frontend_of(self.runtime)
        self.speakers = data.unseen_speakers // 2 if half else data.unseen_speakers
        """Whose clips these are."""
        self._targets = heard.targets
        self.learn = LearnSettings(
            clips=1,
            maps=True,
            gradients=True,
            vectors=private_vectors(settings.preset_for(trained=False).method.get_method()),
            carried=settings.carried_share,
            judge=settings.judges,
            judged_share=settings.judge_share,
        )

    @cached_property
    def features(self) -> NDArray[np.float32]:
        """(N, frames, mels) of the clips that the plug-in is measured on."""
        return self._frontend.finish(self._heard.energies)

    @cached_property
    def judging(self) -> Judging:
        """What devices are judged by."""
        pack, carries = self._data.pack, self._carries
        own = None if carries else of_no_keyword(_half(self._data, 0), pack.labels)
        return Judging(
            self._detect, load_negatives(pack, self._detect, self._settings.judge_minutes, own, self._frontend)
        )

    @cached_property
    def _negatives_to_measure(self) -> Negatives:
        """The sound without keywords on which plug-ins are measured."""
        if self._carries and self.judging.carried is not None:
            return self.judging.carried
        others = of_no_keyword(_half(self._data, 1), self._data.pack.labels)
        return load_negatives(self._data.pack, self._detect, MEASURED_MINUTES, others, self._frontend)

    @property
    def _carries(self) -> bool:
        return self._data.pack.manifest.negatives is not UNSET

    @cached_property
    def _triggered_features(self) -> NDArray[np.float32]:
        """Features of the clips of other labels with a backdoor's trigger, where a group has one."""
        has_backdoor = any(group.attack == "backdoor" for group in self._settings.groups)
        tripped = np.flatnonzero((self._targets != target_of(self._data.pack.labels)) & has_backdoor)
        return self._frontend.finish(triggered(self._heard.energies[tripped])) if len(tripped) else self.features[:0]

    @property
    def seconds(self) -> float:
        """Of negatives that devices are judged on."""
        carried = self.judging.carried
        return 0.0 if carried is None else carried.streams.hours * 3600

    def describe(self, share: float) -> str:
        """On what devices judge a share of their rounds."""
        beginning = f"each device judges {share:.0%} of its rounds on"
        if not self.seconds:
            return f"{beginning} its own clips: no sound without keywords is known"
        return f"{beginning} {self.seconds:.0f} s of sound without keywords, as well as on its own"

    def evaluator(self, pack: Pack) -> Evaluator:
        """The operator's judge of a run with detection, by clips that measure nothing else.

        They are the validation speakers', or without any those of half of the unseen.

        Raises
        ------
        SettingsError
            There are no such clips.
        """
        operators = _half(self._data, 0) if self._data.validation is None else self._data.validation
        if not len(operators):
            raise SettingsError(
                "--detect judges by clips of unseen speakers, of whom there are too few: raise --unseen."
            )
        return choose_evaluator(pack, self._set(operators))[0]

    def labelled(self) -> ValidationSet:
        """The clips from which the coordinator of a run learns that names no folder of them."""
        assert self._data.labelled is not None
        return self._set(self._data.labelled)

    def _set(self, clips: Clips) -> ValidationSet:
        return ValidationSet(self._frontend.finish(clips.energies), clips.targets)

    def looks(self, plugin: Flat) -> NDArray[np.float64]:
        """(L, A, B) where a plug-in (P,) looks in the clips that it is measured on, as of `occlusion`."""
        recognise = recogniser(self.runtime, self._name, plugin)
        return occlusion(recognise, self.features, self._targets, len(self._data.pack.labels))

    def validated(self, plugin: Flat) -> float | None:
        """The share of the validation speakers' clips that a plug-in (P,) recognises; None where there are none."""
        if self._data.validation is None:
            return None
        logits = self.runtime.logits(self._name, plugin, self._validation_features)
        return accuracy(logits, self._data.validation.targets)

    @cached_property
    def _validation_features(self) -> NDArray[np.float32]:
        assert self._data.validation is not None
        return self._frontend.finish(self._data.validation.energies)

    def accuracy(self, plugin: Flat) -> float | None:
        """The share of the clips of unseen speakers that a plug-in (P,) recognises; None where there are none."""
        return accuracy(self.runtime.logits(self._name, plugin, self.features), self._targets)

    def turned(self, plugin: Flat) -> float | None:
        """The share of clips with a backdoor's trigger that a plug-in (P,) takes for the backdoor's label.

        Of the unseen speakers' clips of other labels; None where no group has a backdoor, or there are no such clips.
        """
        if not len(self._triggered_features):
            return None
        taken = self.runtime.logits(self._name, plugin, self._triggered_features).argmax(axis=1)
        return float((taken == target_of(self.runtime.pack.labels)).mean())

    def confusion(self, plugin: Flat) -> NDArray[np.int64] | None:
        """Clips (L, L) of unseen speakers by label and by what a plug-in (P,) takes them for; None without any."""
        labels = len(self.runtime.pack.labels)
        if not len(self._targets):
            return None
        taken = self.runtime.logits(self._name, plugin, self.features).argmax(axis=1)
        return np.bincount(self._targets * labels + taken, minlength=labels**2).reshape(labels, labels)

    def precision(self, plugin: Flat) -> tuple[float, ...] | None:
        """Precision of a plug-in (P,) on keywords of unseen speakers at each of `RECALLS`, see `keyword_precision`."""
        if not len(self._targets):
            return None
        logits = self.runtime.logits(self._name, plugin, self.features)
        return keyword_precision(logits, self._targets, self.runtime.pack.labels)

    def precision_of_held_out(self, plugin: Flat) -> tuple[float, ...] | None:
        """The same on the devices' own held-out clips together, of as many devices as have `MOST_HELD_OUT_CLIPS`."""
        logits, targets, count = [], [], 0
        for _, data in self._data.devices:
            held_out = data.held_out
            if count >= MOST_HELD_OUT_CLIPS:
                break
            if len(held_out):
                features = self._frontend.finish(held_out.energies)
                logits.append(self.runtime.logits(self._name, plugin, features))
                targets.append(held_out.targets)
                count += len(held_out)
        if not count:
            return None
        return keyword_precision(np.concatenate(logits), np.concatenate(targets), self.runtime.pack.labels)

    def false_accepts(self, plugin: Flat) -> Heard | None:
        """The false accepts of a plug-in (P,) in sound without keywords; None where there is no such sound."""
        hours = self._negatives_to_measure.streams.hours
        if not hours:
            return None
        accepts = self._negatives_to_measure.accepts(self.runtime, self._name, plugin)
        return Heard(accepts, np.zeros(0, np.uint8), hours)

    @property
    def _name(self) -> str:
        return self.runtime.pack.manifest.plugin


def keyword_precision(
    logits: NDArray[np.float32], targets: NDArray[np.int64], labels: Sequence[str]
) -> tuple[float, ...] | None:
    """Precision at each of `RECALLS` of one keyword against the rest, the mean of the keywords.

    As in FedRPO's figures, where each event is there or not: a clip's score is the keyword's posterior, and at a
    threshold those clips are accepted whose score is at least as large. Precision = clips of the keyword / accepted;
    recall = accepted clips of the keyword / all of them. It is that of the highest threshold with which the recall is
    reached, and there is one for each recall: clips of the same score are accepted together.

    Parameters
    ----------
    logits
        (N, L) of the plug-in.
    targets
        (N,) labels of the clips.
    labels
        (L,) their names; `_unknown_` and `_silence_` are no keywords.

    Returns
    -------
    tuple
        By recall; None where no clip is of a keyword.
    """
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    posteriors = np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)
    keywords = [i for i, label in enumerate(labels) if label not in SPECIAL_LABELS and (targets == i).any()]
    found = [_precision_of(posteriors[:, keyword], targets == keyword) for keyword in keywords]
    return tuple(np.mean(found, axis=0).tolist()) if found else None


def _precision_of(scores: NDArray[np.float64], wanted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Precision at each of `RECALLS` by scores (N,) of clips, of which one or more are wanted (N,)."""
    order = np.argsort(-scores, kind="stable")
    right = np.cumsum(wanted[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # the last clip of each score
    recall = right[last] / right[-1]
    places = np.searchsorted(recall, np.array(RECALLS) - 1e-9)
    precision: NDArray[np.float64] = right[last][places] / (last[places] + 1)
    return precision
