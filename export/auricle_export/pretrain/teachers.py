"""What a model learns beside the labels: what trained models say of a window, and to say the same a hop later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from auricle.errors import SettingsError
from auricle.packs.manifest import UNKNOWN
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle_export.pretrain.modules import Modules, module_for, tensors_of, write_flat


@dataclass(frozen=True, eq=False)
class Taught:
    """A trained model of a pack, whose words may be others than those that are learnt."""

    pack: Pack
    model: str


class Teachers:
    """The mean of what trained models say of windows (Hinton et al. 2015), in the labels of the pack that learns.

    Parameters
    ----------
    taught
        At least one.
    labels
        Of the pack that learns, with `_unknown_`: what a teacher says of a word that is not among them.
    share
        Of the teachers' posteriors in a target.
    modules
        Modules that are not built in.
    """

    def __init__(
        self, taught: Sequence[Taught], labels: Sequence[str], share: float, device: torch.device, modules: Modules
    ) -> None:
        self._share = share
        column = {word: place for place, word in enumerate(labels)}
        self._modules: list[nn.Module] = []
        self._to: list[Tensor] = []
        for one in taught:
            module, table = module_for(one.model, one.pack, modules), one.pack.table(one.model)
            write_flat(tensors_of(module, table), table, start_weights(one.pack, one.model))
            self._modules.append(module.to(device).eval())
            places = [column.get(word, column[UNKNOWN]) for word in one.pack.labels]
            to = torch.zeros(len(places), len(labels), device=device)
            to[torch.arange(len(places)), torch.tensor(places)] = 1.0
            self._to.append(to)
        known = [[word in one.pack.labels for word in labels] for one in taught]
        self._known = torch.tensor(known, dtype=torch.float32, device=device)

    def targets(self, x: Tensor, y: Tensor, smoothing: float, *, pairs: bool = False) -> Tensor:
        """Targets (N, L) of windows x (N, T, mels) with labels y (N,): smoothed, and a share of what the teachers say.

        A teacher says nothing of windows with a word that it does not know; where none knows it, only the label counts.

        Parameters
        ----------
        pairs
            The second half of the windows are those of the first a little earlier: both get the mean of what is said
            of the two, as a device that listens takes the mean of windows.
        """
        count = self._known.shape[1]
        hard = nn.functional.one_hot(y, count).float() * (1 - smoothing) + smoothing / count
        known = self._known[:, y]
        said = torch.zeros_like(hard)
        with torch.no_grad():
            for module, to, knows in zip(self._modules, self._to, known, strict=True):
                said += knows[:, None] * (torch.softmax(module(x), dim=1) @ to)
        of = known.sum(dim=0)
        said /= of.clamp(min=1)[:, None]
        if pairs:
            said = mean_of_pairs(said)
        share = torch.where(of > 0, self._share, 0.0)[:, None]
        return (1 - share) * hard + share * said


def identity_of(taught: Sequence[Taught]) -> str:
    """What tells these teachers from others: a training's state with one does not go on with another."""
    return ",".join(f"{one.pack.identity}/{one.model}" for one in taught)


def mean_of_pairs(rows: Tensor) -> Tensor:
    """For each row (2 N, L) its mean with that of the other half."""
    one, other = rows.chunk(2)
    return ((one + other) / 2).repeat(2, 1)


def unsteadiness(logits: Tensor) -> Tensor:
    """Mean Kullback-Leibler divergence of a pair's mean, which is taken as given, from each of its two posteriors.

    Parameters
    ----------
    logits
        (2 N, L), the second half of the windows those of the first a little earlier.
    """
    logs = torch.log_softmax(logits, 1)
    with torch.no_grad():
        both = mean_of_pairs(logs.exp())
    return nn.functional.kl_div(logs, both, reduction="batchmean")


def teachers_of(names: Sequence[str], packs: Sequence[Pack], learner: Pack) -> list[Taught]:
    """All trained models of these packs.

    Raises
    ------
    SettingsError
        A pack is named twice, has no trained weights, or other features than the pack that learns.
    """
    taught = []
    for place, (name, pack) in enumerate(zip(names, packs, strict=True)):
        if pack.identity in [other.identity for other in packs[:place]]:
            raise SettingsError(f"The teacher {name} is named twice: name it once.")
        if not pack.manifest.start:
            raise SettingsError(f"The teacher {name} has no trained weights: name a pack that has them.")
        refuse_features(f"teacher {name}", pack, learner)
        taught += [Taught(pack, model) for model in pack.manifest.start if model in pack.tables]
    return taught


def refuse_features(what: str, pack: Pack, learner: Pack) -> None:
    """Refuse a pack that hears sound otherwise than the one that learns, with a SettingsError."""
    ours, theirs = learner.manifest.task, pack.manifest.task
    if (ours.frontend, ours.sample_rate, ours.frames) != (theirs.frontend, theirs.sample_rate, theirs.frames):
        raise SettingsError(
            f"The {what} hears other features than {learner.manifest.name}: name a pack with the same window and "
            "front-end."
        )
