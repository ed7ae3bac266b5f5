"""Which words a fleet learns: the named sets, and a choice checked against the clips that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from auricle.errors import DataError, SettingsError, nearest
from auricle.files import normal_form
from auricle.packs.manifest import SILENCE, SPECIAL_LABELS, UNKNOWN, refuse_label
from auricle.speech.spelling import Spelling, small_forms

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
"""The ten commands of Speech Commands."""

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""The ten digits."""

ALL_WORDS = tuple(
    sorted(
        {
            *COMMANDS,
            *DIGITS,
            *("backward", "bed", "bird", "cat", "dog", "follow", "forward", "happy", "house", "learn"),
            *("marvin", "sheila", "tree", "visual", "wow"),
        }
    )
)
"""The 35 words of Speech Commands 0.02, by the alphabet."""

URBAN_SOUNDS = (
    *("air_conditioner", "car_horn", "children_playing", "dog_bark", "drilling"),
    *("engine_idling", "gun_shot", "jackhammer", "siren", "street_music"),
)
"""The ten classes of UrbanSound8K, by classID (Salamon et al. 2014, https://doi.org/10.1145/2647868.2655045)."""

EMOTIONS = ("angry", "happy", "neutral", "sad")
"""The four emotions that prints take of CREMA-D and IEMOCAP, excited ones counted as happy."""

WORD_SETS: Mapping[str, tuple[str, ...]] = {
    "gsc12": (*COMMANDS, UNKNOWN, SILENCE),
    "gsc35": ALL_WORDS,
    "digits": DIGITS,
    "urbansound": URBAN_SOUNDS,
    "emotions": EMOTIONS,
}
"""The named sets, as a pack lists their labels (of words Warden 2018, https://arxiv.org/abs/1804.03209)."""

MIN_WORD_CLIPS = 10
"""A word with fewer clips cannot be learned by one group of speakers and measured on another."""

_COMMON = "common"


def select_words(
    spec: str, counts: Mapping[str, int], *, where: str, min_clips: int = MIN_WORD_CLIPS
) -> tuple[str, ...]:
    """Turn `--words` into labels: words of the data, however their capitals, marks and dots are written.

    Parameters
    ----------
    spec
        Words separated by commas, the name of a set in `WORD_SETS`, or `common:N`: every word with at least N clips, by
        the alphabet.
    counts
        Clips of every word of the data.
    where
        The folder or source that was counted, as the user knows it.
    min_clips
        The least number of clips that a word named by `spec` needs.

    Returns
    -------
    tuple[str, ...]
        At least two labels, in the order named; `_unknown_` and `_silence_` may be among them.

    Raises
    ------
    SettingsError
        The choice cannot be understood, or names something that is neither a set nor a word of the data.
    DataError
        A word has fewer than `min_clips` clips, or the set's word has none.
    PackError
        A word cannot be a label.
    """
    counts = _in_normal_form(counts)
    name, colon, least = spec.strip().partition(":")
    if colon:
        return _common_words(name, least, counts, where)
    labels = WORD_SETS.get(name) or _parse_list(spec, counts, where)
    for label in labels:
        refuse_label(label, where)
        if label not in SPECIAL_LABELS and counts.get(label, 0) < min_clips:
            raise DataError(
                f'The word "{label}" has {counts.get(label, 0)} clips in {where} and needs {min_clips}: '
                "leave it out of --words or add recordings."
            )
    _check_enough(labels, f"--words {spec}")
    return labels


def phrases_of(spec: str) -> tuple[str, ...]:
    """The labels of several words that `--words` names."""
    return tuple(form for word in spec.split(",") for form in small_forms(word) if " " in form)


def _common_words(name: str, least: str, counts: Mapping[str, int], where: str) -> tuple[str, ...]:
    if name != _COMMON:
        raise SettingsError(f'"{name}:{least}" is not a choice of words: {nearest(name, [_COMMON, *WORD_SETS])}')
    if not (least.isascii() and least.isdigit() and int(least) > 0):
        raise SettingsError(f'"{name}:{least}" needs a number of clips after the colon, as in common:100.')
    labels = tuple(sorted(word for word, count in counts.items() if count >= int(least) and word not in SPECIAL_LABELS))
    for label in labels:
        refuse_label(label, where)
    if len(labels) < 2:
        highest = sorted(counts.values())[-2:]
        raise DataError(
            f"Fewer than two words have {least} clips or more in {where}: "
            f"lower the number to {highest[0] if len(highest) == 2 else 1} or less, or add recordings."
        )
    return labels


def _parse_list(spec: str, counts: Mapping[str, int], where: str) -> tuple[str, ...]:
    labels = tuple(map(Spelling([*counts, *SPECIAL_LABELS]).typed, spec.split(",")))
    for index, label in enumerate(labels):
        if not label:
            raise SettingsError(f'--words "{spec}" has an empty place: write words separated by single commas.')
        if label in labels[:index]:
            raise SettingsError(f'--words "{spec}" names "{label}" twice: name it once.')
        if label not in counts and label not in SPECIAL_LABELS:
            left = [word for word in counts if word not in labels] or list(counts)  # another one was meant, if there is
            known = left if len(labels) > 1 else [*left, *WORD_SETS]
            raise SettingsError(f'There is no word "{label}" in {where}: {nearest(label, known)}')
    return labels


def _in_normal_form(counts: Mapping[str, int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for word, count in counts.items():
        found[normal_form(word)] += count
    return dict(found)


def _check_enough(labels: tuple[str, ...], what: str) -> None:
    if len(labels) < 2 or SPECIAL_LABELS.issuperset(labels):
        raise SettingsError(f"{what} leaves nothing to tell apart: name at least two labels, one of them a word.")
