"""The options of `specdecode load`; `sweep` takes those that mean the same there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SENDING, _PROMPTS, _REPLIES = "When to send", "What to send", "Replies"
_LIMITS, _REPORT = "Limits", "Report"

Url = Annotated[
    str | None, typer.Argument(help="Address of the server, such as http://127.0.0.1:8000")
]
Api = Annotated[str | None, typer.Option(help="chat (default) or completions.")]
Model = Annotated[
    str | None, typer.Option(help="Model name; by default the only one the server has.")
]
Engine = Annotated[
    str,
    typer.Option(
        help="auto, or specdecode, vllm, sglang, llama.cpp, tgi, tensorrt-llm, generic: how it "
        "tells acceptance."
    ),
]
ApiKeyEnv = Annotated[str, typer.Option(help="Environment variable that holds the API key.")]
Arrivals = Annotated[
    str | None,
    typer.Option(
        help="poisson, gamma, constant, ramp, trace or closed; by default what the other "
        "options imply.",
        rich_help_panel=_SENDING,
    ),
]
Rate = Annotated[float | None, typer.Option(help="Requests per second.", rich_help_panel=_SENDING)]
Burstiness = Annotated[
    float,
    typer.Option(help="Of gamma arrivals: below 1 bursts.", rich_help_panel=_SENDING),
]
RampTo = Annotated[
    float | None, typer.Option(help="Rate at the end of a ramp.", rich_help_panel=_SENDING)
]
RampSeconds = Annotated[
    float | None,
    typer.Option(help="Length of a ramp; by default --duration.", rich_help_panel=_SENDING),
]
Trace = Annotated[
    Path | None,
    typer.Option(help="Trace: Azure, BurstGPT or Mooncake.", rich_help_panel=_SENDING),
]
TraceFormat = Annotated[
    str,
    typer.Option(help="auto, azure, burstgpt or mooncake.", rich_help_panel=_SENDING),
]
SpeedUp = Annotated[
    float, typer.Option(help="Replay a trace this much faster.", rich_help_panel=_SENDING)
]
Concurrency = Annotated[
    int | None,
    typer.Option(help="Clients of a closed loop.", rich_help_panel=_SENDING),
]
MaxInFlight = Annotated[
    int | None,
    typer.Option(help="Cap of an open loop; waits for it count.", rich_help_panel=_SENDING),
]
Requests = Annotated[int | None, typer.Option(help="How many to send.", rich_help_panel=_SENDING)]
Duration = Annotated[
    float | None,
    typer.Option(help="Seconds after which nothing is sent.", rich_help_panel=_SENDING),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        help="Prompts: JSON lines as in Spec-Bench, or a ShareGPT file.",
        rich_help_panel=_PROMPTS,
    ),
]
PromptFormat = Annotated[
    str, typer.Option(help="auto, spec-bench or sharegpt.", rich_help_panel=_PROMPTS)
]
InputTokens = Annotated[
    int | None,
    typer.Option(help="Make prompts of about this length.", rich_help_panel=_PROMPTS),
]
VocabSize = Annotated[
    int | None,
    typer.Option(
        help="Make prompts of token ids below it, exact in length (completions only).",
        rich_help_panel=_PROMPTS,
    ),
]
Repeats = Annotated[
    str,
    typer.Option(help="Repeated prompts: refuse, salt, or allow.", rich_help_panel=_PROMPTS),
]
WarmUp = Annotated[
    int, typer.Option(help="Requests sent before, and kept apart.", rich_help_panel=_PROMPTS)
]
Seed = Annotated[
    int, typer.Option(help="Of arrivals, prompts and replies.", rich_help_panel=_PROMPTS)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        help="Most tokens in a reply; by default the trace's, else 128.",
        rich_help_panel=_REPLIES,
    ),
]
Temperature = Annotated[float, typer.Option(rich_help_panel=_REPLIES)]
TopP = Annotated[float, typer.Option(rich_help_panel=_REPLIES)]
IgnoreEos = Annotated[
    bool,
    typer.Option(
        "--ignore-eos",
        help="Ask for replies of full length (vLLM, SGLang).",
        rich_help_panel=_REPLIES,
    ),
]
Sampling = Annotated[
    Path | None,
    typer.Option(
        help="Settings to draw from, one a JSON line: temperature, top_k, logit_bias, … and a "
        "weight.",
        rich_help_panel=_REPLIES,
    ),
]
Body = Annotated[
    str | None,
    typer.Option(help="More fields of the request, as JSON.", rich_help_panel=_REPLIES),
]
NoUsage = Annotated[
    bool,
    typer.Option(
        "--no-usage",
        help="Do not ask for token counts (servers that refuse stream_options).",
        rich_help_panel=_REPLIES,
    ),
]
TokenIds = Annotated[
    bool,
    typer.Option(
        "--token-ids", help="Ask for token ids and record them.", rich_help_panel=_REPLIES
    ),
]
KeepText = Annotated[
    bool, typer.Option("--keep-text", help="Record replies.", rich_help_panel=_REPLIES)
]
CancelShare = Annotated[
    float,
    typer.Option(help="Share of requests closed by the client.", rich_help_panel=_REPLIES),
]
CancelAfter = Annotated[
    int, typer.Option(help="Chunks after which they are.", rich_help_panel=_REPLIES)
]
Deadline = Annotated[
    float,
    typer.Option(help="Seconds from due to the end of a reply.", rich_help_panel=_LIMITS),
]
IdleTimeout = Annotated[
    float, typer.Option(help="Seconds without a byte.", rich_help_panel=_LIMITS)
]
ConnectTimeout = Annotated[float, typer.Option(help="Seconds to connect.", rich_help_panel=_LIMITS)]
GiveUpAfter = Annotated[
    int,
    typer.Option(
        help="Connection failures in a row that end the run; 0: none do.",
        rich_help_panel=_LIMITS,
    ),
]
MaxLag = Annotated[
    float,
    typer.Option(
        help="Seconds the client may be late before it counts as saturated.",
        rich_help_panel=_LIMITS,
    ),
]
Slo = Annotated[
    list[str] | None,
    typer.Option(
        help="Objective in seconds: ttft=0.5, tpot=0.05, e2e=10; repeat for more.",
        rich_help_panel=_REPORT,
    ),
]
PricePerHour = Annotated[
    float | None,
    typer.Option(help="Of everything that serves.", rich_help_panel=_REPORT),
]
Currency = Annotated[str, typer.Option(rich_help_panel=_REPORT)]
ServerPid = Annotated[
    int | None,
    typer.Option(help="Process to watch, if it runs here.", rich_help_panel=_REPORT),
]
AllowLossy = Annotated[
    bool,
    typer.Option(
        "--allow-lossy",
        help="Measure a server although its settings change its target's distribution.",
        rich_help_panel=_REPORT,
    ),
]
Arm = Annotated[str, typer.Option(help="Name of the arm in the rows.", rich_help_panel=_REPORT)]
Out = Annotated[
    Path | None,
    typer.Option(help="New folder for rows and summary.", rich_help_panel=_REPORT),
]
Recover = Annotated[
    Path | None,
    typer.Option(
        help="Read what a killed run left in this folder; sends nothing.",
        rich_help_panel=_REPORT,
    ),
]
