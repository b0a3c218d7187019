"""An OpenAI-compatible server of the local engine, with continuous batching."""

from __future__ import annotations

from specdecode.serving.app import make_app
from specdecode.serving.scheduler import Scheduler
from specdecode.serving.settings import ServerSettings

__all__ = ["Scheduler", "ServerSettings", "make_app"]
