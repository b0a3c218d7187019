"""`specdecode explain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.console import JsonFlag, emit_json, stderr, stdout
from specdecode.cli.documents import read_json_object
from specdecode.cli.explain_show import show_explanation
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.cli.quiet import no_progress_in_a_pipe
from specdecode.cli.row_files import refuse_absent
from specdecode.cli.target import DEFAULT_TARGET, find_target
from specdecode.errors import ConfigError, ModelNotFoundError

if TYPE_CHECKING:
    from specdecode.explaining.document import Explanation
    from specdecode.explaining.recorded import Recorded

_DRAFT_MANIFEST = Path("models/draft/manifest.json")


def explain_command(
    request: Annotated[
        str,
        typer.Argument(help="request_id of a row, or a file that `generate --trace --json` wrote."),
    ],
    *,
    rows: Annotated[Path, typer.Option(help="Rows of evidence (.parquet).")] = Path(
        "data/rows.parquet"
    ),
    html: Annotated[Path | None, typer.Option(help="Also write a page to this file.")] = None,
    params: Annotated[Path, typer.Option(help="Parameters the rows were measured with.")] = Path(
        "params.yaml"
    ),
    target: Annotated[
        str | None,
        typer.Option(help=f"Target model; {DEFAULT_TARGET}, or what the trace names, by default."),
    ] = None,
    draft: Annotated[
        str | None, typer.Option(help="What drafted; by default that of the parameters.")
    ] = None,
    verification: Annotated[
        str | None, typer.Option(help="Rule of the row; by default its arm's name.")
    ] = None,
    num_speculative_tokens: Annotated[
        int | None, typer.Option(help="Draft tokens a step; by default the row's own.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    dtype: Annotated[str | None, typer.Option(help="auto, bfloat16 or float32.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Read a reply backwards: where each token came from, and which assumption failed.

    A row holds no trace, so its request is decoded again with its seed and parameters, and plainly
    beside it; the first line says whether the tokens came out equal.

    Example: specdecode explain closed_qa-en-001/sampled/block --html why.html
    """
    if html is not None:
        refuse_unwritable(html)
    wanted = _Wanted(target, draft, num_speculative_tokens, device, dtype)
    if Path(request).is_file():
        found = _of_trace(Path(request), wanted)
    elif request.endswith(".json"):
        raise ConfigError(
            f"{request}: no such file; `specdecode generate … --trace --json` makes one"
        )
    else:
        found = _of_row(rows, request, params, wanted, verification)
    if html is not None:
        from specdecode.explaining.page import page_of

        write_output(html, page_of(found).encode())
    if as_json:
        emit_json(found.to_json())
    else:
        show_explanation(found, stdout())
        if html is not None:
            stdout().print(f"Page: {html}", markup=False)


@dataclass(frozen=True)
class _Wanted:
    """What the command line says about models; null leaves it to record and parameters."""

    target: str | None
    draft: str | None
    num_speculative_tokens: int | None
    device: str | None
    dtype: str | None


def _of_trace(path: Path, wanted: _Wanted) -> Explanation:
    from specdecode.explaining.recorded import from_trace_file
    from specdecode.explaining.replay import speller
    from specdecode.explaining.story import explain

    recorded = from_trace_file(path)
    return explain(recorded, speller(_tokenizer(wanted.target or recorded.target)))


def _tokenizer(target: str | None) -> Any:
    """The target's, for its words alone; None where the model is not here."""
    from specdecode.models import load_model
    from specdecode.workload.compile import load_tokenizer

    no_progress_in_a_pipe()
    try:
        source = find_target(target or DEFAULT_TARGET)
        if Path(source).is_dir():
            return load_tokenizer(source).tokenizer
        with stderr().status("loading"):
            return load_model(source, "cpu", "auto").tokenizer
    except ModelNotFoundError as error:
        stderr().print(f"Tokens are shown as numbers: {error}", markup=False)
        return None


def _of_row(
    rows: Path, request: str, params: Path, wanted: _Wanted, verification: str | None
) -> Explanation:
    from specdecode.explaining.recorded import from_rows
    from specdecode.explaining.replay import decode_again, speller
    from specdecode.explaining.story import explain
    from specdecode.models import load_model

    refuse_absent(rows)
    recorded = from_rows(rows, request)
    if verification is not None and recorded.drafting:
        recorded = replace(recorded, verification=verification)
    run = _parameters(params)
    draft = _draft(recorded, run, wanted)
    length = wanted.num_speculative_tokens or recorded.num_speculative_tokens
    length = length or _at(run, "decoding", "num_speculative_tokens")
    if (threads := _at(run, "decoding", "threads")) is not None:
        import torch

        torch.set_num_threads(int(threads))
    no_progress_in_a_pipe()
    with stderr().status("decoding again"):
        model = load_model(
            find_target(wanted.target or DEFAULT_TARGET),
            wanted.device or _at(run, "decoding", "device") or "auto",
            wanted.dtype or _at(run, "target", "dtype") or "auto",
        )
        replay = decode_again(recorded, model, draft, length)
    return explain(
        recorded, speller(model.tokenizer), replay, draft=draft, num_speculative_tokens=length
    )


def _draft(recorded: Recorded, run: Mapping[str, Any], wanted: _Wanted) -> str | None:
    """What drafted: as told, else the draft the pipeline made, else that of the parameters."""
    if not recorded.drafting:
        return None
    if wanted.draft is not None:
        return wanted.draft
    if _DRAFT_MANIFEST.is_file():
        made = read_json_object(_DRAFT_MANIFEST)
        found = made.get("folder") or made.get("source")
    else:
        found = _at(run, "draft", "source")
    return None if found is None else str(found)


def _parameters(path: Path) -> Mapping[str, Any]:
    """Parameters of the run; nothing where there is no such file, as away from a repository."""
    from specdecode.governance.yaml_file import read_yaml

    if not path.is_file():
        return {}
    document = read_yaml(path, "parameters")
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not the parameters of a run (expected keys and values)")
    return document


def _at(run: Mapping[str, Any], section: str, key: str) -> Any:
    found = run.get(section)
    return found.get(key) if isinstance(found, Mapping) else None
