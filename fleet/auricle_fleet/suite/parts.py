"""The tables of a suite's file: methods with what is tuned, conditions, packs, tuning, claims, and the full size."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from auricle.errors import SettingsError
from auricle.packs.manifest import WINDOWS
from auricle_fleet.settings.check import LARGEST_SEED

MOST_TRIED = 50

Name = Annotated[str, Meta(min_length=1, max_length=40)]
Seed = Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
Values = dict[str, object]
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Words = Annotated[tuple[Word, ...], Meta(min_length=1, max_length=1000)]
Tried = float | int | str
Seeds = Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=1000)]
Target = Annotated[float, Meta(gt=0, le=1)]
Devices = Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=10)]
Targets = Target | Annotated[tuple[Target, ...], Meta(min_length=1, max_length=5)]


class Constant(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `constant` of a method: a number of its own that is tuned as well, after the setting of all methods.

    It is a setting of the run where there is one of this name, as `server_rate`, and else an option of the method.
    """

    name: Name
    values: Annotated[tuple[Tried, ...], Meta(min_length=2, max_length=MOST_TRIED)]
    """The first one is what the rates are tried with."""


class Method(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `[[methods]]`: what is compared, one way to train and to average."""

    name: Name
    settings: Values = {}
    """Of `auricle fleet run`, over those of the suite."""
    constant: Constant | None = None
    """A number of its own that is tuned, within the same number of tries."""


class Condition(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `[[conditions]]`: what all methods meet."""

    name: Name
    settings: Values = {}
    """Over those of the suite and of the method."""


class PackTable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `[packs.NAME]`: a pack that the suite builds for itself (packs.py), named by `pack` in settings."""

    words: Words
    """Its labels, or the name of a shipped pack that has them."""
    models: Words = ("crnn-lite",)
    """The devices' own, as `auricle export build --model` names them."""
    plugin: Word = "crnn-lite"
    """What travels."""
    window: Annotated[float, Meta(ge=WINDOWS[0], le=WINDOWS[1])] = 1.0
    """Seconds that its models look at."""
    bavd: bool = False
    """Whether rounds may ask its models for MuPFL's activation dropout."""
    loss: Literal["ce", "mse"] = "ce"
    """What labels are learnt by; of "mse" rounds are supervised."""

    def __post_init__(self) -> None:
        """Refuse what the command that builds it would take for two."""
        for word in (*self.words, *self.models, self.plugin):
            if "," in word:
                raise SettingsError(
                    f'"{word}" is not a valid word or model of a pack: a comma separates two, list them.'
                )

    def describe(self) -> str:
        """Say what it holds."""
        words = self.words[0] if len(self.words) == 1 else f"{len(self.words)} words"
        drops = (", which drop activations" if self.bavd else "") + (f"; {self.loss}" if self.loss != "ce" else "")
        window = f"; {self.window:g} s" if self.window != 1 else ""
        return f"{words}{window}; {', '.join(dict.fromkeys((*self.models, self.plugin)))}{drops}"


class Tuning(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[tuning]`: each method has as many tries as there are values here, in the first condition.

    What is best is `figure`, of a seed that the suite does not judge by.
    """

    setting: Name
    values: Annotated[tuple[Tried, ...], Meta(min_length=2, max_length=MOST_TRIED)]
    """The likeliest first: a method that tunes a constant, too, tries fewer of them."""
    seed: Seed
    rounds: Annotated[int, Meta(ge=1)] | None = None
    """Fewer than the suite's where a few show which is best."""
    figure: Name | None = None
    """One of a suite's, a share, where claims are of the devices' own clips; None: accuracy on validation speakers."""

    def first_values(self, method: Method) -> tuple[Tried, ...]:
        """Those that a method tries: all B, or of one with a constant of C values the first B - C + 1.

        The C - 1 other values of the constant are the rest of its tries.

        Raises
        ------
        SettingsError
            The constant has more values than there are tries.
        """
        if method.constant is None:
            return self.values
        left = len(self.values) - len(method.constant.values) + 1
        if left < 1:
            raise SettingsError(
                f'The method "{method.name}" would try {len(method.constant.values)} values of '
                f"{method.constant.name}, and each method has {len(self.values)} tries: name fewer, or more values "
                "in [tuning]."
            )
        return self.values[:left]


class Claim(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table `[[claims]]`: an ordering that a paper prints, to be shown or refuted (claims.py)."""

    text: Annotated[str, Meta(min_length=1, max_length=300)]
    """What is claimed, a sentence."""
    figure: Name
    """That it is judged by, one that the suite shows, or `rounds` or `seconds` to its target."""
    better: Name
    """The method that is said to be better."""
    worse: Annotated[str, Meta(max_length=40)] = ""
    """The method that it is better than; without, the claim is of the figure itself, beside `bound`."""
    condition: Annotated[str, Meta(max_length=40)] = ""
    """Without, the mean of all."""
    bound: float = 0.0
    """By how much it is better at the least, in the figure's own unit; below 0: it is not worse by more."""


class Full(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Table `[full]`: what the full size changes, for who has the whole data and the machines."""

    settings: Values = {}
    """Over those of the suite."""
    seeds: Seeds | None = None
    target: Targets | None = None
    tuning: Tuning | None = None
    """In place of the suite's."""
    methods: tuple[Method, ...] = ()
    """Each with settings over those of the method of its name; one that has no such name is added."""
    conditions: tuple[Condition, ...] = ()
    """Each with settings over those of the condition of its name; one that has no such name is added."""
