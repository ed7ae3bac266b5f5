"""A command that is run for each event."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
from collections.abc import Sequence

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
        if shutil.which(self._command[0]) is None:
            raise SettingsError(f'events.hook: there is no program "{self._command[0]}": give its full path.')

    async def deliver(self, event: Event) -> None:
        """Run the command once; AuricleError when it fails or takes too long."""
        known = {**_variables(event), "AURICLE_DEVICE": self._device}
        inherited = {name: value for name, value in os.environ.items() if not SECRETS.search(name)}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                env={**inherited, **known},
                start_new_session=True,
            )
        except OSError as error:
            raise AuricleError(f"the hook {self._command[0]} cannot be run ({error.strerror or error}).") from error
        line = line_of(event, self._device).encode() + b"\n"
        try:
            await asyncio.wait_for(process.communicate(line), self._seconds)
        except asyncio.TimeoutError as error:
            raise AuricleError(f"the hook ran longer than {self._seconds:g} s and was ended.") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise AuricleError(f"the hook ended with {process.returncode}.")

    async def close(self) -> None:
        """Nothing to do: what runs is ended with its delivery."""


def _variables(event: Event) -> dict[str, str]:
    if isinstance(event, Detection):
        return {"AURICLE_EVENT": event.kind, "AURICLE_WORD": event.word, "AURICLE_ID": event.id}
    return {"AURICLE_EVENT": "timeout", "AURICLE_WORD": "", "AURICLE_ID": event.wake}
