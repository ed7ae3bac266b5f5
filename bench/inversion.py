"""What an honest but curious coordinator reads of clips from what leaves a device, beside the model that it sent.

Devices are people whom the attacker has never heard, with 1, 4 or 16 clips; the attacker has clips of other people and
knows which words a device has. It is told one of these:

- `head`: the plug-in's update after a round, of which the classifier's part alone is read: what moved the weights of a
  word, divided by what moved its bias, is what the classifier sees of the word's clips.
- `one step`, `a round`: all of the update after one step or a round. From what `head` reads on, it looks for clips
  whose gradient points where the update does (1 - cos, Adam; Geiping et al. 2020, https://arxiv.org/abs/2003.14053).
- `maps`: the plug-in's activation maps after a round; `means`: of a word the mean of what the device's own model sees,
  where the attacker has that model as it began; `gradients`: the same of the plug-in that comes with the update.

What the log-mels were follows from features and maps by ridge regression on the attacker's own clips.

Printed are, with the standard error over devices: the correlation of what was read with the clip, both less the word's
mean (0: nothing beyond the word); that with the best of 99 other clips of the word by people the attacker never heard;
how often the right one of the 100 is the nearest to it; and how often it is found by comparing what each of the 100
would have sent itself. By chance: 1 %. Last, how often one of so many people is the nearest, by clips that the device
does not have.

    python bench/inversion.py --data DIR [--data DIR2] [--devices 24] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from msgspec.structs import replace
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from auricle.speech.features import LogMel
from auricle.wire.tensors import Flat
from bench.comparison_table import table
from bench.privacy_net import AttackedNet, unit
from bench.privacy_reading import Array, Reading, Ridge, correlation, reading
from bench.privacy_speech import PLAN, Speech

CANDIDATES = 100
SIZES = (1, 4, 16)
STEPS = 120
"""Of an inversion."""
LEAKS = ("head", "maps", "means", "gradients", "one step", "a round")
QUICK = ("head", "maps", "means")
"""What reads of as many devices as are asked for; of the others, that cost more, fewer."""
LEARNT_FROM = 1_000
"""Clips of the attacker to which a regression is fitted."""


@dataclass(frozen=True, eq=False)
class Device:
    """A device that is attacked."""

    clips: NDArray[np.intp]
    """(n,) of one person."""
    candidates: NDArray[np.intp]
    """(n, 100) for each clip itself and others of its word that are not on the device."""


class Attacker:
    """What the coordinator has: a model, and clips of people who have no device."""

    def __init__(self, speech: Speech, rounds: int, seed: int) -> None:
        self._speech, self._net, self._draw = speech, AttackedNet(speech.pack), np.random.default_rng(seed)
        self.clips = LogMel(speech.pack.manifest.task).finish(speech.energies)
        """(N, T, mels) log-mels of all clips."""
        self.start = speech.first(speech.heard, rounds)
        own = speech.heard
        flat = self.clips.reshape(len(self.clips), -1)
        self.flat = flat.astype(np.float64)
        self._own = own
        targets = speech.targets[own]
        self.means = {int(word): self.flat[own[targets == word]].mean(0) for word in np.unique(targets)}
        """Of each word."""
        self._spread = self.flat[own].std(0).astype(np.float32)

    def devices(self, size: int, count: int) -> list[Device]:
        """Devices of people with so many clips, drawn."""
        speech, away = self._speech, self._speech.unheard
        people = [away[speech.speakers[away] == person] for person in np.unique(speech.speakers[away])]
        able = [clips for clips in people if len(clips) >= size]
        found = []
        for place in self._draw.permutation(len(able))[:count].tolist():
            clips = self._draw.choice(able[place], size, replace=False)
            found.append(Device(clips, np.stack([self._candidates(clip, clips) for clip in clips.tolist()])))
        return found

    def _candidates(self, clip: int, taken: NDArray[np.intp]) -> NDArray[np.intp]:
        speech, away = self._speech, self._speech.unheard
        others = away[(speech.targets[away] == speech.targets[clip]) & ~np.isin(away, taken)]
        return np.concatenate([[clip], self._draw.choice(others, CANDIDATES - 1, replace=False)])

    # -- the plug-in's update

    def of_update(self, device: Device, epochs: int, *, whole: bool) -> list[Reading]:
        """Look for the clips of a device in what its training changed, in the `whole` of it or in the classifier."""
        clips, targets = device.clips, self._speech.targets[device.clips]
        plan = replace(PLAN, epochs=epochs)
        moved = self._speech.trained(self.start, clips, 0, 0, plan).astype(np.float64) - self.start
        wanted = torch.from_numpy((-moved / np.linalg.norm(moved)).astype(np.float32))
        parameters = self._net.parameters(self.start)
        ridge = self._ridge("means", lambda own: self._net.features(self.start, own), self.start)
        read = [ridge(self._net.seen_of(moved, int(word))) for word in targets]
        if whole:
            read = self._inverted(wanted, targets, parameters, read)
        found = []
        for place, candidates in enumerate(device.candidates):
            word = int(targets[place])
            alike = [read[other] for other in np.flatnonzero(targets == word)]
            true = self.flat[clips[place]]
            best = max(alike, key=lambda each: correlation(each - self.means[word], true - self.means[word]))
            if whole:
                scores = np.array([self._fit(wanted, parameters, clip) for clip in candidates.tolist()])
            else:
                seen = self._net.features(self.start, self.clips[candidates])
                scores = -np.linalg.norm(seen - self._net.seen_of(moved, word), axis=1)
            found.append(reading(best, self.flat[candidates], self.means[word], scores))
        return found

    def _fit(self, wanted: torch.Tensor, parameters: dict[str, torch.Tensor], clip: int) -> float:
        x, word = torch.from_numpy(self.clips[[clip]]), torch.from_numpy(self._speech.targets[[clip]])
        own = self._net.gradient(parameters, x, word, differentiable=False)
        return float(own @ wanted / own.norm())

    def _inverted(
        self,
        wanted: torch.Tensor,
        targets: NDArray[np.int64],
        parameters: dict[str, torch.Tensor],
        begun: Sequence[Array],
    ) -> list[Array]:
        """Clips of these words, looked for from some on, whose gradient points where the update does."""
        shape = (len(targets), *self.clips.shape[1:])
        means = np.stack([self.means[int(word)] for word in targets]).reshape(shape).astype(np.float32)
        centre, spread = torch.from_numpy(means), torch.from_numpy(self._spread.reshape(shape[1:]))
        away = (np.stack(begun).reshape(shape) - means) / self._spread.reshape(shape[1:])
        drawn = away + 0.05 * self._draw.standard_normal(shape)  # of two clips of a word the same is read
        looked = torch.from_numpy(drawn.astype(np.float32)).requires_grad_()
        optimizer = torch.optim.Adam([looked], lr=0.05)
        words = torch.from_numpy(targets)
        for _ in range(STEPS):
            optimizer.zero_grad()
            made = self._net.gradient(parameters, centre + spread * looked, words, differentiable=True)
            smooth = (looked[:, 1:] - looked[:, :-1]).abs().mean() + (looked[:, :, 1:] - looked[:, :, :-1]).abs().mean()
            (1 - made @ wanted / made.norm() + 1e-3 * smooth).backward()
            optimizer.step()
        return list((centre + spread * looked).detach().numpy().reshape(len(targets), -1).astype(np.float64))

    # -- what some methods add

    def of_maps(self, device: Device) -> list[Reading]:
        """Read the clips of a device from its activation maps."""
        targets = self._speech.targets[device.clips].tolist()
        sent = unit(self._net.sent_map(self.start, self.clips[device.clips], targets, PLAN.epochs, PLAN.rate))
        ridge = self._ridge("maps", lambda clips: unit(self._net.maps(self.start, clips)), self.start)
        read, found = ridge(sent), []
        for place, candidates in enumerate(device.candidates):
            own = unit(self._net.maps(self.start, self.clips[candidates]))
            scores = -np.linalg.norm(own - sent, axis=1)
            found.append(reading(read, self.flat[candidates], self.means[targets[place]], scores))
        return found

    def of_means(self, device: Device, *, known: bool) -> list[Reading]:
        """Read the clips of a device from its class means.

        Parameters
        ----------
        known
            Whether the attacker has the model that they are of, as with gradients of the classifier.
        """
        targets = self._speech.targets[device.clips]
        model = self._speech.trained(self.start, device.clips, 0, 0)
        sees = self._net.features(model, self.clips[device.clips])
        has = model if known else self.start
        ridge, found = self._ridge("known" if known else "means", lambda clips: self._net.features(has, clips), has), []
        for place, candidates in enumerate(device.candidates):
            sent = sees[targets == targets[place]].mean(0)
            scores = -np.linalg.norm(self._net.features(has, self.clips[candidates]) - sent, axis=1)
            found.append(reading(ridge(sent), self.flat[candidates], self.means[int(targets[place])], scores))
        return found

    def _ridge(self, name: str, of: Callable[[NDArray[np.float32]], Array], model: Flat) -> Ridge:
        """Kept from one device to the next where the model is the first one."""
        kept = self.__dict__.setdefault("_kept", {})
        if name not in kept or model is not self.start:
            some = self._own[:: max(1, len(self._own) // LEARNT_FROM)]
            kept[name] = Ridge(of(self.clips[some]), self.flat[some])
        ridge: Ridge = kept[name]
        return ridge

    # -- who it is

    def people(self, size: int, leak: str) -> tuple[float, int]:
        """How often a device's person is the nearest, by clips that are not on it; and of how many people."""
        speech, away = self._speech, self._speech.unheard
        people = [away[speech.speakers[away] == person] for person in np.unique(speech.speakers[away])]
        able = [self._draw.permutation(clips) for clips in people if len(clips) >= 2 * size and len(clips) >= 8]
        of: Callable[[NDArray[np.intp]], Array]
        if leak == "maps":
            of = lambda clips: unit(self._net.maps(self.start, self.clips[clips]))  # noqa: E731
        else:
            of = lambda clips: self._net.features(self.start, self.clips[clips])  # noqa: E731
        less = {word: of(self._own[speech.targets[self._own] == word]).mean(0) for word in self.means}
        known = np.stack([self._voice(of(clips[size:]), speech.targets[clips[size:]], less) for clips in able])
        hits = []
        for place, clips in enumerate(able):
            on = clips[:size]
            if leak == "maps":
                sent = unit(
                    self._net.sent_map(self.start, self.clips[on], speech.targets[on].tolist(), PLAN.epochs, PLAN.rate)
                )
                voice = sent - np.mean([less[int(word)] for word in speech.targets[on]], axis=0)
            else:
                seen = self._net.features(speech.trained(self.start, on, 0, 0), self.clips[on])
                voice = self._voice(seen, speech.targets[on], less)
            hits.append(int(np.argmax([correlation(voice, each) for each in known])) == place)
        return float(np.mean(hits)), len(able)

    @staticmethod
    def _voice(sent: Array, targets: NDArray[np.int64], less: dict[int, Array]) -> Array:
        """What is left of a person beyond the words: (M,)."""
        return np.mean([each - less[int(word)] for each, word in zip(sent, targets, strict=True)], axis=0)


class Row(NamedTuple):
    """A leak of devices of one size: means over clips, and standard errors over devices."""

    leak: str
    clips: int
    right: tuple[float, float]
    wrong: tuple[float, float]
    nearest: tuple[float, float]
    found: tuple[float, float]


def summed(leak: str, size: int, devices: Sequence[Sequence[Reading]]) -> Row:
    """Means over devices of what was read of their clips."""
    each = np.array([np.mean(np.array(readings, np.float64), axis=0) for readings in devices])
    error = each.std(0, ddof=1) / math.sqrt(len(each)) if len(each) > 1 else np.zeros(4)
    return Row(leak, size, *((float(a), float(b)) for a, b in zip(each.mean(0), error, strict=True)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="Speech Commands; repeatable.")
    parser.add_argument(
        "--rounds", type=int, default=12, help="That the first model has learnt from the attacker's clips."
    )
    parser.add_argument("--devices", type=int, default=24, help="A half, a fifth and a 17th where the attack is long.")
    parser.add_argument("--leaks", default=",".join(LEAKS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(told.seed)
    attacker = Attacker(Speech.read(told.data, unheard=300, seed=told.seed), told.rounds, told.seed)
    attacks: dict[str, Callable[[Device], list[Reading]]] = {
        "head": lambda device: attacker.of_update(device, PLAN.epochs, whole=False),
        "one step": lambda device: attacker.of_update(device, 1, whole=True),
        "a round": lambda device: attacker.of_update(device, PLAN.epochs, whole=True),
        "maps": attacker.of_maps,
        "means": lambda device: attacker.of_means(device, known=False),
        "gradients": lambda device: attacker.of_means(device, known=True),
    }
    lines = []
    for leak in told.leaks.split(","):
        for size in SIZES:
            often = told.devices if leak in QUICK else max(2, told.devices // (1 + size))
            row = summed(leak, size, [attacks[leak](device) for device in attacker.devices(size, often)])
            lines.append([row.leak, str(size), *(f"{a:.2f} ± {b:.2f}" for a, b in (row.right, row.wrong))])
            lines[-1] += [f"{100 * a:.0f} % ± {100 * b:.0f}" for a, b in (row.nearest, row.found)]
            if told.json:
                print(json.dumps(row._asdict()), flush=True)
    if not told.json:
        print(table(["leak", "clips", "correlation", "with the best other", "nearest of 100", "found of 100"], lines))
    for size in SIZES:
        for leak in ("maps", "means"):
            share, count = attacker.people(size, leak)
            answer = {"leak": leak, "clips": size, "people": count, "right": share}
            sentence = f"{leak} of {size} clips: the right one of {count} people in {share:.0%}"
            print(json.dumps(answer) if told.json else sentence, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
