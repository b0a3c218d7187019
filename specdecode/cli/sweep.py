"""`specdecode sweep`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli import load_arguments as option
from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.cli.exit_codes import ENGINE_FAILED, INTERRUPTED
from specdecode.cli.load_options import json_object, objectives, one_of
from specdecode.cli.target import DEFAULT_TARGET

if TYPE_CHECKING:
    from specdecode.workload.sweep import Arm, SweepSpec

_OWN, _OTHER, _LOAD = "Our server", "Any server", "Load"
_REPLIES, _REPORT = "Replies", "Report"


def sweep_command(
    *,
    target: Annotated[
        str, typer.Option(help="Target model, as for `serve`.", rich_help_panel=_OWN)
    ] = DEFAULT_TARGET,
    draft: Annotated[
        str, typer.Option(help="Draft, as for `serve`.", rich_help_panel=_OWN)
    ] = "self-int4",
    rules: Annotated[
        str,
        typer.Option(
            help="Verification rules, the preferred one first: token, block, match.",
            rich_help_panel=_OWN,
        ),
    ] = "block",
    serve_option: Annotated[
        list[str] | None,
        typer.Option(
            help="A further option of `serve`, such as --dtype=float32; repeat for more.",
            rich_help_panel=_OWN,
        ),
    ] = None,
    plain: Annotated[
        str | None,
        typer.Option(
            help="Command that starts another server without drafts; holds {port}.",
            rich_help_panel=_OTHER,
        ),
    ] = None,
    speculative: Annotated[
        str | None,
        typer.Option(
            help="Command that starts it with drafts; holds {port} and {k}.",
            rich_help_panel=_OTHER,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="specdecode, vllm, sglang, llama.cpp, tgi, generic; found out by default.",
            rich_help_panel=_OTHER,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model name; by default the only one the server has.", rich_help_panel=_OTHER
        ),
    ] = None,
    ready_path: Annotated[
        str, typer.Option(help="Answers 200 once it is ready.", rich_help_panel=_OTHER)
    ] = "/health",
    api_key_env: Annotated[
        str,
        typer.Option(help="Environment variable that holds the API key.", rich_help_panel=_OTHER),
    ] = "OPENAI_API_KEY",
    ready_seconds: Annotated[
        float, typer.Option(help="Seconds a server may take to start.")
    ] = 600.0,
    lengths: Annotated[str, typer.Option(help="Draft lengths, such as 2,4,8.")] = "2,4,8",
    concurrency: Annotated[
        str, typer.Option(help="Clients, such as 1,4,16.", rich_help_panel=_LOAD)
    ] = "1,4,16",
    rounds: Annotated[
        int,
        typer.Option(
            help="How often everything is measured; 1 gives no intervals.", rich_help_panel=_LOAD
        ),
    ] = 3,
    requests_per_client: Annotated[
        int, typer.Option(help="Of each client in a cell.", rich_help_panel=_LOAD)
    ] = 2,
    least_requests: Annotated[
        int, typer.Option(help="Of a cell, where its clients are few.", rich_help_panel=_LOAD)
    ] = 1,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Prompts: JSON lines, or a folder of them.", rich_help_panel=_LOAD),
    ] = None,
    input_tokens: Annotated[
        int | None,
        typer.Option(
            help="Make prompts of about this length; their acceptance says little.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    warm_up: Annotated[
        int, typer.Option(help="Requests before every cell.", rich_help_panel=_LOAD)
    ] = 2,
    seed: Annotated[
        int, typer.Option(help="Of orders, prompts and replies.", rich_help_panel=_LOAD)
    ] = 0,
    together: Annotated[
        bool,
        typer.Option(
            "--together",
            help="Keep all servers up and take turns at each load; needs room for all of them.",
            rich_help_panel=_LOAD,
        ),
    ] = False,
    max_batch: Annotated[
        int,
        typer.Option(
            help="Most requests that the configured server will decode together.",
            rich_help_panel=_REPORT,
        ),
    ] = 1024,
    api: Annotated[
        str, typer.Option(help="chat or completions.", rich_help_panel=_REPLIES)
    ] = "chat",
    max_tokens: Annotated[
        int, typer.Option(help="Length of every reply.", rich_help_panel=_REPLIES)
    ] = 64,
    temperature: option.Temperature = 0.0,
    top_p: option.TopP = 1.0,
    body: option.Body = None,
    slo: option.Slo = None,
    price_per_hour: option.PricePerHour = None,
    currency: option.Currency = "USD",
    level: Annotated[float, typer.Option(help="Of the intervals.", rich_help_panel=_REPORT)] = 0.95,
    out: Annotated[Path | None, typer.Option(help="New folder.", rich_help_panel=_REPORT)] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with the sweep in this folder; the other options are those it began with.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Find the concurrency at which drafting stops to pay, and the draft length for each load.

    Every draft length and rule is compared with plain decoding at every concurrency, in rounds.
    Exit codes: 0 complete, 1 partial, 2 wrong usage, 130 interrupted (go on with --resume).

    Example: specdecode sweep --draft self-int4 --lengths 2,4,8 --concurrency 1,4,16 --prompts
    eval_sets/prompts --out sweep

    Example: specdecode sweep --plain 'vllm serve M --port {port}' --speculative 'vllm serve M
    --port {port} --speculative-config.method draft_model --speculative-config.model D
    --speculative-config.num_speculative_tokens {k}' --prompts eval_sets/prompts --out sweep
    """
    from specdecode.cli.sweep_options import numbers, which_arms
    from specdecode.workload.sweep import SweepSpec, read_plan

    if resume is not None:
        spec, arms = read_plan(resume)
    else:
        loads = numbers("--concurrency", concurrency)
        spec = SweepSpec(
            concurrency=loads,
            rounds=rounds,
            requests_per_client=requests_per_client,
            least_requests=least_requests,
            prompts=None if prompts is None else prompts.resolve(),
            input_tokens=input_tokens,
            max_tokens=max_tokens,
            api=one_of("--api", api, ("chat", "completions")),
            temperature=temperature,
            top_p=top_p,
            seed=seed,
            warm_up=warm_up,
            slo=objectives(slo or []),
            price_per_hour=price_per_hour,
            currency=currency,
            max_batch=max_batch,
            level=level,
            together=together,
        )
        arms = which_arms(
            plain=plain,
            speculative=speculative,
            target=target,
            draft=draft,
            rules=rules,
            serve_options=serve_option or [],
            lengths=numbers("--lengths", lengths),
            slots=loads[-1],
            engine=engine,
            model=model,
            body=json_object("--body", body),
            ready_s=ready_seconds,
            ready_path=ready_path,
        )
    folder = resume or out or Path(f"sweep-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    _run(spec, arms, folder, os.environ.get(api_key_env) or None, as_json=as_json)


def _run(
    spec: SweepSpec, arms: Sequence[Arm], folder: Path, api_key: str | None, *, as_json: bool
) -> None:
    from specdecode.cli.sweep_live import show_sweep
    from specdecode.cli.sweep_show import show_result
    from specdecode.workload.sweep import run_sweep

    what = f"{len(arms)} arms, {spec.rounds} rounds, results in {folder}"
    show = show_sweep(stderr(), what)
    result = run_sweep(spec, arms, folder, api_key=api_key, show=show)
    if as_json:
        emit_json({**result.document, "files": [str(path) for path in result.files]})
    else:
        show_result(result, stdout())
    if result.status == "interrupted":
        stderr().print(f"go on with: specdecode sweep --resume {folder}", markup=False)
        raise SystemExit(INTERRUPTED)  # the document is out: no other may follow about the stop
    if result.status != "complete":
        raise typer.Exit(ENGINE_FAILED)
