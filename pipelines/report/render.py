"""From a page to HTML."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pipelines.report.page import Page
from pipelines.report.section import Badge, Quoted, numbers_table
from pipelines.report.theme import DARK, PRINT, css_variables
from pipelines.report.words import LANGUAGES, words

TEMPLATES = Path(__file__).parents[2] / "reports" / "templates"


def render(page: Page, templates: Path = TEMPLATES) -> str:
    """The page as one HTML document that needs no other file.

    Args:
        page: content; every text is escaped.
        templates: folder with evaluation.html.j2 and evaluation.css.
    """
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["badge"] = lambda cell: isinstance(cell, Badge)
    environment.tests["quoted"] = lambda cell: isinstance(cell, Quoted)
    environment.filters["code"] = mark_code
    environment.filters["numbers"] = lambda chart: numbers_table(chart, page.words)
    template = environment.get_template("evaluation.html.j2")
    others = {
        language: (file_name(language), words(language)("page.language"))
        for language in LANGUAGES
        if language != page.words.language
    }
    return template.render(
        page=page,
        say=page.words,
        others=others,
        light=css_variables(PRINT),
        dark=css_variables(DARK),
    )


def mark_code(text: str) -> Markup:
    """Escape a text, and set what stands between backticks as code."""
    parts = [escape(part) for part in text.split("`")]
    if len(parts) % 2 == 0:  # an odd backtick marks nothing
        return escape(text)
    coded = (Markup("<code>{}</code>").format(p) if i % 2 else p for i, p in enumerate(parts))
    return Markup("").join(coded)


def file_name(language: str) -> str:
    """Name of the page of a language; the English one has none in its name."""
    return "evaluation.html" if language == "en" else f"evaluation.{language}.html"
