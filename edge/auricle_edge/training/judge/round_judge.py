"""The judge of a round: what it made worse on clips and on streams, against the round before and the best state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import UNSET

from auricle.packs.pack import Pack
from auricle.wire.messages import WORSE, WORSE_RECEIVED
from auricle.wire.plan import Plan
from auricle.wire.tensors import Flat
from auricle_edge.training.judge.best import Best, BestStore
from auricle_edge.training.judge.clips import answers, find_worse
from auricle_edge.training.judge.comparison import Heard, Worse, improves, in_words, outgrows, words_heard, worse_in
from auricle_edge.training.judge.sound import JudgedSound, Judging, Negatives, load_negatives
from auricle_learning.methods.vectors import method_of
from auricle_learning.training.train import LocalState, RoundResult, Trainer

PLUGIN, PERSONAL = "plug-in", "personal model"


@dataclass(frozen=True, eq=False)
class Verdict:
    """What becomes of a round."""

    reason: str | None
    """Why it is neither sent nor kept, for the coordinator; None where it is."""
    listen: Flat
    """The plug-in (P,) to listen with: the received one, or the best one where that is significantly worse."""
    back: LocalState | None = None
    """The best state, where the round is refused and the state before it is significantly worse than the best."""
    best: Mapping[str, Best] | None = None
    """The best states by role after this round; None where nothing was played."""
    received: str | None = None
    """In what the received plug-in is significantly worse than the best one, for the coordinator; None: in nothing."""


@dataclass(frozen=True, eq=False)
class _Tried:
    """A model in a round."""

    role: str
    model: str
    before: Flat
    after: Flat


def best_states(pack: Pack, architecture: str, folder: Path, *, durable: bool = True) -> BestStore:
    """The best states of a device with this own model, in its folder; `durable`: they survive a power cut."""
    tables = {PLUGIN: pack.plugin_table, PERSONAL: pack.table(architecture)}
    return BestStore(folder, pack.identity, tables, durable=durable)


class RoundJudge:
    """Judges the rounds of one device.

    Parameters
    ----------
    trainer
        Its models, clips and settings.
    judging
        The detector's rule, and negatives that are not the pack's.
    folder
        Where the best states are kept.
    durable
        They survive a power cut.
    """

    def __init__(self, trainer: Trainer, judging: Judging, folder: Path, *, durable: bool = True) -> None:
        pack, self._settings = trainer.pack, trainer.settings
        self._trainer, self._judging = trainer, judging
        self._store = best_states(pack, trainer.architecture, folder, durable=durable)
        self._best = self._store.read()
        self.nbytes = 4 * (pack.plugin_table.size + pack.table(trainer.architecture).size)
        """Bytes that the best states take on the disk, but for their counts."""

    def judge(self, plan: Plan, round_number: int, plugin: Flat, state: LocalState, result: RoundResult) -> Verdict:
        """Say what becomes of a round; nothing is kept by this.

        Parameters
        ----------
        plugin, state
            What the round started from: the received plug-in (P,) and the local state.
        """
        after = result.plugin if result.trained is None else result.trained
        tried = [_Tried(PLUGIN, self._trainer.pack.manifest.plugin, plugin, after)]
        method = method_of(plan)
        if plan.mode == "mutual" or (method is not None and method.own_model):
            tried.append(_Tried(PERSONAL, self._trainer.architecture, state.weights, result.local.weights))
        reason = next(filter(None, map(self._on_clips, tried)), None)
        if not self._is_drawn(round_number):
            return Verdict(reason, plugin)
        trainer = self._trainer
        sound = JudgedSound(trainer.runtime, self._judging.detect, self._negatives(), trainer.data.held_out)
        return self._on_streams(sound, tried, reason) if sound.hours else Verdict(reason, plugin)

    def keep(self, verdict: Verdict) -> None:
        """Keep the best states durably where they changed; StorageError when the disk cannot take them."""
        if verdict.best is None or dict(verdict.best) == self._best:
            return
        self._store.save(dict(verdict.best))
        self._best = dict(verdict.best)

    def _negatives(self) -> Negatives:
        """Those that are shared, or those of the pack, which take 12 MB unpacked and are given back after the round."""
        shared, detect, minutes = self._judging.carried, self._judging.detect, self._settings.judged_minutes
        return (
            load_negatives(self._trainer.pack, detect, minutes, frontend=self._trainer.frontend)
            if shared is None
            else shared
        )

    @property
    def _has_negatives(self) -> bool:
        shared = self._judging.carried
        return self._trainer.pack.manifest.negatives is not UNSET if shared is None else len(shared.streams) > 0

    def _is_drawn(self, round_number: int) -> bool:
        """Whether this round is played to the models; another draw for each device and round."""
        share = self._settings.judged_share
        return share >= 1 or bool(np.random.default_rng([self._trainer.seed, round_number, 5]).random() < share)

    def _on_clips(self, tried: _Tried) -> str | None:
        trainer, held_out = self._trainer, self._trainer.data.held_out
        before, after = (
            answers(
                trainer.logits(tried.model, w, held_out), held_out.targets, trainer.pack.labels, self._settings.accept
            )
            for w in (tried.before, tried.after)
        )
        reason = find_worse(before, after, self._settings, accepts=not self._has_negatives)
        return None if reason is None else f"{reason} ({tried.role})"

    def _on_streams(self, sound: JudgedSound, tried: list[_Tried], reason: str | None) -> Verdict:
        """Compare false accepts with those of the best states; a state takes its place among these when it is kept."""
        best, back = dict(self._best), None
        for each in tried:
            if each.role in best and best[each.role].sound != sound.digest:
                weights = best[each.role].weights
                best[each.role] = Best(weights, sound.digest, sound.heard(each.model, weights))
            if each.role not in best:
                best[each.role] = Best(each.before, sound.digest, sound.heard(each.model, each.before))
        listen, received = self._judge_received(sound, tried[0], best)
        judged = [(each, sound.heard(each.model, each.after)) for each in tried]
        for each, after in judged:
            reason = reason or self._refusal(sound, each, best[each.role].heard, after)
        for each, after in judged:
            if each.role != PERSONAL:
                continue
            if reason is None:
                best[PERSONAL] = self._better(best[PERSONAL], Best(each.after, sound.digest, after))
            elif worse_in(best[PERSONAL].heard, sound.heard(each.model, each.before), self._settings) is not None:
                back = LocalState(best[PERSONAL].weights)
        return Verdict(reason, listen, back, best, received)

    def _judge_received(self, sound: JudgedSound, plugin: _Tried, best: dict[str, Best]) -> tuple[Flat, str | None]:
        """The plug-in to listen with, and why that is not the received one; it takes the best one's place if better."""
        received = Best(plugin.before, sound.digest, sound.heard(plugin.model, plugin.before))
        best[PLUGIN] = self._better(best[PLUGIN], received)
        kept = best[PLUGIN]
        worse = worse_in(kept.heard, received.heard, self._settings)
        if worse is None:
            return plugin.before, None
        return kept.weights, f"{WORSE_RECEIVED}{_compare(worse, received.heard, kept.heard, 'the best plug-in')}"

    def _refusal(self, sound: JudgedSound, tried: _Tried, best: Heard, after: Heard) -> str | None:
        """Why a model is not kept; None where it is.

        Worse than the best state is allowed to what is on the way back: a plug-in that is better than the received
        one, which is worse itself, in what it is worse in. And to what hears clearly more keywords than a best state
        that hears less than half of them, as long as it is not worse than the state before.
        """
        settings = self._settings
        worse = worse_in(best, after, settings)
        if worse is None:
            return None
        before = sound.heard(tried.model, tried.before)
        if tried.role == PLUGIN and self._recovers(best, before, after):
            return None
        if outgrows(best, after, settings) and worse_in(before, after, settings) is None:
            return None
        return f"{WORSE}{_compare(worse, after, best, f'the best state ({tried.role})')}"

    def _recovers(self, best: Heard, received: Heard, after: Heard) -> bool:
        """Whether a received model that is worse than the best one was made better in that, and worse in nothing."""
        worse = worse_in(best, received, self._settings)
        if worse is None or worse_in(received, after, self._settings) is not None:
            return False
        if worse == "false_accepts":
            return after.false_accepts < received.false_accepts
        return int(after.hits.sum()) > int(received.hits.sum())

    def _better(self, known: Best, other: Best) -> Best:
        """The better one of the best state and one that was not refused."""
        settings = self._settings
        if not known.heard.detects(settings.detector):
            return other
        if not other.heard.detects(settings.detector):
            return known
        better = improves(known.heard, other.heard, settings) or outgrows(known.heard, other.heard, settings)
        return other if better else known


def _compare(worse: Worse, heard: Heard, best: Heard, where: str) -> str:
    if worse == "hits":
        return f"hits: {words_heard(heard)}, {words_heard(best)} in {where}"
    return f"false_accepts: {in_words(heard)}, {in_words(best)} in {where}"
