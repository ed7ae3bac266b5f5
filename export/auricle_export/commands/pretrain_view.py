"""What `auricle export pretrain` shows: bars in a terminal, a line a model elsewhere, JSON on request."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from msgspec import UNSET
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn

from auricle.process.bars import TimeLeft
from auricle.process.table import progress_bars
from auricle.process.times import how_many

if TYPE_CHECKING:
    from auricle.hearing.origins import Recordings
    from auricle.packs.manifest import Listening, Start
    from auricle_export.pretrain.second_stage import Measured, Staged
    from auricle_export.pretrain.speech import PretrainSpeech
    from auricle_export.pretrain.trained import Epoch, Trained
    from auricle_export.voices.advice import Who


class View:
    """Shows a training: bars in a terminal, a line a model elsewhere, JSON on request."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft())
        self._bars = progress_bars(*columns, hidden=as_json)
        self._reading: dict[str, TaskID] = {}
        self._training: TaskID | None = None
        self._finished, self._weights = 0, 0

    def __enter__(self) -> View:
        """Start showing."""
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop showing."""
        self._bars.stop()

    def step(self, what: str, done: int, total: int) -> None:
        """Some of the speech is read."""
        if what not in self._reading:
            self._reading[what] = self._bars.add_task(what)
        self._bars.update(self._reading[what], completed=done, total=total, visible=done < total)

    def speakers(self, who: Who) -> None:
        """Synthetic voices are about to speak."""
        if self._json:
            typer.echo(json.dumps({"voices": who.facts()}))
            return
        for line in who.lines:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, model: str, weights: int, all_weights: int) -> None:
        """The training of a model begins: the bar's unit is a weight's training, since larger models take longer."""
        if self._training is None:
            self._training = self._bars.add_task("", total=all_weights)
        self._weights = weights
        self._bars.update(self._training, description=model)

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is done."""
        if self._json:
            typer.echo(
                json.dumps(
                    {
                        "model": epoch.model,
                        "epoch": epoch.number,
                        "epochs": epoch.epochs,
                        "loss": round(epoch.loss, 4),
                        "validation_accuracy": round(epoch.validation_accuracy, 4),
                        "validation_loss": round(epoch.validation_loss, 4),
                        "best_epoch": epoch.best_epoch,
                        "seconds": round(epoch.seconds, 1),
                    }
                )
            )
            return
        assert self._training is not None
        self._bars.update(
            self._training,
            completed=self._finished + self._weights * epoch.number / epoch.epochs,
            description=f"{epoch.model} {epoch.number}/{epoch.epochs}, validation {epoch.validation_accuracy:.1%}",
        )

    def trained(self, model: str, result: Trained, speech: PretrainSpeech) -> None:
        """A model is done."""
        self._finished += self._weights
        if self._json:
            return
        assert self._training is not None
        self._bars.update(self._training, completed=self._finished)
        self._bars.console.print(
            f"{model}: {result.accuracy:.1%} of {result.judged_clips:,} clips of {speech.test.speakers} unheard "
            f"speakers; trained {how_many(result.epochs, 'epoch')} in {result.seconds:.0f} s on "
            f"{len(speech.train):,} clips of {speech.train.speakers} speakers, the best was {result.best_epoch}; the "
            f"mean over its {len(result.scores)} words is {result.word_mean:.1%}.",
            highlight=False,
            soft_wrap=True,
        )

    def staged(self, stage: Staged) -> None:
        """A larger model was compared as second stage."""
        alone, both = stage.alone, stage.both
        if self._json:
            facts = {
                "second_stage": stage.model,
                "taken": stage.taken,
                "heard": {"alone": round(alone.heard, 4), "both": round(both.heard, 4)},
                "false_accepts": {"alone": round(alone.false_accepts, 3), "both": round(both.false_accepts, 3)},
                "recordings": {"alone": _recordings(alone.recordings), "both": _recordings(both.recordings)},
                "wrong": {"alone": round(alone.wrong, 4), "both": round(both.wrong, 4)},
                "false": {"alone": round(alone.false, 4), "both": round(both.false, 4)},
            }
            typer.echo(json.dumps(facts))
            return
        what = "commands" if stage.listening.wake else "keywords"
        wrong = (
            f"; {both.wrong:.1%} wrong (alone {alone.wrong:.1%}), {both.false:.1%} false (alone {alone.false:.1%})"
            if stage.listening.wake
            else ""
        )
        self._bars.console.print(
            f"{stage.model} as second stage: {both.heard:.1%} of the {what} on validation streams, the plug-in alone "
            f"{alone.heard:.1%}; {both.false_accepts:.1f} false accepts an hour from {both.recordings.bad} recordings "
            f"(alone {alone.false_accepts:.1f} from {alone.recordings.bad}){wrong}: "
            f"{'written into the pack' if stage.taken else 'left out'}.",
            highlight=False,
            soft_wrap=True,
        )

    def chosen(self, listening: Listening, measured: Measured) -> None:
        """Thresholds were chosen on validation streams."""
        found = measured.recordings
        if self._json:
            facts = {
                "heard": round(measured.heard, 4),
                "false_accepts": round(measured.false_accepts, 3),
                "recordings": _recordings(found),
            }
            typer.echo(json.dumps({"chosen": facts}))
            return
        what = "wake words" if listening.wake else "keywords"
        self._bars.console.print(
            f"Thresholds: on the validation streams that they were chosen on, {measured.false_accepts:.1f} false "
            f"accepts an hour of {what}, from {found.bad} of {found.heard:,} recordings.",
            highlight=False,
            soft_wrap=True,
        )

    def judged(self, model: str, result: Trained, start: Start) -> None:
        """A model that was trained live is judged on people of the test part."""
        self._finished += self._weights
        hearing = start.hearing
        assert hearing is not UNSET
        curve = {point.false_accepts_per_hour: point.hits for point in hearing.curve}
        if self._json:
            facts = {
                "model": model,
                "epochs": result.epochs,
                "best_epoch": result.best_epoch,
                "validation_hits": round(result.validation_accuracy, 4),
                "clip_accuracy": start.accuracy,
                "clips": start.judged_clips,
                "hours": hearing.hours,
                "hits": {str(rate): hits for rate, hits in curve.items()},
                "seconds": round(result.seconds, 1),
            }
            typer.echo(json.dumps(facts))
            return
        said = ", ".join(f"{kind} {share:.0%}" for kind, share in curve[5.0].items())
        self._bars.console.print(
            f"{model}: {start.accuracy:.1%} of {start.judged_clips:,} clips of people it never heard; hits at 5 false "
            f"accepts an hour ({hearing.hours:.1f} h): {said}; {how_many(result.epochs, 'epoch')} in "
            f"{result.seconds:.0f} s, the best was {result.best_epoch}.",
            highlight=False,
            soft_wrap=True,
        )


def _recordings(found: Recordings) -> dict[str, int]:
    return {"with_false_accepts": found.bad, "heard": found.heard}
