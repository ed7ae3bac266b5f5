"""A command that is run for each event."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence

from auricle.errors import AuricleError, SettingsError
from auricle_edge.listening.events.outputs import line_of
from auricle_edge.listening.sound import Detection, Event

SECRETS = re.compile(r"PASSWORD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|(^|_)KEY($|_)", re.IGNORECASE)
"""Names of variables that a hook does not inherit: they are the service's."""


class Hook:
    """Runs a command, without a shell, with the event on its standard input and no secret of the service's.

    `AURICLE_EVENT` is its type, `AURICLE_WORD` the word that was heard, `AURICLE_ID` the detection to confirm or deny.
    After a timeout, that is the wake word's; `AURICLE_WORD` is empty, since no word was heard.

    Parameters
    ----------
    command
        Program and arguments.
    seconds
        How long it may run; then it and its children are killed.
    device
        Name that stands in the events.
    """

    name = "hook"

    def __init__(self, command: Sequence[str], seconds: float, device: str) -> None:
        self._command, self._seconds, self._device = tuple(command), seconds, device

    async def open(self) -> None:
        """See that the program is there; SettingsError otherwise."""
        require_program(self._command[0], "events.hook")

    async def deliver(self, event: Event) -> None:
        """Run the command once; AuricleError when it fails or takes too long."""
        known = {**_variables(event), "AURICLE_DEVICE": self._device}
        await run_hook(self._command, self._seconds, known, line_of(event, self._device).encode() + b"\n")

    async def close(self) -> None:
        """Nothing to do: what runs is ended with its delivery."""


def _variables(event: Event) -> dict[str, str]:
    if isinstance(event, Detection):
        return {"AURICLE_EVENT": event.kind, "AURICLE_WORD": event.word, "AURICLE_ID": event.id}
    return {"AURICLE_EVENT": "timeout", "AURICLE_WORD": "", "AURICLE_ID": event.wake}


def require_program(program: str, setting: str) -> None:
    """SettingsError where there is no such program."""
    if shutil.which(program) is None:
        raise SettingsError(f'{setting}: there is no program "{program}": give its full path.')


def without_secrets() -> dict[str, str]:
    """The environment for a program of the user's: without what its names say is the service's own."""
    return {name: value for name, value in os.environ.items() if not SECRETS.search(name)}


async def run_hook(command: Sequence[str], seconds: float, known: Mapping[str, str], line: bytes = b"") -> None:
    """Run a command once, without a shell and with no secret of the service's.

    Parameters
    ----------
    command
        Program and arguments.
    seconds
        How long it may run; then it and its children are killed.
    known
        Variables of its environment, besides those that it inherits.
    line
        Its standard input.

    Raises
    ------
    AuricleError
        It cannot be run, fails or takes too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env={**without_secrets(), **known},
            start_new_session=True,
        )
    except OSError as error:
        raise AuricleError(f"the hook {command[0]} cannot be run ({error.strerror or error}).") from error
    try:
        await asyncio.wait_for(process.communicate(line), seconds)
    except asyncio.TimeoutError as error:
        raise AuricleError(f"the hook ran longer than {seconds:g} s and was ended.") from error
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        raise AuricleError(f"the hook ended with {process.returncode}.")
