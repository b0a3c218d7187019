"""An explanation as one page: no script, nothing fetched, light and dark, legible without colour.

The colours are Okabe and Ito's; beside its colour every origin has a border of its own and a
letter, so that the page also works in grey and on paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from specdecode.explaining.document import (
    MEANING,
    Assumption,
    Explanation,
    Origin,
    Stage,
    Step,
    Token,
)

_LETTERS: dict[Origin, str] = {"accepted": "a", "resampled": "r", "bonus": "b", "plain": "p"}

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --muted: #59636e;
  --line: #d8dde3; --accepted: #0072b2; --resampled: #c35200; --bonus: #a8467f; --plain: #5f6773; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebef; --paper: #14181d;
  --muted: #a7b0bb; --line: #3a424d; --accepted: #56b4e9; --resampled: #f0a04b;
  --bonus: #e08fc0; --plain: #aab2bf; } }
body { margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.summary { font-weight: 600; } .muted { color: var(--muted); }
.reply { font-family: ui-monospace, monospace; line-height: 2.1; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.t { border-bottom: 2px solid; padding: 1px 0; }
.t i { font: normal 0.6em/1 system-ui, sans-serif; vertical-align: sub; user-select: none; }
.accepted { color: var(--accepted); border-bottom-style: solid; }
.resampled { color: var(--resampled); border-bottom-style: dashed; font-weight: 700; }
.bonus { color: var(--bonus); border-bottom-style: double; border-bottom-width: 4px; }
.plain { color: var(--plain); border-bottom-style: dotted; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; }
th, td { text-align: left; padding: 0.3rem 0.7rem 0.3rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.failed { font-weight: 700; color: var(--resampled); }
code { font-family: ui-monospace, monospace; white-space: pre-wrap; }
details summary { cursor: pointer; }
"""


def page_of(found: Explanation) -> str:
    """The page as HTML text."""
    parts = [
        f"<h1>Why <code>{escape(found.request)}</code> came out as it did</h1>",
        f'<p class="summary">{escape(found.summary)}</p>',
        f"<p>{escape(found.reproduction)}</p>",
        f'<p class="muted">{escape(_setting(found))}</p>',
        "<h2>The reply, by where its tokens came from</h2>",
        _reply(found.tokens),
        _legend(found.tokens),
        "<h2>What had to hold</h2>",
        _assumptions(found.assumptions),
        "<h2>Time by stage</h2>",
        _stages(found.stages),
    ]
    if found.steps:
        parts += ["<h2>Steps, the last one first</h2>", _steps(found.steps)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>specdecode: {escape(found.request)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
    )


def _setting(found: Explanation) -> str:
    if found.draft is None:
        return "Plain decoding."
    return (
        f"Verification {found.verification}, draft {found.draft}, at most "
        f"{found.num_speculative_tokens} draft tokens a step."
    )


def _reply(tokens: Sequence[Token]) -> str:
    return '<p class="reply">' + "".join(_token(token) for token in tokens) + "</p>"


def _token(token: Token) -> str:
    where = "the prompt's pass" if token.step is None else f"step {token.step}"
    title = f"{token.origin}, {where}, token id {token.token_id}"
    return (
        f'<span class="t {token.origin}" title="{escape(title)}">{escape(token.text)}'
        f"<i>{_LETTERS[token.origin]}</i></span>"
    )


def _legend(tokens: Sequence[Token]) -> str:
    rows = (
        (
            f'<span class="t {origin}">{origin}<i>{_LETTERS[origin]}</i></span>',
            str(sum(token.origin == origin for token in tokens)),
            escape(meaning),
        )
        for origin, meaning in MEANING.items()
    )
    return _table(("origin", "tokens", "meaning"), rows, numeric=(1,))


def _assumptions(assumptions: Sequence[Assumption]) -> str:
    body = "".join(
        f'<tr><td>{escape(a.name)}<br><span class="muted">{escape(a.question)}</span></td>'
        f'<td class="{a.state}">{a.state}</td><td>{escape(a.words)}</td></tr>'
        for a in assumptions
    )
    head = "<tr><th>assumption</th><th>state</th><th>finding</th></tr>"
    return f'<div class="scroll"><table>{head}{body}</table></div>'


def _stages(stages: Sequence[Stage]) -> str:
    rows = (
        (
            escape(stage.name),
            "not measured" if stage.seconds is None else f"{1e3 * stage.seconds:.1f}",
            "" if stage.share is None else f"{100 * stage.share:.0f} %",
        )
        for stage in stages
    )
    return _table(("stage", "ms", "share"), rows, numeric=(1, 2))


def _steps(steps: Sequence[Step]) -> str:
    rows = (
        (
            str(step.step),
            str(len(step.drafted)),
            str(step.accepted),
            escape(step.stopped) + _judged(step),
            *(f"{1e3 * s:.1f}" for s in (step.draft_s, step.score_s, step.verify_s)),
            _cost(step),
        )
        for step in steps
    )
    head = ("step", "drafted", "kept", "where it stopped, and why")
    times = ("draft ms", "score ms", "verify ms", "ms / token")
    return _table((*head, *times), rows, numeric=(0, 1, 2, 4, 5, 6, 7))


def _cost(step: Step) -> str:
    if step.s_per_token is None:
        return "no token"
    return f"{1e3 * step.s_per_token:.1f}" + (" slowest" if step.slowest else "")


def _judged(step: Step) -> str:
    if not step.drafted:
        return ""
    rows = (
        (
            f"<code>{escape(repr(token.text))}</code>",
            *(f"{value:.4f}" for value in (token.q, token.p, token.coin, token.running_ratio)),
            "kept" if token.kept else "dropped",
        )
        for token in step.drafted
    )
    head = ("draft token", "q", "p", "coin", "p_i", "")
    return f"<details><summary>coins</summary>{_table(head, rows, numeric=(1, 2, 3, 4))}</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int]) -> str:
    """A table; cells are HTML already."""
    kinds = ['class="n"' if column in numeric else "" for column in range(len(head))]
    top = "".join(f"<th {kind}>{escape(name)}</th>" for kind, name in zip(kinds, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td {kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><tr>{top}</tr>{body}</table></div>'
