"""`specdecode load`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.cli.exit_codes import ENGINE_FAILED, INTERRUPTED
from specdecode.cli.load_options import json_object, objectives, one_of, ramp_time, which_arrivals
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.workload.load import LoadResult

_SENDING, _PROMPTS, _REPLIES = "When to send", "What to send", "Replies"
_LIMITS, _REPORT = "Limits", "Report"


def load_command(
    url: Annotated[
        str | None, typer.Argument(help="Address of the server, such as http://127.0.0.1:8000")
    ] = None,
    *,
    api: Annotated[str | None, typer.Option(help="chat (default) or completions.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name; by default the only one the server has.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="auto, or specdecode, vllm, sglang, llama.cpp, tgi, generic: how it tells "
            "acceptance."
        ),
    ] = "auto",
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable that holds the API key.")
    ] = "OPENAI_API_KEY",
    arrivals: Annotated[
        str | None,
        typer.Option(
            help="poisson, gamma, constant, ramp, trace or closed; by default what the other "
            "options imply.",
            rich_help_panel=_SENDING,
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Requests per second.", rich_help_panel=_SENDING)
    ] = None,
    burstiness: Annotated[
        float,
        typer.Option(help="Of gamma arrivals: below 1 bursts.", rich_help_panel=_SENDING),
    ] = 1.0,
    ramp_to: Annotated[
        float | None, typer.Option(help="Rate at the end of a ramp.", rich_help_panel=_SENDING)
    ] = None,
    ramp_seconds: Annotated[
        float | None,
        typer.Option(help="Length of a ramp; by default --duration.", rich_help_panel=_SENDING),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Trace: Azure, BurstGPT or Mooncake.", rich_help_panel=_SENDING),
    ] = None,
    trace_format: Annotated[
        str,
        typer.Option(help="auto, azure, burstgpt or mooncake.", rich_help_panel=_SENDING),
    ] = "auto",
    speed_up: Annotated[
        float, typer.Option(help="Replay a trace this much faster.", rich_help_panel=_SENDING)
    ] = 1.0,
    concurrency: Annotated[
        int | None,
        typer.Option(help="Clients of a closed loop.", rich_help_panel=_SENDING),
    ] = None,
    max_in_flight: Annotated[
        int | None,
        typer.Option(help="Cap of an open loop; waits for it count.", rich_help_panel=_SENDING),
    ] = None,
    requests: Annotated[
        int | None, typer.Option(help="How many to send.", rich_help_panel=_SENDING)
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(help="Seconds after which nothing is sent.", rich_help_panel=_SENDING),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            help="Prompts: JSON lines as in Spec-Bench, or a ShareGPT file.",
            rich_help_panel=_PROMPTS,
        ),
    ] = None,
    prompt_format: Annotated[
        str, typer.Option(help="auto, spec-bench or sharegpt.", rich_help_panel=_PROMPTS)
    ] = "auto",
    input_tokens: Annotated[
        int | None,
        typer.Option(help="Make prompts of about this length.", rich_help_panel=_PROMPTS),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            help="Make prompts of token ids below it, exact in length (completions only).",
            rich_help_panel=_PROMPTS,
        ),
    ] = None,
    repeats: Annotated[
        str,
        typer.Option(help="Repeated prompts: refuse, salt, or allow.", rich_help_panel=_PROMPTS),
    ] = "refuse",
    warm_up: Annotated[
        int, typer.Option(help="Requests sent before, and kept apart.", rich_help_panel=_PROMPTS)
    ] = 3,
    seed: Annotated[
        int, typer.Option(help="Of arrivals, prompts and replies.", rich_help_panel=_PROMPTS)
    ] = 0,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            help="Most tokens in a reply; by default the trace's, else 128.",
            rich_help_panel=_REPLIES,
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(rich_help_panel=_REPLIES)] = 0.0,
    top_p: Annotated[float, typer.Option(rich_help_panel=_REPLIES)] = 1.0,
    ignore_eos: Annotated[
        bool,
        typer.Option(
            "--ignore-eos",
            help="Ask for replies of full length (vLLM, SGLang).",
            rich_help_panel=_REPLIES,
        ),
    ] = False,
    sampling: Annotated[
        Path | None,
        typer.Option(
            help="Settings to draw from, one a JSON line: temperature, top_k, logit_bias, … and a "
            "weight.",
            rich_help_panel=_REPLIES,
        ),
    ] = None,
    body: Annotated[
        str | None,
        typer.Option(help="More fields of the request, as JSON.", rich_help_panel=_REPLIES),
    ] = None,
    no_usage: Annotated[
        bool,
        typer.Option(
            "--no-usage",
            help="Do not ask for token counts (servers that refuse stream_options).",
            rich_help_panel=_REPLIES,
        ),
    ] = False,
    token_ids: Annotated[
        bool,
        typer.Option(
            "--token-ids", help="Ask for token ids and record them.", rich_help_panel=_REPLIES
        ),
    ] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Record replies.", rich_help_panel=_REPLIES)
    ] = False,
    cancel_share: Annotated[
        float,
        typer.Option(help="Share of requests closed by the client.", rich_help_panel=_REPLIES),
    ] = 0.0,
    cancel_after: Annotated[
        int, typer.Option(help="Chunks after which they are.", rich_help_panel=_REPLIES)
    ] = 5,
    deadline: Annotated[
        float,
        typer.Option(help="Seconds from due to the end of a reply.", rich_help_panel=_LIMITS),
    ] = 300.0,
    idle_timeout: Annotated[
        float, typer.Option(help="Seconds without a byte.", rich_help_panel=_LIMITS)
    ] = 60.0,
    connect_timeout: Annotated[
        float, typer.Option(help="Seconds to connect.", rich_help_panel=_LIMITS)
    ] = 10.0,
    give_up_after: Annotated[
        int,
        typer.Option(
            help="Connection failures in a row that end the run; 0: none do.",
            rich_help_panel=_LIMITS,
        ),
    ] = 50,
    max_lag: Annotated[
        float,
        typer.Option(
            help="Seconds the client may be late before it counts as saturated.",
            rich_help_panel=_LIMITS,
        ),
    ] = 0.05,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            help="Objective in seconds: ttft=0.5, tpot=0.05, e2e=10; repeat for more.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    price_per_hour: Annotated[
        float | None,
        typer.Option(help="Of everything that serves.", rich_help_panel=_REPORT),
    ] = None,
    currency: Annotated[str, typer.Option(rich_help_panel=_REPORT)] = "USD",
    server_pid: Annotated[
        int | None,
        typer.Option(help="Process to watch, if it runs here.", rich_help_panel=_REPORT),
    ] = None,
    allow_lossy: Annotated[
        bool,
        typer.Option(
            "--allow-lossy",
            help="Measure a server although its settings change its target's distribution.",
            rich_help_panel=_REPORT,
        ),
    ] = False,
    arm: Annotated[
        str, typer.Option(help="Name of the arm in the rows.", rich_help_panel=_REPORT)
    ] = "load",
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for rows and summary.", rich_help_panel=_REPORT),
    ] = None,
    recover: Annotated[
        Path | None,
        typer.Option(
            help="Read what a killed run left in this folder; sends nothing.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Send load to an OpenAI-compatible server and measure what comes back.

    Exit codes: 0 the run is complete, 1 it is partial or failed, 2 wrong usage, 130 interrupted.
    Rows of a partial run are kept.

    Example: specdecode load http://127.0.0.1:8000 --rate 4 --duration 60 --prompts
    eval_sets/prompts --slo ttft=0.5 --slo tpot=0.05
    """
    if recover is not None:
        from specdecode.workload.load import recover as recover_run

        _tell(recover_run(recover), as_json=as_json)
        return
    if url is None:
        raise ConfigError("give the address of a server, such as http://127.0.0.1:8000")
    from specdecode.workload.load.sampling import read_mix
    from specdecode.workload.load.spec import base_and_api

    base, said = base_and_api(url, one_of("--api", api, ("chat", "completions")))
    values: dict[str, Any] = {
        "url": base,
        "api": said or "chat",
        "arm": arm,
        "seed": seed,
        "arrivals": which_arrivals(
            arrivals,
            rate=rate,
            burstiness=burstiness,
            ramp_to=ramp_to,
            trace=trace,
            concurrency=concurrency,
        ),
        "rate": rate,
        "burstiness": burstiness,
        "final_rate": ramp_to,
        "ramp_s": ramp_time(ramp_seconds, duration, ramp_to),
        "speed_up": speed_up,
        "concurrency": concurrency,
        "max_in_flight": max_in_flight,
        "requests": requests,
        "duration_s": duration,
        "prompts": prompts,
        "prompt_format": prompt_format,
        "trace": trace,
        "trace_format": trace_format,
        "input_tokens": input_tokens,
        "vocab_size": vocab_size,
        "repeats": repeats,
        "warm_up": warm_up,
        "cancel_share": cancel_share,
        "cancel_after": cancel_after,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "ignore_eos": ignore_eos,
        "mix": () if sampling is None else tuple(read_mix(sampling)),
        "extra_body": json_object("--body", body),
        "allow_lossy": allow_lossy,
        "include_usage": not no_usage,
        "token_ids": token_ids,
        "keep_text": keep_text,
        "deadline_s": deadline,
        "idle_timeout_s": idle_timeout,
        "connect_timeout_s": connect_timeout,
        "give_up_after": give_up_after,
        "max_lag_s": max_lag,
        "slo": objectives(slo or []),
        "price_per_hour": price_per_hour,
        "currency": currency,
    }
    from specdecode.cli.load_live import show_progress
    from specdecode.workload.load import EngineSide, LoadSpec, run_load

    LoadSpec(**values, model=model or "unknown")  # what is wrong is said before a server is asked
    key = os.environ.get(api_key_env) or None
    server = EngineSide.find(base, engine, key)
    values["extra_body"] = server.request_fields | values["extra_body"]
    values["neutral_fields"] = server.fills_in_sampling
    result = run_load(
        LoadSpec(**values, model=model or server.only_model),
        out or Path(f"load-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"),
        api_key=key,
        engine=server,
        server_pid=server_pid,
        show=show_progress(stderr()),
    )
    _tell(result, as_json=as_json)


def _tell(result: LoadResult, *, as_json: bool) -> None:
    from specdecode.cli.load_show import show_summary

    if as_json:
        emit_json({**result.summary, "folder": str(result.folder)})
    else:
        show_summary(result.summary, result.folder, stdout())
    if result.summary["verdict"]["stopped"] == "interrupted":
        raise SystemExit(INTERRUPTED)  # the document is out: no other may follow about the stop
    if not result.complete:
        raise typer.Exit(ENGINE_FAILED)
