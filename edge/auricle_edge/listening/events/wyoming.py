"""A Wyoming wake-word service (https://github.com/rhasspy/wyoming), as Home Assistant and satellites look for one.

A client that sends sound gets the keywords in it; one that asks to detect and sends none gets those of the device's own
microphone. Where there are wake words, they are what is offered: a client streams on after its `detection`, to somebody
who understands speech. A client that names a command gets its detections too. The protocol has no word for a window
that closed without a command, so nobody is told.

The wyoming package writes our events, but its `AsyncServer` is not used: `async_read_event` takes as many bytes into
memory as a client announces, ends with an AttributeError or a KeyError where the JSON is not an event, and waits for
ever; the server has no limit of clients and does not say which port it got. What is left of it is not worth a subclass.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from auricle import __version__
from auricle.errors import SettingsError, WireError, because, extra_command
from auricle_edge.listening.events.outputs import tcp_place
from auricle_edge.listening.events.wyoming_client import LARGEST_LINE, Client, Offer, Spotter
from auricle_edge.listening.sound import Detection, Event

log = logging.getLogger("auricle.events")

MOST_CLIENTS = 8
SPEAKING_SECONDS = 2.0
"""Seconds since its last sound within which a client keeps its place; of the others the newest come first: who waits
for a word of the device's microphone asks again when it is hung up on, and who only holds a place loses it."""
SILENCE_SECONDS = 30.0
"""Seconds after which a client that sends nothing is hung up on, unless it waits for the device's own microphone; also
what an event may take to come whole, and an answer to be taken."""
PAUSE_SECONDS = 600.0
"""The same for one that asked to detect and has begun to send sound: a satellite that is muted, or streams a command to
somebody else, sends nothing meanwhile."""
HOME = "https://github.com/auricle-kws/auricle"


def require_wyoming() -> None:
    """SettingsError where the protocol's package is not installed."""
    try:
        import wyoming.info  # noqa: F401
    except ModuleNotFoundError as error:
        raise SettingsError(f"events.wyoming needs wyoming: {extra_command('wyoming')}.") from error


def wyoming_place(url: str) -> tuple[str, int]:
    """Host and port of `tcp://host:port`; SettingsError for anything else."""
    return tcp_place(url, "events.wyoming", 10400)


class WyomingService:
    """An output that is a server.

    Parameters
    ----------
    url
        `tcp://host:port`.
    words
        What it offers: the wake words, or every keyword where there are none.
    model
        Name of the pack, for the clients' lists.
    spotter
        Makes a detector for the sound of one client.
    silence, pause
        Seconds; see `SILENCE_SECONDS` and `PAUSE_SECONDS`.
    """

    name = "wyoming"

    def __init__(
        self,
        url: str,
        words: Sequence[str],
        model: str,
        spotter: Callable[[], Spotter],
        silence: float = SILENCE_SECONDS,
        pause: float = PAUSE_SECONDS,
    ) -> None:
        self._host, self._port = wyoming_place(url)
        self._words, self._model = tuple(words), model
        self._offer = Offer(self._words, self.info, spotter, silence, pause)
        self._clients: set[Client] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens, also when it was asked for any free port (0)."""
        return self._port

    async def open(self) -> None:
        """Listen; SettingsError when the address cannot be had."""
        require_wyoming()
        try:
            self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=LARGEST_LINE)
        except OSError as error:
            raise SettingsError(
                f"events.wyoming cannot listen on {self._host}:{self._port}: {because(error)}."
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def deliver(self, event: Event) -> None:
        """Tell the clients that wait for the device's own microphone."""
        if isinstance(event, Detection):
            await asyncio.gather(*(client.heard(event) for client in tuple(self._clients) if client.waits))

    async def close(self) -> None:
        """Hang up."""
        if self._server is not None:
            self._server.close()
            for client in tuple(self._clients):
                client.hang_up()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(self._offer, reader, writer)
        if len(self._clients) >= MOST_CLIENTS and not self._make_room(client.address):
            log.warning("A Wyoming client was refused: there are %d that send sound.", MOST_CLIENTS)
            client.hang_up()
            return
        self._clients.add(client)
        try:
            client.keep_alive()
            await client.run()
        except (WireError, msgspec.MsgspecError) as error:
            log.warning("A Wyoming client was hung up on: %s", error)
            with contextlib.suppress(OSError):
                await client.refuse(str(error))
        except OSError as error:
            log.info("A Wyoming client is gone: %s", error)
        finally:
            await client.leave()
            self._clients.discard(client)

    def _make_room(self, address: str) -> bool:
        """End the client that has been silent for longest, of the address that has the most.

        False where all send sound, and no address has two more than the one that asks.
        """
        now, held = time.monotonic(), Counter(client.address for client in self._clients)
        going = [
            client
            for client in self._clients
            if now - client.sounded > SPEAKING_SECONDS or held[client.address] > held[address] + 1
        ]
        if not going:
            return False
        gone = max(going, key=lambda client: (held[client.address], now - client.last))
        log.warning("A Wyoming client of %s made room for another: there are %d.", gone.address, MOST_CLIENTS)
        self._clients.discard(gone)
        gone.cut()
        return True

    def info(self) -> dict[str, object]:
        """The answer to `describe`."""
        from wyoming.info import Attribution, Info, WakeModel, WakeProgram

        us = Attribution("Auricle", HOME)
        models = [
            WakeModel(word, us, True, f'The keyword "{word}" of {self._model}', __version__, [], word)
            for word in self._words
        ]
        program = WakeProgram("auricle", us, True, "Keyword spotting that learns on the device", __version__, models)
        return dict(Info(wake=[program]).event().data)
