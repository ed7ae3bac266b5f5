"""Home Assistant as a person and its page see it: the first user, integrations, pipelines and states."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import aiohttp

from auricle.errors import DataError


class Hub:
    """Home Assistant by its REST and websocket interfaces."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url, self._number = session, url, 0
        self._headers: dict[str, str] = {}

    async def sign_in(self) -> None:
        """Make the first user, once Home Assistant answers."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, DataError):
                await self.ask("get", "/api/onboarding")
                break
            await asyncio.sleep(0.5)
        user = {"name": "bench", "username": "bench", "password": "of no use", "language": "en", "client_id": self._url}
        code = (await self.ask("post", "/api/onboarding/users", user))["auth_code"]
        form = {"grant_type": "authorization_code", "code": code, "client_id": self._url}
        async with self._session.post(f"{self._url}/auth/token", data=form) as answer:
            token = (await answer.json())["access_token"]
        self._headers = {"Authorization": f"Bearer {token}"}
        self._socket = await self._session.ws_connect(f"{self._url}/api/websocket", max_msg_size=0)
        await self._socket.send_json({"type": "auth", "access_token": token})
        for _ in ("auth_required", "auth_ok"):
            await self._socket.receive_json()

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the REST interface answers; DataError with its words where it refuses."""
        async with self._session.request(method, self._url + path, json=body, headers=self._headers) as answer:
            if answer.status >= 400:
                raise DataError(f"Home Assistant answers {path} with {answer.status}: {await answer.text()}")
            return await answer.json()

    async def command(self, name: str, /, **fields: object) -> Any:
        """What the websocket answers; DataError where it refuses."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "type": name, **fields})
        answer = await self._socket.receive_json()
        if not answer["success"]:
            raise DataError(f"Home Assistant refuses {name}: {answer['error']}")
        return answer["result"]

    async def add(self, integration: str, **form: object) -> None:
        """Add an integration, as a person does in its form."""
        path = "/api/config/config_entries/flow"
        flow = await self.ask("post", path, {"handler": integration})
        ended = await self.ask("post", f"{path}/{flow['flow_id']}", form)
        if ended["type"] != "create_entry":
            raise DataError(f"Home Assistant does not take {integration}: {ended.get('errors')}")

    async def states(self) -> dict[str, str]:
        """State by entity."""
        return {each["entity_id"]: each["state"] for each in await self.ask("get", "/api/states")}

    async def becomes(self, entity: str, state: str, seconds: float = 60.0) -> None:
        """Wait until an entity has this state; DataError when that takes longer."""
        deadline = time.monotonic() + seconds
        while (await self.states()).get(entity) != state:
            if time.monotonic() > deadline:
                raise DataError(f"{entity} does not become {state}.")
            await asyncio.sleep(0.1)

    async def speak_with(self, ears: str, voice: str) -> None:
        """Have the preferred assistant hear and speak with these entities."""
        pipeline = (await self.command("assist_pipeline/pipeline/list"))["pipelines"][0]
        speech = {"stt_engine": ears, "stt_language": "en", "tts_engine": voice, "tts_language": "en"}
        fields = {**pipeline, **speech}
        await self.command("assist_pipeline/pipeline/update", pipeline_id=fields.pop("id"), **fields)
