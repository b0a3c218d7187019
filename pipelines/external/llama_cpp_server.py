"""llama.cpp's own HTTP server, kept up until SIGTERM. Runs in the environment of llama.cpp.

It imports nothing of this project, which is not installed there. One setting per option; what is
not named here has llama.cpp's default.
"""

from __future__ import annotations

import argparse
import signal
import sys

import xllamacpp


def main() -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--context", type=int, required=True, help="tokens of each slot")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--draft", help="GGUF of the draft; none decodes plainly")
    parser.add_argument("--draft-tokens", type=int, default=5)
    options = parser.parse_args()
    server = xllamacpp.Server(settings(options))
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    sys.stdout.write(f"listening on {server.listening_address}\n")
    sys.stdout.flush()
    signal.sigwait(stop)
    return 0


def settings(options: argparse.Namespace) -> xllamacpp.CommonParams:
    """Options as llama.cpp takes them."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = options.model
    chosen.model_alias = {options.name}
    chosen.hostnames, chosen.port = ["127.0.0.1"], options.port
    chosen.n_parallel = options.slots
    chosen.n_ctx = options.slots * options.context
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = options.threads
    # A prompt that was seen before is computed again, as everywhere else in a comparison.
    chosen.cache_prompt = False
    chosen.cache_ram_mib = 0
    chosen.endpoint_metrics = chosen.endpoint_props = chosen.endpoint_slots = True
    if options.draft:
        draft = chosen.speculative.draft
        draft.mparams.path = options.draft
        draft.n_max = options.draft_tokens
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = options.threads
        kinds = xllamacpp.common_speculative_type
        chosen.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    return chosen


if __name__ == "__main__":
    sys.exit(main())
