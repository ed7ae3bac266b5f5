"""Columns of progress bars."""

from __future__ import annotations

from rich.progress import Task, TimeRemainingColumn
from rich.text import Text


class TimeLeft(TimeRemainingColumn):
    """How long it takes still, as `left 0:01:20`, or `left -:--:--` before anything is known.

    Nothing at the end of a bar: what follows is not counted in it, and `0:00:00` would stand there as long as that
    takes.
    """

    def render(self, task: Task) -> Text:
        """The words for a bar."""
        if task.total is not None and task.completed >= task.total:
            return Text("")
        return Text.assemble("left ", super().render(task))
