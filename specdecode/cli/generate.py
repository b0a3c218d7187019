"""`specdecode generate`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from specdecode.cli.comparison import compare_replies, describe_reply
from specdecode.cli.console import JsonFlag, emit_json, number, stderr, stdout
from specdecode.cli.generate_rows import asked_of, check_rows, prompts_at, show_written, write_rows
from specdecode.cli.live import Lane, decode_lanes, show_replies
from specdecode.cli.quiet import no_progress_in_a_pipe
from specdecode.cli.steps import Spell, show_steps
from specdecode.cli.target import DEFAULT_TARGET, find_target
from specdecode.errors import ConfigError, EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdecode import GenerationResult, SamplingParams
    from specdecode.decoding.prompts import Prompt
    from specdecode.models import LoadedModel

PLAIN, SPECULATIVE = "plain", "speculative"
_NO_DRAFT = "none"
_WARM_UP_TOKENS = 4
_SAMPLING = "Sampling"


def generate_command(
    text: Annotated[
        str,
        typer.Argument(
            help="The prompt; - reads it from standard input. With --rows also a file or folder of "
            "prompts."
        ),
    ],
    *,
    compare: Annotated[
        bool, typer.Option("--compare", help="Decode plainly as well, and show both.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show every step: drafted, judged, kept.")
    ] = False,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="Write the replies to this .jsonl file, with --trace their steps too, for "
            "`specdecode audit`, and do not show them."
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(help="Target model: folder, .gguf file, hub:… or pypi:…")
    ] = DEFAULT_TARGET,
    draft: Annotated[
        str,
        typer.Option(
            help="self-int4, self-int8, early-exit:K, prompt-lookup, suffix, suffix:shared, "
            "cascade:BOTTOM,MIDDLE, a model, or none."
        ),
    ] = "self-int4",
    verification: Annotated[
        str, typer.Option(help="Verification rule: token, block, greedy-block or match.")
    ] = "block",
    num_speculative_tokens: Annotated[
        str, typer.Option(help="Draft tokens a step: 1 to 64, or adaptive.")
    ] = "4",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16 or float32.")] = "auto",
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the text as it is, without chat template.")
    ] = False,
    max_tokens: Annotated[int, typer.Option(rich_help_panel=_SAMPLING)] = 64,
    temperature: Annotated[
        float, typer.Option(help="0 decodes greedily.", rich_help_panel=_SAMPLING)
    ] = 0.0,
    top_p: Annotated[float, typer.Option(rich_help_panel=_SAMPLING)] = 1.0,
    top_k: Annotated[int, typer.Option(help="0: all.", rich_help_panel=_SAMPLING)] = 0,
    min_p: Annotated[float, typer.Option(rich_help_panel=_SAMPLING)] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(rich_help_panel=_SAMPLING)] = 1.0,
    stop: Annotated[
        list[str] | None,
        typer.Option(help="Ends the reply; repeatable.", rich_help_panel=_SAMPLING),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Drawn when not given.", rich_help_panel=_SAMPLING)
    ] = None,
    logprobs: Annotated[
        int,
        typer.Option(
            help="With --json: each token's log-probability and the k likeliest tokens.",
            rich_help_panel=_SAMPLING,
        ),
    ] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Decode one prompt, speculatively; --compare shows plain decoding beside it.

    With --rows, decode as many prompts as a file or folder holds, and keep the replies for an
    audit. With --trace these rows also tell whether the draft is what it says.

    Example: specdecode generate "Name three uses of a brick." --compare
    """
    from specdecode import Engine, SamplingParams
    from specdecode.models import load_model
    from specdecode.workload.decoded_rows import Asked

    if rows is not None:
        check_rows(rows)
    prompt_set = None if rows is None else prompts_at(text)
    prompt_text = _readable(text, stop or ())
    if not prompt_text.strip():
        raise ConfigError("the prompt is empty; give a text, or - and a text on standard input")
    if compare and draft == _NO_DRAFT:
        raise ConfigError("--compare needs a draft to compare with; leave --draft out")
    if logprobs and rows is not None:
        raise ConfigError("rows hold no log-probabilities; leave out --logprobs or --rows")
    if logprobs and not as_json:
        raise ConfigError("--logprobs are part of the JSON document; add --json")
    params = SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        seed=seed,
        logprobs=logprobs,
    )
    no_progress_in_a_pipe()
    with stderr().status("loading"):
        model = load_model(find_target(target), device, dtype)
        # Plain decoding uses neither, but a wrong value is wrong there too.
        rule: dict[str, Any] = {
            "verification": verification,
            "num_speculative_tokens": _number_or_word(num_speculative_tokens),
        }
        plain = compare or draft == _NO_DRAFT
        lanes = [Lane(PLAIN, Engine.load(model, **rule))] if plain else []
        if draft != _NO_DRAFT:
            lanes.append(Lane(SPECULATIVE, Engine.load(model, draft, **rule)))
        prompt = _prompt(prompt_text, model, raw=raw)
        short = params.model_copy(update={"max_tokens": min(_WARM_UP_TOKENS, max_tokens)})
        for lane in lanes:  # the first call packs weights, which is not decoding
            lane.engine.generate([prompt], short)
    about: dict[str, Any] = {
        "target": target,
        "device": str(model.device),
        "dtype": str(model.dtype).removeprefix("torch."),
        "draft": None if draft == _NO_DRAFT else draft,
        **(dict.fromkeys(rule) if draft == _NO_DRAFT else rule),
        "sampling": params.model_dump(mode="json"),
    }
    if rows is not None:
        asked = asked_of(prompt_set, model, raw=raw) if prompt_set else [Asked(prompt)]
        arms = write_rows(rows, lanes, asked, params, trace=trace)
        if as_json:
            emit_json({**about, "rows": str(rows), "arms": arms})
        else:
            show_written(rows, arms, params, trace=trace)
        return
    results = decode_lanes(lanes, prompt, params, stderr(), trace=trace)
    replies = {name: describe_reply(result) for name, result in results.items()}
    comparison = (
        compare_replies(
            replies[PLAIN],
            replies[SPECULATIVE],
            greedy=params.is_greedy,
            judge=lambda: _judge(results, model, params),
        )
        if compare
        else None
    )
    if as_json:
        emit_json({**about, "replies": replies, "comparison": comparison})
        return
    _show(replies, comparison)
    if trace:
        show_steps(list(results.values())[-1].trace or (), _speller(model), stdout())


def _speller(model: LoadedModel) -> Spell:
    """Token ids as quoted text, which shows the spaces; as numbers without a tokenizer."""
    if model.tokenizer is None:
        return str
    return lambda token: repr(model.tokenizer.decode([token]))


def _judge(
    results: Mapping[str, GenerationResult], model: LoadedModel, params: SamplingParams
) -> dict[str, Any]:
    """What the audit says about the greedy tokens of all replies together."""
    from specdecode.audit import audit

    rows = [
        {
            "prompt_token_ids": result.prompt_token_ids,
            "output_token_ids": result.token_ids,
            "sampling": params.model_dump(mode="json"),
            "order_index": index,  # equal replies of two lanes are two observations
        }
        for index, result in enumerate(results.values())
    ]
    greedy = audit(rows, model).greedy
    if greedy is None:
        raise EngineError("the audit judged no greedy token; please report this as a fault")
    return greedy


def _number_or_word(text: str) -> int | str:
    """A number where it is one; the engine says which words it knows."""
    try:
        return int(text)
    except ValueError:
        return text


def _readable(text: str, stop: Sequence[str]) -> str:
    """The prompt, from standard input if it is "-"; it and the stop strings must be text."""
    try:
        prompt = sys.stdin.read() if text == "-" else text
        "".join([prompt, *stop]).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"the prompt or a stop string is not text ({error.reason}); give it as UTF-8"
        ) from error
    return prompt


def _prompt(text: str, model: LoadedModel, *, raw: bool) -> Prompt:
    """The text as a chat message where the model knows chat, as it is otherwise."""
    if raw or not getattr(model.tokenizer, "chat_template", None):
        return text
    return [{"role": "user", "content": text}]


def _show(replies: dict[str, dict[str, Any]], comparison: dict[str, Any] | None) -> None:
    console = stdout()
    show_replies(replies, console)
    if comparison is None:
        return
    console.print(Text(comparison["statement"]))
    ratio = number(comparison["speed_ratio"], 2)
    console.print(
        Text(f"Speed: {ratio} times plain decoding, on this one prompt (`make evaluate` measures).")
    )
