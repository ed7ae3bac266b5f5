"""The table of codecs, and the folder that its fleets hear."""

from __future__ import annotations

from pathlib import Path

from bench.wire_diet import Played, gather, row


def test_a_row_says_bytes_and_accuracy_beside_the_first_codec() -> None:
    first = [Played(70.0, 1000), Played(75.0, 1000)]
    assert row("float32", first, first) == ["float32", "1.000", "72.5 (70.0-75.0)", "+0.0", "+0.0 +0.0"]
    fewer = [Played(70.5, 94), Played(73.5, 94)]
    assert row("top-k", fewer, first) == ["top-k", "0.094", "72.0 (70.5-73.5)", "-0.5", "+0.5 -1.5"]


def test_clips_of_several_folders_are_linked_once(tmp_path: Path) -> None:
    for folder, word, name in (
        ("a", "one", "x_nohash_0.flac"),
        ("b", "one", "x_nohash_0.flac"),
        ("b", "one", "y_nohash_0.flac"),
        ("b", "other", "y_nohash_1.flac"),
    ):
        (tmp_path / folder / word).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / word / name).write_text(folder)
    assert gather([tmp_path / "a", tmp_path / "b"], ["one"], tmp_path / "all") == 2
    assert {file.name: file.read_text() for file in (tmp_path / "all/one").iterdir()} == {
        "x_nohash_0.flac": "a",
        "y_nohash_0.flac": "b",
    }
    assert not (tmp_path / "all/other").exists()
