"""The satellite as Home Assistant's own client sees it: found, greeted, and from a wake word to the answer."""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("aioesphomeapi", reason="the aioesphomeapi package is not installed")

from aioesphomeapi import APIClient, InvalidEncryptionKeyAPIError, RequiresEncryptionAPIError
from aioesphomeapi.model import (
    MediaPlayerCommand,
    MediaPlayerState,
    VoiceAssistantFeature,
    VoiceAssistantTimerEventType,
)
from tests.edge.assist_home import answers, device, home, player, until, wav

from auricle.errors import SettingsError
from auricle_edge.listening.assist.entities import MUTE, PLAYER, START
from auricle_edge.listening.assist.mdns import SERVICE, _addresses
from auricle_edge.listening.assist.server import MOST_CLIENTS
from auricle_edge.listening.assist.settings import AssistSettings, noise_key, require_closed
from auricle_edge.listening.sound import RATE

KEY = base64.b64encode(bytes(range(32))).decode()


def at_once(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(story)
    def test(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(story(*arguments, **named), 30))

    return test


def sound(seconds: float, seed: int = 0) -> NDArray[np.int16]:
    """Noise: no sample is like another."""
    return np.random.default_rng(seed).integers(-9000, 9000, round(seconds * RATE), np.int16)


def played(path: Path) -> NDArray[np.int16]:
    """What a player was given after its header."""
    return np.frombuffer(path.read_bytes()[44:], "<i2")


@at_once
async def test_home_assistant_learns_what_the_device_is(tmp_path: Path) -> None:
    async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
        about = await seen.client.device_info()
        assert (about.name, about.friendly_name, about.model) == ("auricle-kitchen-1", "Kitchen 1", "home")
        flags = about.voice_assistant_feature_flags_compat(seen.client.api_version)
        wanted = VoiceAssistantFeature.VOICE_ASSISTANT | VoiceAssistantFeature.API_AUDIO
        wanted |= VoiceAssistantFeature.ANNOUNCE | VoiceAssistantFeature.START_CONVERSATION
        assert flags & wanted == wanted
        words = await seen.client.get_voice_assistant_configuration(5)
        assert [word.wake_word for word in words.available_wake_words] == ["computer", "jarvis"]
        assert words.active_wake_words == ["computer", "jarvis"] and words.max_active_wake_words == 2
        assert set(seen.entities) == {"loudspeaker", "mute", "start"}
        form = seen.entities["loudspeaker"].supported_formats[0]
        assert (form.format, form.sample_rate, form.num_channels, form.sample_bytes) == ("wav", RATE, 1, 2)


def warnings(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Of ours; the home's side of a test has warnings of its own, of this machine's time zone for instance."""
    return [each for each in caplog.records if each.levelno >= logging.WARNING and each.name.startswith("auricle")]


@pytest.mark.parametrize("key", [None, KEY])
def test_a_command_from_its_first_sample_to_the_played_answer(tmp_path: Path, key: str | None) -> None:
    """3.2 s of sound, the word's end at 2 s and a pause after it: what arrives begins with sample 32,000."""
    (tmp_path / "key").write_text(f"{KEY}\n")
    settings = {} if key is None else {"key_file": str(tmp_path / "key")}
    heard, said = sound(3.2), sound(0.5, 1)

    @at_once
    async def story() -> None:
        with answers(answer=wav(said)) as url:
            async with device(player=player(tmp_path), **settings) as made, home(made.satellite.port, key) as seen:
                made.hear(heard[: 2 * RATE + 4000])
                await made.wake(2 * RATE)
                made.hear(heard[2 * RATE + 4000 :])
                await until(lambda: len(seen.samples) == RATE * 1.2)
                assert np.array_equal(seen.samples, heard[2 * RATE :])
                assert seen.starts == ["computer"]
                seen.say("RUN_START")
                seen.say("STT_VAD_END")
                await until(lambda: made.satellite.state == "thinking")
                made.hear(sound(0.5))
                seen.say("TTS_END", url=f"{url}/answer")
                seen.say("RUN_END")
                await until(lambda: seen.finished == [True])
                assert np.array_equal(played(tmp_path / "played.wav"), said)
                await until(lambda: made.satellite.state == "idle")
                assert len(seen.samples) == RATE * 1.2, "sound went on after Home Assistant had enough"
                assert seen.aborts == []

    story()


@at_once
async def test_who_speaks_straight_on_is_sent_from_before_the_decision() -> None:
    """Without a pause the word's end is not known: 0.4 s before the decision at 2 s, which is sample 25,600."""
    async with device() as made, home(made.satellite.port) as seen:
        heard = sound(2)
        made.hear(heard)
        await made.wake(2 * RATE - 100)
        await until(lambda: len(seen.samples) == 0.4 * RATE)
        assert np.array_equal(seen.samples, heard[25_600:])


@at_once
async def test_a_conversation_goes_on_without_a_word(tmp_path: Path) -> None:
    with answers(answer=wav(sound(0.1))) as url:
        async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
            made.hear(sound(2))
            await made.wake(RATE)
            await until(lambda: seen.starts == ["computer"])
            seen.say("RUN_START")
            seen.say("STT_END", text="tell me more")
            seen.say("INTENT_END", continue_conversation="1")
            seen.say("TTS_END", url=f"{url}/answer")
            seen.say("RUN_END")
            await until(lambda: seen.starts == ["computer", None])
            assert seen.finished == [True]


@at_once
async def test_a_command_of_the_device_ends_the_run_at_home_assistant() -> None:
    async with device() as made, home(made.satellite.port) as seen:
        made.hear(sound(2))
        await made.wake(RATE, "aaaaaaaaaaaa")
        await made.command("bbbbbbbbbbbb")
        assert made.satellite.state == "listening", "a command after another wake word"
        await made.command("aaaaaaaaaaaa")
        await until(lambda: seen.aborts == [True])
        assert made.satellite.state == "idle"


@at_once
async def test_an_announcement_is_played_after_its_chime_and_home_assistant_is_told(tmp_path: Path) -> None:
    chime, said = sound(0.1, 1), sound(0.2, 2)
    with answers(chime=wav(chime), said=wav(said)) as url:
        async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
            done = await seen.client.send_voice_assistant_announcement_await_response(
                f"{url}/said", 10, "hello", preannounce_media_id=f"{url}/chime", start_conversation=True
            )
            assert done.success
            written = (tmp_path / "played.wav").read_bytes()
            assert written[44 : 44 + 2 * len(chime)] == chime.tobytes() and written.endswith(said.tobytes())
            await until(lambda: seen.starts == [None])


@at_once
async def test_the_button_begins_a_run_and_the_switch_closes_the_microphone(caplog: pytest.LogCaptureFixture) -> None:
    async with device() as made, home(made.satellite.port) as seen:
        made.hear(sound(1))
        seen.client.button_command(START)
        await until(lambda: seen.starts == [None])
        made.hear(heard := sound(0.2, 3))
        await until(lambda: np.array_equal(seen.samples, heard))
        seen.client.switch_command(MUTE, True)
        await until(lambda: seen.aborts == [True] and seen.states[MUTE].state)
        assert made.muted == [True] and made.satellite.state == "muted"
        assert "The microphone was muted while Home Assistant listened" in caplog.text
        await made.wake(RATE)
        assert made.satellite.state == "muted"
        seen.client.switch_command(MUTE, False)
        await until(lambda: not seen.states[MUTE].state and made.satellite.state == "idle")


@at_once
async def test_a_microphone_that_is_lost_ends_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async with device() as made, home(made.satellite.port) as seen:
        made.hear(sound(1))
        await made.wake(RATE)
        made.close_microphone(muted=False)
        await until(lambda: seen.aborts == [True])
        assert made.satellite.state == "idle"
        assert "The microphone was lost while Home Assistant listened: the run is over." in caplog.text


@at_once
async def test_volume_silence_and_stop(tmp_path: Path) -> None:
    said = sound(0.2)
    with answers(said=wav(said)) as url:
        async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
            seen.client.media_player_command(PLAYER, volume=0.5)
            await until(lambda: seen.states[PLAYER].volume == 0.5)
            seen.client.media_player_command(PLAYER, media_url=f"{url}/said", announcement=True)
            playing = MediaPlayerState.PLAYING
            await until(lambda: any(getattr(state, "state", None) == playing for state in seen.told))
            await until(lambda: seen.states[PLAYER].state == MediaPlayerState.IDLE)
            assert np.array_equal(played(tmp_path / "played.wav"), (said * 0.5).astype(np.int16))
            seen.client.media_player_command(PLAYER, command=MediaPlayerCommand.MUTE)
            await until(lambda: seen.states[PLAYER].muted)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("nothing", "answers 404"),
        ("text", "it is not a WAV file"),
        ("cut", "it ends before its samples"),
        ("odd", "it has 1 channels of 8 bits"),
    ],
)
def test_an_answer_that_cannot_be_played_is_one_sentence(
    answer: str, sentence: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = wav(sound(0.1))
    odd = whole[:34] + b"\x08\x00" + whole[36:]

    @at_once
    async def story() -> None:
        with answers(text=b"an error page, long enough", cut=whole[:30], odd=odd) as url:
            async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
                made.hear(sound(1))
                await made.wake(RATE)
                await until(lambda: seen.starts == ["computer"])
                seen.say("RUN_START")
                seen.say("TTS_END", url=f"{url}/{answer}")
                seen.say("RUN_END")
                await until(lambda: seen.finished == [False])
                assert made.satellite.state == "idle"

    story()
    warned = warnings(caplog)
    assert len(warned) == 1 and sentence in warned[0].getMessage() and warned[0].exc_info is None


@pytest.mark.parametrize(
    "url", ["http://192.0.2.7/a", "file:///etc/passwd", "http://a:b@127.0.0.1/", "http://[", "gopher://127.0.0.1/"]
)
def test_without_a_key_answers_come_from_the_connected_host_alone(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @at_once
    async def story() -> None:
        async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
            done = await seen.client.send_voice_assistant_announcement_await_response(url, 10)
            assert not done.success

    story()
    assert "The answer was not played" in caplog.text
    assert not (tmp_path / "played.wav").exists()


@at_once
async def test_a_player_that_fails_is_one_sentence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with answers(said=wav(sound(0.1))) as url:
        async with device(player=player(tmp_path, code=3)) as made, home(made.satellite.port) as seen:
            done = await seen.client.send_voice_assistant_announcement_await_response(f"{url}/said", 10)
            assert not done.success
    assert "ended with 3" in caplog.text


@at_once
async def test_a_connection_that_is_lost_in_a_run_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    async with device() as made:
        async with home(made.satellite.port):
            made.hear(sound(1))
            await made.wake(RATE)
            assert made.satellite.state == "listening"
        await until(lambda: made.satellite.state == "idle")
        assert "was lost in a run: it is over." in caplog.text
        await made.wake(RATE)
        assert "computer, and no Home Assistant is connected" in caplog.text


@at_once
async def test_of_two_home_assistants_the_newest_gets_the_sound(caplog: pytest.LogCaptureFixture) -> None:
    async with device() as made, home(made.satellite.port) as old, home(made.satellite.port) as new:
        made.hear(sound(1))
        await made.wake(RATE)
        await until(lambda: new.starts == ["computer"])
        assert old.starts == []
        assert caplog.text.count("which is connected too, does not any more.") == 1


@at_once
async def test_times_end_a_run_that_home_assistant_does_not(caplog: pytest.LogCaptureFixture) -> None:
    async with device(listen_seconds=0.2, answer_seconds=0.2) as made, home(made.satellite.port) as seen:
        made.hear(sound(1))
        await made.wake(RATE)
        await until(lambda: seen.aborts == [False, True])
        assert made.satellite.state == "idle"
        assert "Home Assistant gave no answer within 0.2 s." in caplog.text


@at_once
async def test_an_error_of_home_assistants_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    async with device() as made, home(made.satellite.port) as seen:
        made.hear(sound(1))
        await made.wake(RATE)
        await until(lambda: seen.starts == ["computer"])
        seen.say("RUN_END")
        seen.say("RUN_START")
        seen.say("ERROR", code="stt-no-text-recognized", message="No text recognized")
        await until(lambda: made.satellite.state == "idle")
        assert "Home Assistant did not understand: No text recognized (stt-no-text-recognized)" in caplog.text


@at_once
async def test_a_word_that_another_device_answers_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async with device() as made, home(made.satellite.port) as seen:
        made.hear(sound(1))
        await made.wake(RATE)
        await until(lambda: seen.starts == ["computer"])
        seen.say("RUN_START")
        seen.say("ERROR", code="duplicate_wake_up_detected", message="Duplicate wake-up detected for computer")
        await until(lambda: made.satellite.state == "idle")
    assert not warnings(caplog)


@at_once
async def test_what_is_chosen_in_home_assistant_is_kept(tmp_path: Path) -> None:
    """Only "jarvis" begins a run, and the loudspeaker stays as loud, after a restart too."""
    async with device(folder=tmp_path, player=player(tmp_path)) as made, home(made.satellite.port) as seen:
        await seen.client.set_voice_assistant_configuration(["jarvis"])
        assert (await seen.client.get_voice_assistant_configuration(5)).active_wake_words == ["jarvis"]
        seen.client.media_player_command(PLAYER, volume=0.25)
        await until(lambda: seen.states[PLAYER].volume == 0.25)
    async with device(folder=tmp_path, player=player(tmp_path)) as made, home(made.satellite.port) as seen:
        assert seen.states[PLAYER].volume == 0.25
        made.hear(sound(1))
        await made.wake(RATE)
        assert made.satellite.state == "idle"
        await seen.client.set_voice_assistant_configuration(["computer"])
        assert (await seen.client.get_voice_assistant_configuration(5)).active_wake_words == ["computer"]
        await made.wake(RATE)
        await until(lambda: seen.starts == ["computer"])
    (tmp_path / "assist.json").write_text("[")
    async with device(folder=tmp_path) as made, home(made.satellite.port) as seen:
        assert len((await seen.client.get_voice_assistant_configuration(5)).active_wake_words) == 2


@at_once
async def test_an_answer_is_fetched_while_home_assistant_still_makes_it(tmp_path: Path) -> None:
    with answers(answer=wav(said := sound(0.1))) as url:
        async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
            made.hear(sound(1))
            await made.wake(RATE)
            await until(lambda: seen.starts == ["computer"])
            seen.say("RUN_START", url=f"{url}/answer")
            seen.say("INTENT_PROGRESS", tts_start_streaming="1")
            await until(lambda: seen.finished == [True])
            seen.say("TTS_END", url=f"{url}/answer")
            seen.say("RUN_END")
            assert (await seen.client.device_info()).friendly_name == "Kitchen 1"
            assert np.array_equal(played(tmp_path / "played.wav"), said)


@at_once
async def test_music_plays_until_it_is_stopped(tmp_path: Path) -> None:
    with answers(music=wav(sound(20))) as url:
        async with device(player=("sleep", "60")) as made, home(made.satellite.port) as seen:
            seen.client.media_player_command(PLAYER, media_url=f"{url}/music")
            await until(lambda: seen.states[PLAYER].state == MediaPlayerState.PLAYING)
            seen.client.media_player_command(PLAYER, command=MediaPlayerCommand.STOP)
            await until(lambda: seen.states[PLAYER].state == MediaPlayerState.IDLE)


@at_once
async def test_states_are_told_to_the_hook(tmp_path: Path) -> None:
    script = tmp_path / "hook.sh"
    script.write_text(f'#!/bin/sh\necho "$AURICLE_ASSIST_STATE" >> {tmp_path}/states\n')
    script.chmod(0o755)
    async with device(hook=(str(script),), listen_seconds=0.2, answer_seconds=0.2) as made, home(made.satellite.port):
        made.hear(sound(1))
        await made.wake(RATE)
        wanted = ["listening", "thinking", "error", "idle"]
        await until(lambda: (tmp_path / "states").exists() and (tmp_path / "states").read_text().split() == wanted)


@pytest.mark.parametrize("key", [None, KEY])
def test_garbage_is_hung_up_on_and_the_next_client_is_served(tmp_path: Path, key: str | None) -> None:
    (tmp_path / "key").write_text(KEY)
    settings = {} if key is None else {"key_file": str(tmp_path / "key")}
    hostile = [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\xff\xff\xff\xff\xff\x01",
        b"\x00\xff\xff\x07\x01",
        b"\x00\x00\x07",
        b"\x00\x02\x01\xff\xff",
        b"\x01\xff\xff",
        b"\x01\x00\x00\x01\x00\x03\x00ab",
        bytes(70),
    ]

    @at_once
    async def story() -> None:
        async with device(**settings) as made:
            for said in hostile:
                reader, writer = await asyncio.open_connection("127.0.0.1", made.satellite.port)
                writer.write(said)
                writer.write_eof()
                await reader.read()
                writer.close()
            async with home(made.satellite.port, key) as seen:
                assert (await seen.client.device_info()).friendly_name == "Kitchen 1"

    story()


@at_once
async def test_who_holds_every_place_without_a_greeting_loses_one() -> None:
    async with device() as made:
        held = [await asyncio.open_connection("127.0.0.1", made.satellite.port) for _ in range(MOST_CLIENTS)]
        async with home(made.satellite.port) as seen:
            assert seen.entities
        for _, writer in held:
            writer.close()


@at_once
async def test_another_key_and_none_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    async with device(key_file=str(tmp_path / "key")) as made:
        with pytest.raises(RequiresEncryptionAPIError):
            await APIClient("127.0.0.1", made.satellite.port, None).connect()
        other = base64.b64encode(bytes(32)).decode()
        with pytest.raises(InvalidEncryptionKeyAPIError):
            await APIClient("127.0.0.1", made.satellite.port, None, noise_psk=other).connect()


def test_an_open_port_without_a_key_has_to_be_asked_for(tmp_path: Path) -> None:
    require_closed(AssistSettings(listen="tcp://127.0.0.1:6053"))
    require_closed(AssistSettings(listen="tcp://0.0.0.0:6053", plain=True))
    with pytest.raises(SettingsError, match="sends sound to anybody who connects"):
        require_closed(AssistSettings(listen="tcp://0.0.0.0:6053"))
    with pytest.raises(SettingsError, match=r"assist\.listen is tcp://host:port"):
        require_closed(AssistSettings(listen="0.0.0.0"))
    (tmp_path / "key").write_text("c2hvcnQ=")
    with pytest.raises(SettingsError, match="holds no key of 32 bytes"):
        noise_key(AssistSettings(key_file=str(tmp_path / "key")))


@at_once
async def test_a_timer_rings_until_a_wake_word(tmp_path: Path) -> None:
    async with device(player=player(tmp_path)) as made, home(made.satellite.port) as seen:
        made.hear(sound(1))
        seen.client.send_voice_assistant_timer_event(
            VoiceAssistantTimerEventType.VOICE_ASSISTANT_TIMER_FINISHED, "1", "tea", 60, 0, False
        )
        await until(lambda: made.satellite.state == "timer")
        await made.wake(RATE)
        assert made.satellite.state == "listening"
        await until(lambda: seen.starts == ["computer"])
        size = (tmp_path / "played.wav").stat().st_size if (tmp_path / "played.wav").exists() else 0
        made.hear(sound(0.1))
        await until(lambda: len(seen.samples) > 0)
        assert ((tmp_path / "played.wav").stat().st_size if size else 0) == size


@at_once
async def test_the_next_wake_word_ends_an_answer_and_begins_a_run(tmp_path: Path) -> None:
    """The player takes no more than a pipe holds, so the answer is still played when the word comes."""
    script = tmp_path / "slow.sh"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    with answers(long=wav(sound(20))) as url:
        async with device(player=(str(script),)) as made, home(made.satellite.port) as seen:
            made.hear(sound(1))
            await made.wake(RATE)
            await until(lambda: seen.starts == ["computer"])
            seen.say("RUN_START")
            seen.say("TTS_END", url=f"{url}/long")
            seen.say("RUN_END")
            await until(lambda: made.satellite.state == "answering")
            await made.wake(RATE, "bbbbbbbbbbbb")
            await until(lambda: seen.starts == ["computer", "computer"] and seen.finished == [False])
            assert made.satellite.state == "listening"


@pytest.mark.parametrize("netlink", [True, False])
def test_home_assistant_finds_it_by_mdns(netlink: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over this machine's own network; where it has none, there is nothing to find. The systemd unit has no netlink."""
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    def refused() -> list[Any]:
        raise OSError(97, "Address family not supported by protocol")

    if not netlink:
        monkeypatch.setattr("ifaddr.get_adapters", refused)
    addresses = [socket.inet_ntoa(each) for each in _addresses("0.0.0.0")]
    if not addresses:
        pytest.skip("this machine has no network")

    @at_once
    async def story() -> None:
        async with device(listen="tcp://0.0.0.0:0", plain=True) as made, AsyncZeroconf(addresses) as network:
            service = AsyncServiceInfo(SERVICE, f"auricle-kitchen-1.{SERVICE}")
            assert await service.async_request(network.zeroconf, 5_000), "nobody answered"
            assert service.port == made.satellite.port
            assert service.decoded_properties["friendly_name"] == "Kitchen 1"
            assert len(service.decoded_properties["mac"] or "") == 12

    story()
