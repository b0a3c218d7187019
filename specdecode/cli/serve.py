"""`specdecode serve`."""

from __future__ import annotations

import contextlib
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from specdecode.cli.console import JsonFlag, emit_json, stderr
from specdecode.cli.quiet import no_progress_in_a_pipe
from specdecode.cli.target import DEFAULT_TARGET, find_target
from specdecode.errors import EngineError

_NO_DRAFT = "none"
_DEFAULT_LENGTH = 4
_LIMITS = "Limits"
_WARM_UP_TOKENS = 4
_LAST_STEP_S = 10.0  # a step under way can't be cut short


def serve_command(
    *,
    target: Annotated[
        str, typer.Option(help="Target model: folder, .gguf file, hub:… or pypi:…")
    ] = DEFAULT_TARGET,
    draft: Annotated[
        str, typer.Option(help="As for `generate`, or none for plain decoding.")
    ] = "self-int4",
    verification: Annotated[
        str, typer.Option(help="Verification rule: token, block or match.")
    ] = "block",
    num_speculative_tokens: Annotated[
        str | None,
        typer.Option(
            help="Draft tokens a step: 1 to 64, or adaptive; by default 4, or the most of "
            "--draft-lengths."
        ),
    ] = None,
    draft_lengths: Annotated[
        str | None,
        typer.Option(
            help="Draft tokens by the number of replies decoded together: a file that `sweep` "
            "writes, or JSON such as [[1, 4, 5], [5, 64, 0]]."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16 or float32.")] = "auto",
    served_model_name: Annotated[
        str, typer.Option(help="What clients ask for; the target's name when not given.")
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="SPECDECODE_API_KEY", help="Bearer token that /v1 asks for."),
    ] = None,
    slots: Annotated[
        int, typer.Option(help="Most replies decoded together.", rich_help_panel=_LIMITS, min=1)
    ] = 8,
    queue: Annotated[
        int, typer.Option(help="Most replies that wait.", rich_help_panel=_LIMITS, min=1)
    ] = 64,
    prefill_chunk: Annotated[
        int,
        typer.Option(
            help="Most prompt tokens of newcomers read between two steps.",
            rich_help_panel=_LIMITS,
            min=1,
        ),
    ] = 256,
    max_tokens: Annotated[
        int, typer.Option(help="Longest reply.", rich_help_panel=_LIMITS, min=1)
    ] = 4096,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(help="Longest prompt.", rich_help_panel=_LIMITS, min=1)
    ] = None,
    max_body_bytes: Annotated[
        int, typer.Option(help="Largest request body.", rich_help_panel=_LIMITS, min=1)
    ] = 2 * 2**20,
    deadline: Annotated[
        float,
        typer.Option(help="Seconds a reply may take; 0: any.", rich_help_panel=_LIMITS, min=0),
    ] = 600.0,
    guard: Annotated[bool, typer.Option(help="Go on without drafts where they do not pay.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Serve the engine over HTTP, as OpenAI's API; many requests are decoded together.

    Example: specdecode serve --port 8000
    """
    from specdecode import Engine, SamplingParams
    from specdecode.serving import heap
    from specdecode.serving.apart import apart
    from specdecode.serving.lengths import DraftLengths
    from specdecode.serving.listening import cannot_listen, take_port
    from specdecode.serving.run import make_server, make_service
    from specdecode.serving.settings import ServerSettings

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    no_progress_in_a_pipe()
    lengths = None if draft_lengths is None else DraftLengths.read(draft_lengths)
    if num_speculative_tokens is None:
        num_speculative_tokens = str((lengths and lengths.most) or _DEFAULT_LENGTH)
    settings = ServerSettings(
        model_name=served_model_name or Path(target).name,
        host=host,
        port=port,
        slots=slots,
        queue=queue,
        prefill_chunk=prefill_chunk,
        max_body_bytes=max_body_bytes,
        max_prompt_tokens=max_prompt_tokens,
        max_tokens=max_tokens,
        deadline_s=deadline or None,
        api_key=api_key,
        guard=guard,
        draft_lengths=lengths,
    )

    def load() -> Engine:
        engine = Engine.load(
            find_target(target),
            None if draft == _NO_DRAFT else draft,
            verification=verification,
            num_speculative_tokens=_number_or_word(num_speculative_tokens),
            device=device,
            dtype=dtype,
        )
        # The first pass packs weights; ready means that this is over.
        warm_up = SamplingParams(max_tokens=_WARM_UP_TOKENS, seed=0, ignore_eos=True)
        engine.generate([[0]], warm_up)
        return engine

    heap.share_one()
    with contextlib.ExitStack() as held:
        # Loading can take minutes: that the port is taken is said before.
        sockets = [held.enter_context(each) for each in take_port(host, port)]
        with stderr().status("loading"):
            engine = apart(load)
            service = make_service(engine, settings)

        def ready(address: str, bound: int) -> None:
            url = f"http://[{address}]:{bound}" if ":" in address else f"http://{address}:{bound}"
            if as_json:
                emit_json({"url": url, "model": settings.model_name})
            else:
                line = f"Serving '{settings.model_name}' at {url} (Ctrl-C stops)"
                stderr().print(line, markup=False)

        server = make_server(service, settings, ready)
        with contextlib.suppress(SystemExit):  # how it says that it could not start
            server.run(sockets)
    service.scheduler.stop(finish=False, timeout_s=_LAST_STEP_S)
    if not server.started:
        raise cannot_listen(host, port, "for the reason above")
    if service.scheduler.failure is not None:
        raise EngineError(f"the engine stopped: {service.scheduler.failure}")


def _number_or_word(text: str) -> int | str:
    return int(text) if text.isdecimal() else text
