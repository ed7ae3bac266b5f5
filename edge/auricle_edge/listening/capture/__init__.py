"""Sound from a microphone, arecord, recordings or a FIFO: read by a child process that is restarted when it fails.

`capture.Capture` is the listener's side; `child` is what runs in the other process and imports as little as it can,
which is why nothing is imported here.
"""
