"""Where a model's training starts: at a pack's trained weights, moved to the words of the run."""

from __future__ import annotations

import numpy as np

from auricle.errors import PackError, SettingsError, nearest
from auricle.packs.pack import Pack
from auricle.packs.start import start_weights
from auricle.wire.tensors import Flat, TensorTable

STARTS = ("pack", "scratch")
"""Where a training starts: at the pack's trained weights, or at seeded noise."""


def check_start(start: str | None) -> None:
    """SettingsError, with a hint, for a start that there is not; None is `pack` where the pack has trained weights."""
    if start is not None and start not in STARTS:
        raise SettingsError(f'There is no start "{start}": {nearest(start, STARTS)}')


def choose_weights(start: str | None, pack: Pack, model: str, seed: int, origin: Pack | None = None) -> Flat | None:
    """Weights (P,) that a model starts from by `--start`; None: seeded noise.

    Parameters
    ----------
    start
        `pack`, `scratch`, or None for the pack's trained weights where it has some.
    pack, model, seed, origin
        As in `first_weights`, and its errors.
    """
    check_start(start)
    if start == "scratch" or (start is None and model not in (origin or pack).manifest.start):
        return None
    return first_weights(pack, model, seed, origin)


def first_weights(pack: Pack, model: str, seed: int, origin: Pack | None = None) -> Flat:
    """Weights (P,) that a model starts from: the trained ones of `origin`, fitted to the words of `pack`.

    The body is taken as it is, and so is the classifier's row of every word that both know; the rows of other words
    are drawn as `TensorTable.initial(seed)` draws them.

    Parameters
    ----------
    pack
        The pack of the run.
    model
        One of its models.
    seed
        Of the rows of words that `origin` does not know.
    origin
        The pack that has the trained weights, where `pack` is it with other words; without, `pack` itself.

    Raises
    ------
    PackError
        `origin` has no trained weights for this model, or they are not sound, or the two packs' models differ.
    """
    source = origin or pack
    table, known = pack.table(model), source.table(model)
    if model not in source.manifest.start:
        raise PackError(
            f"The pack {source.manifest.name} has no trained weights of {model} to start from: take --start scratch, "
            "or train some with auricle export pretrain."
        )
    if not same_but_words(table, known):
        raise PackError(f"{model} is another model in the pack {source.manifest.name}: take --start scratch.")
    trained = start_weights(source, model)
    known_all = set(pack.labels) <= set(source.labels)  # then nothing is drawn, and NumPy's generators stay unloaded
    flat = np.empty(table.size, np.float32) if known_all else table.initial(seed)
    body = slice(0, table.offsets["head.weight"].start)
    flat[body] = trained[body]
    places = [(row, source.labels.index(word)) for row, word in enumerate(pack.labels) if word in source.labels]
    if places:
        rows, theirs = np.array(places).T
        for name in ("head.weight", "head.bias"):
            table.tensor(flat, name)[rows] = known.tensor(trained, name)[theirs]
    return flat


def same_but_words(one: TensorTable, other: TensorTable) -> bool:
    """Whether two models differ in nothing but how many words their classifiers have."""
    return one.specs[:-2] == other.specs[:-2] and one.specs[-2].shape[1:] == other.specs[-2].shape[1:]
