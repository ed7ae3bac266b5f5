"""The service of a device that learns from a folder of recordings and does not listen."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from auricle.packs.first_weights import choose_weights
from auricle.process.until_signal import until_signal
from auricle.speech.clip_folder import describe_skipped
from auricle.speech.sound_faults import count_findings, sentences_of
from auricle_edge.board.priority import yield_to_detection
from auricle_edge.control import ControlServer, ControlSettings
from auricle_edge.fleet.agent import Agent
from auricle_edge.fleet.agent_context import AgentSettings
from auricle_edge.fleet.fleet_word import say_of_fleet
from auricle_edge.ota.pack_shelf import running_pack
from auricle_edge.runtimes import choose_runtime
from auricle_edge.service.process import say
from auricle_edge.service.questions import TrainingOnly
from auricle_edge.settings import EdgeSettings, agent_settings
from auricle_edge.training.own_model import own_model, why_not_larger
from auricle_learning.training.speech_data import load_clips
from auricle_learning.training.train import Trainer


def train_only(settings: EdgeSettings, as_json: bool, verbose: bool) -> None:
    """Serve until SIGINT or SIGTERM, with `settings.data`; errors as of the pack, the clips and the runtime."""
    say_of_fleet(as_json)
    loaded = running_pack(settings)
    agent = agent_settings(settings)
    assert agent is not None, "read_settings refuses data without a fleet"
    assert settings.data is not None
    own = own_model(loaded, settings.local, settings.start)
    why = why_not_larger(loaded, settings.local, settings.start)
    first = choose_weights(settings.start, loaded, own, settings.seed)
    choice = choose_runtime(settings.runtime, loaded, settings.threads)
    clips, findings = load_clips(Path(settings.data), loaded, speaker=settings.speaker, seed=settings.seed)
    trainer = Trainer(choice.runtime, own, clips, settings.seed, first)
    facts = {
        "device": settings.name,
        "fleet": settings.fleet,
        "pack": loaded.identity,
        "pack_name": loaded.manifest.name,
        "training_clips": len(clips.train),
        "held_out_clips": len(clips.held_out),
        "skipped_files": len(sentences_of(findings)),
        "findings": msgspec.to_builtins(count_findings(findings)),
        "runtime": choice.runtime.name,
        "reason": choice.reason,
        "own_model": own,
        "own_model_reason": why,
    }
    heard = f"{len(clips.train)} training clips, {len(clips.held_out)} held out"
    heard += f"; {skipped}" if (skipped := describe_skipped(findings)) else ""
    runs = f"{settings.name}: {heard}; pack {loaded.manifest.name} ({loaded.identity[:12]})."
    say(facts, (runs,), (choice.reason, why), as_json=as_json, verbose=verbose)
    asyncio.run(_serve(agent, trainer, settings.data))


async def _serve(settings: AgentSettings, trainer: Trainer, speech: str) -> None:
    """Run the agent until SIGINT or SIGTERM."""
    with ThreadPoolExecutor(1, "train", initializer=yield_to_detection) as executor:
        agent = Agent(settings, trainer, executor)
        server = ControlServer(settings.folder, TrainingOnly(agent, speech), ControlSettings())
        try:
            await until_signal(agent.run())
        finally:
            server.close()
