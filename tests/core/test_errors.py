"""Why the system, the network or TLS refused something, in words; and addresses that people write."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from pathlib import Path

import pytest

from auricle.errors import SettingsError, because
from auricle.mqtt_link.settings import BrokerAddress
from auricle.process.cli import main
from auricle.speech.audio import read_audio


def _tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] raw (_ssl.c:1006)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 9)"), "nothing listens there"),
        (PermissionError(errno.EACCES, "x"), os.strerror(errno.EACCES).lower()),
        (OSError(errno.ENOSPC, "x"), "the disk is full"),
        (socket.gaierror(-2, "Name or service not known"), "no address is known for this name"),
        (TimeoutError(), "no answer came in time"),
        (_tls("WRONG_VERSION_NUMBER"), "what listens there does not speak TLS"),
        (_tls("SOMETHING_NEW"), "TLS failed, something new"),
        (ssl.SSLError(9, "[SSL] PEM lib (_ssl.c:3905)"), "it does not hold what it should in PEM"),
        (ValueError("Not a number."), "not a number"),
        (ValueError(), "ValueError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reason_has_no_number_and_no_name_of_a_library(error: BaseException, says: str) -> None:
    assert because(error) == says


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mqtt://127.0.0.1:99999", 'the port "99999": a port is a number from 1 to 65535'),
        ("mqtt://127.0.0.1:port", 'the port "port"'),
        ("mqtt://me:secret@::1:1883", r"more than one port: write host:PORT, and an IPv6 address as \[::1\]:PORT"),
        ("mqtt://[::1", "write an IPv6 address as"),
    ],
)
def test_an_address_that_is_none_says_what_is_wrong_and_keeps_its_password(url: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says) as caught:
        BrokerAddress.parse(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["edge", "run", "--devce", "pi-1"], 'There is no option --devce: did you mean "--device"?'),
        (["fleet", "run", "--rounds", "many"], "--rounds has to be a whole number."),
        (["edge", "record", "yes", "--takes", "0"], "--takes has to be at least 1."),
        (["cloud", "rounds", "start", "3"], "This command takes no 3 here; how many is --rounds 3."),
        (["cloud", "devices", "remove", "pi-1"], 'There is no command "remove": did you mean "revoke"?'),
        (["edge", "devices", "-s"], "There is no option -s: there is: --help, --json."),
        (
            ["edge", "confirm", "--word", "stop"],
            "There is no option --word: there is: --config, --help, --json, --state.",
        ),
        (["edge", "doctor", "/"], "This command takes no / here; a folder of what runs is named by --state."),
        (["cloud", "rounds", "show", "pi-001"], "ROUND has to be a whole number."),
        (["cloud", "rounds", "wait", "soon"], "ROUND has to be a whole number."),
        (["cloud", "rounds", "start", "--mode", "fast"], '--mode takes sync or async, not "fast".'),
        (["edge", "evaluate", "--keywords", "nowhere"], "--keywords: there is no file or folder nowhere."),
        (
            ["edge", "settings"],
            'There is no command "settings": there is: calibrate, claim, clips, confirm, deny, devices, diag, doctor, '
            "evaluate, listen, missed, mute, record, renew, rollback, run, status, unit, unmute, update.",
        ),
    ],
)
@pytest.mark.several
def test_a_wrong_command_line_is_refused_in_our_own_words(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"auricle: {says}\n"


def test_a_recording_that_is_missing_or_empty_is_not_a_system_error(tmp_path: Path) -> None:
    import numpy as np
    import soundfile

    soundfile.write(tmp_path / "nothing.wav", np.zeros(0, np.float32), 16_000)

    with pytest.raises(Exception, match=r"nowhere\.wav cannot be read: no such file or directory"):
        read_audio(tmp_path / "nowhere.wav")
    with pytest.raises(Exception, match=r"nothing\.wav holds no sound"):
        read_audio(tmp_path / "nothing.wav")
