"""What a coordinator that starts again need not do a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from auricle.errors import PackError
from auricle.packs.pack import Pack, load_pack
from auricle_cloud.commands import serve_commands


def test_a_pack_that_was_sound_is_not_judged_again_in_the_same_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack, note = load_pack("digits"), tmp_path / "sound"
    serve_commands.require_sound_once(pack, note)
    judged: list[str] = []

    def judge(pack: Pack) -> None:
        judged.append(pack.manifest.name)
        raise PackError("The graph is none.")

    monkeypatch.setattr(serve_commands, "require_sound", judge)
    serve_commands.require_sound_once(pack, note)
    assert judged == []
    for known in (b"", note.read_bytes().replace(b"0", b"1", 1), b"\xff\xfe"):
        note.write_bytes(known)
        with pytest.raises(PackError, match="The graph is none"):
            serve_commands.require_sound_once(pack, note)
        assert note.read_bytes() == known  # what is refused is not noted
    assert judged == ["digits"] * 3
