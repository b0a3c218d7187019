"""A server of one arm: `python -m pipelines.demo.engine --target DIR [--draft DIR] [--fault NAME]`.

It is the project's own server with small settings. A fault is named when it starts, and what it
says of itself does not tell: faults are to be found by what they do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import signal
import sys
from dataclasses import replace
from pathlib import Path

from pipelines import settings as pipeline_settings
from pipelines.console import say
from pipelines.demo.faults import BIASED, FAULTS, NONE, FaultSettings, Faulty, without_residual
from specdecode.decoding import Engine, SamplingParams
from specdecode.errors import ConfigError, EngineError, UserError
from specdecode.serving.run import make_server, make_service
from specdecode.serving.settings import ServerSettings
from specdecode.verification import RULES

RULE = "block"
DRAFT_TOKENS = 3
_SLOTS = 16
_QUEUE = 256
_WARM_UP_TOKENS = 4
_LAST_STEP_S = 10.0


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal comes; 0 in good order, 1 if the engine failed, 2 for wrong usage."""
    options = _options(argv)
    pipeline_settings.work_offline()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        _serve(options)
    except UserError as error:
        say(f"the engine does not start: {error}")
        return 2
    except EngineError as error:
        say(f"the engine failed: {error}")
        return 1
    return 0


def _options(argv: list[str] | None) -> argparse.Namespace:
    own = FaultSettings()
    parser = argparse.ArgumentParser(prog="python -m pipelines.demo.engine", description=__doc__)
    parser.add_argument("--target", type=Path, required=True, help="folder of the target")
    parser.add_argument("--draft", type=Path, help="folder of the draft; none: plain decoding")
    parser.add_argument("--name", default="demo", help="of the model, in requests (demo)")
    parser.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--fault", choices=FAULTS, default=NONE, help="default none")
    parser.add_argument("--on-signal", action="store_true", help="it begins with SIGUSR1")
    parser.add_argument(
        "--delay", type=float, default=own.delay_s, help=f"of a late reply, s ({own.delay_s:g})"
    )
    parser.add_argument("--share", type=float, default=own.share, help="that fails (0.05)")
    parser.add_argument("--category", default=own.category, help="that is harmed (code)")
    parser.add_argument("--seed", type=int, default=own.seed, help="of the requests that fail (0)")
    return parser.parse_args(argv)


def _serve(options: argparse.Namespace) -> None:
    import torch

    fault = FaultSettings(
        options.fault,
        options.on_signal,
        options.delay,
        options.share,
        options.category,
        options.seed,
    )
    if fault.fault == BIASED:
        if options.draft is None:
            raise ConfigError("a biased verification needs a --draft: without one nothing is drawn")
        RULES[RULE] = without_residual
    torch.set_num_threads(1)  # two servers and a router share the machine with everything else
    engine = Engine.load(
        options.target,
        options.draft,
        verification=RULE,
        num_speculative_tokens=DRAFT_TOKENS,
        device="cpu",
        dtype="auto",
    )
    engine.generate([[0]], SamplingParams(max_tokens=_WARM_UP_TOKENS, seed=0, ignore_eos=True))
    served = ServerSettings(
        model_name=options.name,
        host=options.host,
        port=options.port,
        slots=_SLOTS,
        queue=_QUEUE,
        # A model this small gains nothing from drafts. Here the point is not speed.
        guard=False,
    )
    service = make_service(engine, served)
    faulty = Faulty(service.app, fault)
    signal.signal(signal.SIGUSR1, lambda *_: faulty.begin())  # without a fault it changes nothing
    service = replace(service, app=faulty)

    def ready(address: str, port: int) -> None:
        document = {"url": f"http://{address}:{port}", "model": served.model_name}
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()

    server = make_server(service, served, ready)
    with contextlib.suppress(SystemExit):  # how it says that it could not start
        server.run()
    service.scheduler.stop(finish=False, timeout_s=_LAST_STEP_S)
    if not server.started:
        raise ConfigError(
            f"cannot listen on {options.host}, port {options.port}, for the reason above: "
            "give another --port (0 takes a free one)"
        )
    if service.scheduler.failure is not None:
        raise EngineError(f"it stopped: {service.scheduler.failure}")


if __name__ == "__main__":
    sys.exit(main())
