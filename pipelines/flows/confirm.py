"""Flow `confirm`: the last look, on prompts that nobody has decoded. Once.

It runs `specdecode confirm` and adds nothing to it: that command checks the seal, puts the opening
on record before the first prompt is decrypted, and goes on where a crash left it. So this flow may
be started again after any crash. What it may not do is open the set for another candidate: that is
refused, and the refusal is the result of the run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from pipelines.flows.commands import run_json
from pipelines.flows.evaluate import markdown
from pipelines.flows.events import emit_verdict
from pipelines.flows.measuring import measuring_slot
from pipelines.stages.command import read_json

VERDICTS = {0, 10, 11, 12}
"""Exit codes that come with a verdict."""


@task(cache_policy=NO_CACHE, persist_result=False, retries=0)
def open_and_judge(arguments: list[str], root: Path) -> dict[str, Any]:
    """Runs `specdecode confirm` and returns its document.

    Raises:
        RuntimeError: there is no verdict; says why, and whether the set was opened before for
            something else.
    """
    logger = get_run_logger()
    status, document = run_json(["confirm", *arguments], root, lambda line: logger.info("%s", line))
    if status not in VERDICTS or "error" in document:
        raise RuntimeError(refusal(status, document))
    return document


@flow(name="confirm", persist_result=False, retries=0)
def confirm(
    keys: list[str],
    plan: str = "plans/default.yaml",
    vault: str = "eval_sets/confirmation",
    out: str = "data/confirmation",
    options: list[str] | None = None,
) -> dict[str, Any]:
    """Opens the confirmation set for the sealed plan and returns what came of it.

    Args:
        keys: files with the holders' vault keys, readable where the flow runs; their contents
            never pass through Prefect.
        plan: the sealed plan.
        vault: folder of the confirmation set.
        out: folder for rows, audit and verdict; the same one after a crash.
        options: further options of `specdecode confirm`.

    Returns:
        The document `specdecode confirm --json` prints: status, reasons, custody, paths.

    Raises:
        RuntimeError: refused, tampered with or failed. The set may be consumed nonetheless; the
            message says what to do.
    """
    root = Path.cwd()
    arguments = ["--plan", plan, "--vault", vault, "--out", out]
    for key in keys:
        arguments += ["--key", key]
    with measuring_slot(root):
        document = open_and_judge([*arguments, *(options or [])], root)
    verdict = read_json(root / document["verdict"])
    create_markdown_artifact(
        page(document, verdict), key="confirmation", description="Verdict on the confirmation set"
    )
    emit_verdict(
        verdict | {"status": settled(document)},
        stage="confirmation",
        step=None,
        owner=verdict["owner"],
        recovery="none" if settled(document) == "GO" else "hold",
    )
    return document


def settled(document: dict[str, Any]) -> str:
    """The status that may be acted on: a GO of an exploratory result confirms nothing."""
    if document["exploratory"] and document["status"] == "GO":
        return "INCONCLUSIVE"
    return str(document["status"])


def refusal(status: int, document: dict[str, Any]) -> str:
    """Why there is no verdict, in words."""
    error = document.get("error")
    kind, why = (error["type"], error["message"]) if error else ("no verdict", str(document))
    if kind == "ConfirmationConsumed":
        return f"refused: the confirmation set was opened before, and opens once. {why}"
    return f"`specdecode confirm` ended with status {status} ({kind}): {why}"


def page(document: dict[str, Any], verdict: dict[str, Any]) -> str:
    """The verdict as a page, with what is special about a confirmation."""
    lines = [
        markdown(verdict),
        "",
        f"Opened {document['opened_at']}, custody {document['custody']}; "
        f"{document['prompts']} prompts, {document['lost']} lost.",
    ]
    if document["exploratory"]:
        lines += ["", "Exploratory, so it confirms nothing:", ""]
        lines += [f"- {reason}" for reason in document["exploratory"]]
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    confirm(keys=sys.argv[1:])
