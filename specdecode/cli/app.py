"""The typer application: which command lives where."""

from __future__ import annotations

import inspect

import typer

from specdecode.cli.approve import approve_command
from specdecode.cli.audit import audit_command
from specdecode.cli.bundle import bundle_command
from specdecode.cli.confirm import confirm_command
from specdecode.cli.decide import decide_command
from specdecode.cli.distil import distil_app
from specdecode.cli.doctor import doctor_command
from specdecode.cli.explain import explain_command
from specdecode.cli.flip import flip_command
from specdecode.cli.generate import generate_command
from specdecode.cli.keys import keys_app
from specdecode.cli.ledger import ledger_app
from specdecode.cli.load import load_command
from specdecode.cli.plan import plan_app
from specdecode.cli.plan_amend import amend_command
from specdecode.cli.plan_seal import seal_command
from specdecode.cli.route import route_command
from specdecode.cli.serve import serve_command
from specdecode.cli.sweep import sweep_command
from specdecode.cli.vault import vault_app
from specdecode.cli.verify import verify_command
from specdecode.cli.version import VersionFlag, version_command

app = typer.Typer(
    name="specdecode",
    help="Decide, with evidence, whether a speculative-decoding change may go live.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _program(version: VersionFlag = False) -> None:
    """Decide, with evidence, whether a speculative-decoding change may go live."""


app.command("generate")(generate_command)
app.command("serve")(serve_command)
app.command("route")(route_command)
app.command("audit")(audit_command)
app.command("load")(load_command)
app.command("sweep")(sweep_command)
app.command("decide")(decide_command)
app.command("flip")(flip_command)
app.command("explain")(explain_command)
app.add_typer(distil_app, name="distil")
plan_app.command("seal")(seal_command)
plan_app.command("amend")(amend_command)
app.add_typer(plan_app, name="plan")
app.command("confirm")(confirm_command)
app.add_typer(vault_app, name="vault")
app.command("approve")(approve_command)
app.command("bundle")(bundle_command)
app.command("verify")(verify_command)
app.add_typer(ledger_app, name="ledger")
app.add_typer(keys_app, name="keys")
app.command("doctor")(doctor_command)
app.command("version")(version_command)


def _fill(group: typer.Typer) -> None:
    """Let help texts be as wide as the terminal: typer keeps the line breaks of a docstring."""
    for command in group.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _fill(inner.typer_instance)


_fill(app)
