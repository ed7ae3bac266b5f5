"""What the agent's settings are called: the other part's words, held equal to it by a test."""

from __future__ import annotations

OWNED = ("device", "state", "fleet", "broker", "coordinator", "pack", "pack_key")
"""What a bundle says by itself."""
PLAIN = ("speech", "local", "runtime", "speaker", "threads", "start", "seed")
TABLES: dict[str, tuple[str, ...]] = {
    "capture": (
        "source", "rate", "channels", "channel", "high_pass", "block", "open_within", "stall_after", "silence_after",
        "mute_switch",
    ),
    "detect": (
        "hop", "smoothing", "patience", "threshold", "thresholds", "wake", "window", "commands", "refractory",
        "second_stage", "proposal", "vad", "vad_margin", "vad_memory", "vad_probability", "hangover", "ring",
    ),
    "events": ("stdout", "hook", "hook_seconds", "mqtt", "mqtt_topic", "wyoming", "waiting"),
    "clips": (
        "keep", "key_file", "megabytes", "days", "unlabelled_days", "clips_per_label", "held_out", "held_out_least",
        "training_clips", "largest_boost", "patience",
    ),
    "labels": (
        "confirm_seconds", "missed_seconds", "missed_word", "pseudo", "pseudo_threshold", "ambient_seconds",
        "automatic_per_hour", "enrolled_weight", "confirmed_weight", "denied_weight", "missed_weight",
        "ambient_weight", "pseudo_weight", "attempts", "take_seconds", "early_seconds", "quiet_dbfs", "clipping",
        "noise_db", "sounds_like", "sounds_other", "takes_agree", "doubts", "near_share", "near_seconds",
        "near_per_hour", "near_weight",
    ),
    "learn": (
        "clips", "confidence", "unlabelled", "carried", "judge", "accept", "more_false_accepts", "less_accuracy",
        "more_an_hour", "judged_minutes", "judged_share", "hears_more", "chance", "detector",
    ),
    "gate": (
        "on_battery", "battery_percent", "hot", "too_hot", "heed_throttling", "load", "free_memory", "hours",
        "metered", "on_metered", "heed_speech", "required", "zones", "cooler", "charged", "calmer", "roomier",
        "settle",
    ),
    "buttons": ("confirm", "deny", "missed", "missed_word"),
    "control": ("port",),
    "remote": ("sensitivity",),
    "report": ("hearing", "words", "minutes"),
    "updates": ("url", "root", "bundle_key", "check_every", "health_seconds"),
}  # fmt: skip
