"""From a page to HTML."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipelines.report.page import Page
from pipelines.report.section import Badge, numbers_table
from pipelines.report.theme import DARK, PRINT, css_variables

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
    environment.filters["numbers"] = numbers_table
    template = environment.get_template("evaluation.html.j2")
    return template.render(page=page, light=css_variables(PRINT), dark=css_variables(DARK))
