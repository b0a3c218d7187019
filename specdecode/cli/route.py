"""`specdecode route`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from specdecode.cli.console import JsonFlag, emit_json
from specdecode.cli.load_options import one_of
from specdecode.cli.route_options import key_from, token_from

_CANDIDATE = "Limits of the candidate"
_SHADOW = "Copies"
_RECORDS = "Records"
_PATIENCE = "Patience"


def route_command(
    *,
    baseline: Annotated[str, typer.Option(help="Server that users have today: its address.")],
    candidate: Annotated[str, typer.Option(help="Server under judgement: its address.")],
    state_dir: Annotated[
        Path, typer.Option(help="Folder of the state, its history, the salt and the rows.")
    ],
    token_file: Annotated[
        Path | None,
        typer.Option(help="File with the bearer token that changes the state; without, nobody."),
    ] = None,
    baseline_arm: Annotated[str, typer.Option(help="Its name in rows and plan.")] = "plain",
    candidate_arm: Annotated[str, typer.Option(help="Its name in rows and plan.")] = "block",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.")] = 8080,
    verdict: Annotated[
        Path | None, typer.Option(help="File of the latest verdict, which /gate shows.")
    ] = None,
    salt_file: Annotated[
        Path | None,
        typer.Option(help="Secret by which users are assigned; by default one in the folder."),
    ] = None,
    candidate_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable with the candidate's own API key."),
    ] = None,
    baseline_key_env: Annotated[
        str | None,
        typer.Option(help="Likewise of the baseline, in place of the clients' credentials."),
    ] = None,
    forward_credentials: Annotated[
        bool,
        typer.Option(
            "--forward-credentials",
            help="Send the clients' credentials to the candidate, too; with copies never.",
        ),
    ] = False,
    candidate_rps: Annotated[
        float | None,
        typer.Option(help="Most requests a second, copies included.", rich_help_panel=_CANDIDATE),
    ] = None,
    candidate_concurrency: Annotated[
        int, typer.Option(help="Most requests at the same time.", rich_help_panel=_CANDIDATE)
    ] = 64,
    candidate_failures: Annotated[
        int,
        typer.Option(help="Failures in a row after which it rests.", rich_help_panel=_CANDIDATE),
    ] = 5,
    candidate_rest: Annotated[
        float, typer.Option(help="Seconds that it rests then.", rich_help_panel=_CANDIDATE)
    ] = 30.0,
    shadow_when: Annotated[
        str,
        typer.Option(
            help="now, or idle: when the baseline has nothing to do.", rich_help_panel=_SHADOW
        ),
    ] = "now",
    shadow_queue: Annotated[
        int, typer.Option(help="Most copies that wait.", rich_help_panel=_SHADOW)
    ] = 64,
    shadow_concurrency: Annotated[
        int, typer.Option(help="Most copies at the same time.", rich_help_panel=_SHADOW)
    ] = 8,
    token_ids: Annotated[
        bool,
        typer.Option(
            "--token-ids",
            help="Keep token ids in rows, where servers send them.",
            rich_help_panel=_RECORDS,
        ),
    ] = False,
    ask_usage: Annotated[
        bool,
        typer.Option(
            help="Ask for token counts in streams under judgement, and keep them from clients who "
            "did not.",
            rich_help_panel=_RECORDS,
        ),
    ] = True,
    bodies: Annotated[
        float,
        typer.Option(
            help="Share of requests whose texts are kept, redacted.", rich_help_panel=_RECORDS
        ),
    ] = 0.0,
    max_body_bytes: Annotated[
        int, typer.Option(help="Largest request body.", rich_help_panel=_PATIENCE)
    ] = 32 * 2**20,
    connect_timeout: Annotated[
        float, typer.Option(help="Seconds to reach a server.", rich_help_panel=_PATIENCE)
    ] = 5.0,
    first_byte_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds the candidate's stream may take to begin, before the baseline is asked.",
            rich_help_panel=_PATIENCE,
        ),
    ] = 60.0,
    idle_timeout: Annotated[
        float,
        typer.Option(help="Seconds a server may send nothing at all.", rich_help_panel=_PATIENCE),
    ] = 600.0,
    finish: Annotated[
        float,
        typer.Option(
            help="Seconds that replies under way have when it is stopped.",
            rich_help_panel=_PATIENCE,
        ),
    ] = 30.0,
    as_json: JsonFlag = False,
) -> None:
    """Stand in front of two servers: shadow, canary, and the rows by which they are judged.

    Example: specdecode route --baseline http://127.0.0.1:8000 --candidate http://127.0.0.1:8001
    --state-dir router --token-file token
    """
    from specdecode.rollout.run import run
    from specdecode.rollout.settings import Limits, RouterSettings, Server

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    when = one_of("--shadow-when", shadow_when, ("now", "idle"))
    settings = RouterSettings(
        baseline=Server(
            baseline_arm, baseline, key=key_from(baseline_key_env), takes_credentials=True
        ),
        candidate=Server(
            candidate_arm,
            candidate,
            key=key_from(candidate_key_env),
            takes_credentials=forward_credentials,
        ),
        state_dir=state_dir,
        token=token_from(token_file),
        host=host,
        port=port,
        verdict=verdict,
        salt_file=salt_file,
        shadow_when="idle" if when == "idle" else "now",
        shadow_queue=shadow_queue,
        shadow_concurrency=shadow_concurrency,
        limits=Limits(
            rps=candidate_rps,
            concurrency=candidate_concurrency,
            failures=candidate_failures,
            pause_s=candidate_rest,
        ),
        bodies=bodies,
        token_ids=token_ids,
        ask_usage=ask_usage,
        max_body_bytes=max_body_bytes,
        connect_s=connect_timeout,
        first_byte_s=first_byte_timeout,
        idle_s=idle_timeout,
        finish_s=finish,
    )

    def ready(address: str, bound: int) -> None:
        url = f"http://[{address}]:{bound}" if ":" in address else f"http://{address}:{bound}"
        if as_json:
            emit_json({"url": url, "baseline": baseline, "candidate": candidate})
        sys.stderr.write(f"listening on {url}\n")
        sys.stderr.flush()

    run(settings, ready)
