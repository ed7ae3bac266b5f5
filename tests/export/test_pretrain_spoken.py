"""`[spoken]` of a recipe: who says what in which part, what is refused, and what comes of it in a training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from tests.export.live_toy import FRONTEND, LABELS
from tests.export.test_pretrain_recipe import RECIPE, write_data

from auricle.errors import AuricleError, DataError
from auricle.hearing.splits import part_of
from auricle.packs.pack import load_pack
from auricle.speech.confusables import holds_any
from auricle.speech.other_speech import FOREIGN
from auricle.speech.other_words import ELSEWHERE, OTHER_WORDS
from auricle_export.packs.build import LABELS as SHIPPED_LABELS
from auricle_export.packs.start_weights import without_start
from auricle_export.pretrain.corpus import make_corpus
from auricle_export.pretrain.live_task import begins_with
from auricle_export.pretrain.other_voices import Spoken, near_texts, open_voice, speak_negatives
from auricle_export.pretrain.recipe import Recipe, load_recipe
from auricle_export.pretrain.settings import LiveSettings
from auricle_export.voices.interface import as_take
from auricle_export.voices.kokoro import LANGUAGES, Kokoro
from auricle_export.voices.recordings import Recordings
from auricle_export.voices.speakers import parts_of
from auricle_export.voices.takes import takes_folder

WORDS = ("high", "low")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Told:
    """Notes what it was asked to say, and by whom; of one language there are speakers of its own."""

    name, about, licence, attribution = "told", "a tone", "CC0-1.0", ()

    def __init__(self, speakers: int = 27, version: str = "") -> None:
        self.names = tuple(f"v{number}" for number in range(speakers))
        self.version = version
        self.asked: list[tuple[str, str, int, tuple[str, ...]]] = []

    def missing(self) -> str | None:
        return None

    def languages(self) -> tuple[str, ...]:
        return ("en", "ja", "cmn", "it", "xx")

    def speakers(self, language: str) -> tuple[str, ...]:
        own = tuple(f"i{number}" for number in range(18))
        return own if language == "it" else self.names[::-1] if language == "ja" else self.names

    def speak(self, text: str, language: str, seed: int, speakers: Sequence[str] = ()) -> np.ndarray:
        self.asked.append((text, language, seed, tuple(speakers)))
        return as_take(np.sin(np.arange(3_000) / (3 + (seed % 977) / 100)), 16_000, text)


def test_texts_of_other_languages_hold_no_keyword_and_are_many_and_new() -> None:
    keywords = {word for labels in SHIPPED_LABELS.values() for word in labels}
    assert set(OTHER_WORDS) == set(LANGUAGES)
    for code, texts in OTHER_WORDS.items():
        assert len(texts) == len(set(texts)) >= 40, code
        assert not [text for text in texts if holds_any(text, keywords)]
        assert not set(texts) & set(ELSEWHERE.get(code, ())), code
        assert {part_of(text) for text in texts} == {"train", "validation", "test"}, code
    assert ELSEWHERE["es"] == FOREIGN["spanish"].texts and len(ELSEWHERE["ja"]) == 15


@pytest.mark.slow
def test_who_validates_and_what_is_said_there_is_not_trained_on() -> None:
    source, spoken = Told(), Spoken(voice="told", foreign=40, near=12, leave_out=("zh",))
    done = speak_negatives(source, spoken, WORDS, 3)
    assert [(len(done[part].foreign), len(done[part].near)) for part in ("train", "validation")] == [(40, 12), (8, 3)]
    groups = parts_of((*source.names, *source.speakers("it")))
    near = set(near_texts(WORDS, spoken))
    who: dict[str, set[str]] = {"train": set(), "validation": set()}
    texts: dict[str, set[str]] = {"train": set(), "validation": set()}
    for text, language, _, names in source.asked:
        (part,) = {part for part, members in groups.items() if set(names) & set(members)}
        assert set(names) <= set(groups[part]) & set(source.speakers(language))
        assert text in (near if language == "en" else OTHER_WORDS[language])
        assert part_of(text) == part
        who[part] |= set(names)
        texts[part].add(text)
    assert not who["train"] & who["validation"] and not texts["train"] & texts["validation"]
    assert not (who["train"] | who["validation"]) & set(groups["test"])
    assert Counter(language for _, language, _, _ in source.asked) == {"en": 15, "it": 24, "ja": 24}
    assert len({seed for _, _, seed, _ in source.asked}) == len(source.asked) == 63
    assert all(len(take.sound) > 3_200 for take in done["train"].foreign)
    assert not [text for text in texts["train"] if holds_any(text, WORDS)]


def test_the_same_seed_says_the_same_and_another_one_something_else() -> None:
    spoken = Spoken(voice="told", foreign=9)
    one, two, other = (Told() for _ in range(3))
    for source, seed in ((one, 0), (two, 0), (other, 1)):
        speak_negatives(source, spoken, WORDS, seed)
    assert sorted(one.asked) == sorted(two.asked) != sorted(other.asked)


def test_a_source_of_few_speakers_trains_alone() -> None:
    done = speak_negatives(Told(4), Spoken(voice="told", foreign=5, leave_out=("it",)), WORDS, 0)
    assert [len(done[part].foreign) for part in ("train", "validation")] == [5, 0]


@pytest.mark.slow
def test_each_take_of_a_folder_is_said_once_in_the_part_of_its_speaker_and_text(tmp_path: Path) -> None:
    near = next(text for text in near_texts(WORDS, Spoken(voice="x", near=1)) if part_of(text) == "train")
    trained, kept = (
        next(text for text in OTHER_WORDS["es"] if part_of(text) == part) for part in ("train", "validation")
    )
    for number in range(18):
        for text in (near, trained, kept, "high"):
            path = tmp_path / text / f"v{number:02}_nohash_0.wav"
            path.parent.mkdir(exist_ok=True)
            soundfile.write(path, np.sin(np.arange(4_000) / (3 + number / 9 + len(text))), 16_000)
    spoken = Spoken(voice=str(tmp_path), foreign=100, near=5)
    source = open_voice(spoken)
    assert isinstance(source, Recordings)
    done = speak_negatives(source, spoken, WORDS, 0)
    assert [take.word for take in done["train"].foreign] == [trained] * 14
    assert [take.word for take in done["train"].near] == [near] * 5
    assert [take.word for take in done["validation"].foreign] == [kept] * 2
    with pytest.raises(DataError, match="nothing to say for near"):
        speak_negatives(source, spoken, ("other",), 0)


def test_what_was_said_before_an_interruption_is_not_said_again() -> None:
    spoken = Spoken(voice="told", foreign=30)
    whole, first, second = Told(version="a"), Told(version="b"), Told(version="b")
    expected = speak_negatives(whole, spoken, WORDS, 0)

    def stop(what: str, done: int, total: int) -> None:
        if what.endswith("train part") and done == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        speak_negatives(first, spoken, WORDS, 0, stop)
    assert takes_folder().is_dir() and 10 <= len(first.asked) < 36
    done = speak_negatives(second, spoken, WORDS, 0)
    assert len(second.asked) == len(whole.asked) - len(first.asked)
    for part in ("train", "validation"):
        for one, other in zip(expected[part].foreign, done[part].foreign, strict=True):
            assert one.word == other.word and np.array_equal(one.sound, other.sound)


TABLE = '[spoken]\nvoice = "espeak-ng"\nforeign = 10\nnear = 5\nleave_out = ["ja", "pt"]\n'


def _recipe(folder: Path, table: str = TABLE) -> Recipe:
    path = folder / "toy.toml"
    path.write_text(RECIPE.format(pack="x") + table)
    recipe = load_recipe(str(path))
    assert isinstance(recipe, Recipe)
    return recipe


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("foreign", "foregn", "unknown field `foregn`"),
        ("foreign = 10", "foreign = -1", ">= 0"),
        ("near = 5", "near = 0.5", "Expected `int`"),
        ('voice = "espeak-ng"\n', "", "required field `voice`"),
        ("espeak-ng", "kokor", 'did you mean "kokoro"'),
        ("espeak-ng", "nowhere/voices", "nowhere/voices is not a folder"),
        ("foreign = 10\nnear = 5", "near = 0", "nothing said"),
        ('"ja"', '"jp"', '"jp", of which there are no texts'),
        ('leave_out = ["ja", "pt"]', 'language = "xx"', 'does not speak the language "xx"'),
        ('"ja", "pt"', '"es", "fr", "hi", "it", "ja", "pt", "cmn"', "all are left out"),
    ],
)
def test_what_cannot_be_said_is_refused_in_a_sentence(before: str, after: str, says: str, tmp_path: Path) -> None:
    assert before in TABLE
    with pytest.raises(AuricleError) as refusal:
        spoken = _recipe(tmp_path, TABLE.replace(before, after)).sources(tmp_path).spoken
        assert spoken is not None
        open_voice(spoken)
    assert says in str(refusal.value) and "\n" not in str(refusal.value)


def test_a_folder_of_voices_lies_beside_the_other_folders_and_takes_no_languages(tmp_path: Path) -> None:
    (tmp_path / "data" / "said").mkdir(parents=True)
    recipe = _recipe(tmp_path, TABLE.replace("espeak-ng", "said"))
    spoken = recipe.sources(tmp_path / "data").spoken
    assert spoken is not None and spoken.voice == str(tmp_path / "data" / "said")
    with pytest.raises(AuricleError, match="leave leave_out out"):
        open_voice(spoken)
    assert recipe.data() == "recordings of people in words, and espeak-ng and said"


def test_the_pack_names_who_spoke(tmp_path: Path) -> None:
    recipe = _recipe(tmp_path, TABLE.replace("espeak-ng", "kokoro"))
    assert recipe.named() == ("nobody, CC0", *Kokoro.attribution)
    assert recipe.data() == "recordings of people in words, and espeak-ng and kokoro"
    assert _recipe(tmp_path).data() == "recordings of people in words, and espeak-ng"
    twice = msgspec.structs.replace(recipe, attribution=Kokoro.attribution)
    assert twice.named() == Kokoro.attribution
    full = msgspec.structs.replace(recipe, attribution=tuple(map(str, range(50))))
    with pytest.raises(AuricleError, match="name 51, and a pack 50"):
        full.sources(tmp_path)


def test_the_recipe_that_trains_gsc12_res_further_goes_on_from_it() -> None:
    shipped = load_recipe("gsc12-res")
    recipe = load_recipe(str(resources.files("auricle_export.pretrain") / "recipes" / "gsc12-res-spoken.toml"))
    assert isinstance(recipe, Recipe) and isinstance(shipped, Recipe)
    assert recipe.spoken == Spoken(voice="kokoro", foreign=200, near=100, leave_out=("ja", "pt"))
    same = ("pack", "words", "languages", "running", "noise", "leave_out", "attribution", "wake")
    assert all(getattr(recipe, name) == getattr(shipped, name) for name in same)
    pack = load_pack(recipe.pack)
    start, teachers = begins_with(recipe, without_start(pack), tuple(recipe.epochs))
    assert start is not None and start.pack.identity == pack.identity and not teachers
    assert recipe.training("resnet-lite", LiveSettings()).rate == 0.002
    assert recipe.named() == (*shipped.attribution, *Kokoro.attribution)
    assert recipe.data().endswith("and espeak-ng and kokoro; what gsc12-res had learnt")


@pytest.mark.slow
def test_a_training_meets_what_is_said_and_is_chosen_by_what_others_say(tmp_path: Path) -> None:
    data = write_data(tmp_path / "data")
    recipe = msgspec.structs.replace(_recipe(tmp_path), voices=1, other_voices=1)
    recipes = msgspec.structs.replace(recipe, spoken=None), recipe
    plain, one = (make_corpus(each.sources(data), LABELS, FRONTEND, 0) for each in recipes)
    assert len(one.bank.others) == len(plain.bank.others) + 10
    assert len(one.bank.alike) == len(plain.bank.alike) + 5
    assert len(one.for_checkpoints.languages) == len(plain.for_checkpoints.languages) + 2
    assert len(one.for_checkpoints.others) == len(plain.for_checkpoints.others) + 1
    assert len(one.validation.languages) == len(plain.validation.languages)
    assert len(one.validation.others) == len(plain.validation.others)
    assert len(one.test.others) == len(plain.test.others) and len(one.test.languages) == len(plain.test.languages)
    assert (one.clips, one.speakers) == (plain.clips, plain.speakers)
    assert one.digest != plain.digest
