"""Of several bundles, as a pattern names them, the newest of each board is released."""

from __future__ import annotations

from pathlib import Path

from tests.cloud.release_files import make_bundle

from auricle_cloud.ota.candidate import newest, read_candidate


def test_the_highest_version_of_each_board_and_system(tmp_path: Path) -> None:
    bundles = {
        name: read_candidate(make_bundle(tmp_path / f"{name}.tar", version=version, board=board))
        for name, version, board in (
            ("old", "0.9.0", "pi5"),
            ("new", "0.10.0", "pi5"),
            ("candidate", "0.10.0rc1", "pi5"),
            ("other", "0.1.0", "pi4"),
        )
    }
    assert newest(bundles.values()) == [bundles["new"], bundles["other"]]
