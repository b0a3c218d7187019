"""One cell of a sweep: one arm at one concurrency in one round."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from specdecode.errors import EvidenceError
from specdecode.measurement.records import Record, read_records
from specdecode.workload.load.journal import ROWS, SUMMARY

Json = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """What one load run gave.

    Attributes:
        arm: its name.
        round: from 1.
        concurrency: clients of the closed loop.
        whole: whether every request was answered whole and its tokens are known; only such cells
            are compared.
        seconds: from the first request to the last token.
        tokens: output tokens of whole replies; None when the server did not count them.
        records: one per request.
        summary: of the load run.
    """

    arm: str
    round: int
    concurrency: int
    whole: bool
    seconds: float
    tokens: int | None
    records: Sequence[Record] = field(default=(), repr=False)
    summary: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> tuple[str, int, int]:
        """Arm, round, concurrency."""
        return self.arm, self.round, self.concurrency

    def began_after(self, moment: str) -> bool:
        """Whether it was begun after a moment, written as in ISO 8601."""
        began = datetime.fromisoformat(self.summary["started_at"])
        return began > datetime.fromisoformat(moment)

    def to_json(self, folder: str) -> Json:
        """All its numbers, flat. What is not known is None.

        Args:
            folder: where its rows are.
        """
        said = self.summary
        latency, cost, goodput = said["latency"], said["cost"], said["goodput"]
        found: Json = {
            "arm": self.arm,
            "round": self.round,
            "concurrency": self.concurrency,
            "started_at": said["started_at"],
            "status": said["verdict"]["status"],
            "whole": self.whole,
            "requests": said["verdict"]["sent"],
            "errors": sum(said["verdict"]["failed"].values()),
            "seconds": self.seconds,
            "output_tokens": self.tokens,
            "output_tokens_per_s": said["throughput"]["output_tokens_per_s"],
            "requests_per_s": said["throughput"]["ok_per_s"],
            "mean_in_flight": said["concurrency"]["mean"],
        }
        for name in ("ttft_s", "tpot_s", "e2e_s"):
            found |= {f"{name}_{q}": latency[name][q] for q in ("p50", "p95", "p99")}
        found |= acceptance_of(said)
        for name in ("server_rss_bytes", "server_cpu_percent", "machine_cpu_percent"):
            value = said["resources"].get(name)
            for what in ("mean", "max"):
                found[f"{name}_{what}"] = value[what] if isinstance(value, Mapping) else None
        energy = cost["energy"]
        return found | {
            "gpu_memory_bytes_max": _gpu_memory(said["resources"]["gpus"]),
            "goodput_share": None if goodput is None else goodput["share"],
            "good_requests": None if goodput is None else goodput["good"],
            "cost": cost["total"],
            "cost_per_million_useful_tokens": cost["per_million_useful_tokens"],
            "cost_per_request_within_slo": cost["per_request_within_slo"],
            "joules": energy["joules"] if isinstance(energy, Mapping) else None,
            "server_saturation": said["saturation"]["server"]["state"],
            "client_saturation": said["saturation"]["client"]["state"],
            "folder": folder,
        }


def read_cell(folder: Path, arm: str, number: int, concurrency: int) -> Cell:
    """A cell from the folder of its load run.

    Raises:
        EvidenceError: the folder does not hold a run that ended.
    """
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        records = read_records(folder / ROWS)
        tokens = summary["tokens"]["output"]
        return Cell(
            arm=arm,
            round=number,
            concurrency=concurrency,
            whole=summary["verdict"]["status"] == "complete" and isinstance(tokens, int),
            seconds=float(summary["duration_s"]),
            tokens=tokens if isinstance(tokens, int) else None,
            records=records,
            summary=summary,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{folder} does not hold a load run that ended ({error})") from error


def acceptance_of(summary: Mapping[str, Any]) -> Json:
    """How drafting went: as replies told it, else by the server's counters.

    The mean acceptance length includes the bonus token. Everything is None where neither tells.
    """
    latency = summary["latency"]
    length, rate = latency["mean_acceptance_length"], latency["acceptance_rate"]
    if length["n"] and rate["n"]:
        return _acceptance(length["pooled"], rate["pooled"], "replies")
    counters = (summary["engine"] or {}).get("counters") or {}
    told = counters.get("speculation") or {}
    steps, drafted, accepted = (told.get(name) for name in ("steps", "drafted", "accepted"))
    if not drafted or accepted is None:
        return _acceptance(None, None, None)
    return _acceptance(1 + accepted / steps if steps else None, accepted / drafted, "counters")


def _acceptance(length: float | None, rate: float | None, source: str | None) -> Json:
    return {
        "mean_acceptance_length": length,
        "acceptance_rate": rate,
        "acceptance_source": source,
    }


def _gpu_memory(gpus: object) -> float | None:
    """Most memory in use on all GPUs of this machine."""
    if not isinstance(gpus, list):
        return None
    most = [gpu["memory_bytes"] for gpu in gpus]
    known = [each["max"] for each in most if isinstance(each, Mapping)]
    return sum(known) if len(known) == len(most) else None
