"""`specdecode load`."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from specdecode.cli import load_arguments as option
from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.cli.exit_codes import ENGINE_FAILED, INTERRUPTED
from specdecode.cli.load_options import json_object, objectives, one_of, ramp_time, which_arrivals
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode.workload.load import LoadResult


def load_command(
    url: option.Url = None,
    *,
    api: option.Api = None,
    model: option.Model = None,
    engine: option.Engine = "auto",
    api_key_env: option.ApiKeyEnv = "OPENAI_API_KEY",
    arrivals: option.Arrivals = None,
    rate: option.Rate = None,
    burstiness: option.Burstiness = 1.0,
    ramp_to: option.RampTo = None,
    ramp_seconds: option.RampSeconds = None,
    trace: option.Trace = None,
    trace_format: option.TraceFormat = "auto",
    speed_up: option.SpeedUp = 1.0,
    concurrency: option.Concurrency = None,
    max_in_flight: option.MaxInFlight = None,
    requests: option.Requests = None,
    duration: option.Duration = None,
    prompts: option.Prompts = None,
    prompt_format: option.PromptFormat = "auto",
    input_tokens: option.InputTokens = None,
    vocab_size: option.VocabSize = None,
    repeats: option.Repeats = "refuse",
    warm_up: option.WarmUp = 3,
    seed: option.Seed = 0,
    max_tokens: option.MaxTokens = None,
    temperature: option.Temperature = 0.0,
    top_p: option.TopP = 1.0,
    ignore_eos: option.IgnoreEos = False,
    sampling: option.Sampling = None,
    body: option.Body = None,
    no_usage: option.NoUsage = False,
    token_ids: option.TokenIds = False,
    keep_text: option.KeepText = False,
    cancel_share: option.CancelShare = 0.0,
    cancel_after: option.CancelAfter = 5,
    deadline: option.Deadline = 300.0,
    idle_timeout: option.IdleTimeout = 60.0,
    connect_timeout: option.ConnectTimeout = 10.0,
    give_up_after: option.GiveUpAfter = 50,
    max_lag: option.MaxLag = 0.05,
    slo: option.Slo = None,
    price_per_hour: option.PricePerHour = None,
    currency: option.Currency = "USD",
    server_pid: option.ServerPid = None,
    allow_lossy: option.AllowLossy = False,
    arm: option.Arm = "load",
    out: option.Out = None,
    recover: option.Recover = None,
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
    spec = LoadSpec(**values, model=server.model_named(model))
    folder = out or Path(f"load-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    result = run_load(
        spec,
        folder,
        api_key=key,
        engine=server,
        server_pid=server_pid,
        show=show_progress(stderr(), f"on {base}, model {spec.model}, rows in {folder}"),
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
