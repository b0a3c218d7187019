"""Draft honesty on traces of a small speculative decoder whose every coin is known."""

import numpy as np
import pytest
import torch
from scipy import stats

from specdecode.audit.run import audit_with
from tests.audit.toys import ToyScorer, tables

VOCAB, GAMMA, STEPS, ROWS = 12, 2, 25, 60
TARGET, DRAFT = tables(vocab=VOCAB, noise=1.0)
P, Q = TARGET.softmax(-1).numpy(), DRAFT.softmax(-1).numpy()
SHARP = ((DRAFT * 1.6).softmax(-1)).numpy()


def pick(law, coin):
    cumulative = law.cumsum()
    return int((cumulative <= coin * cumulative[-1]).sum())


def decode(rng, *, drawn_from=Q, declared=Q, shared=False):
    """One reply by token verification. With `shared`, a draft token's coin decides on it, too."""
    last = int(rng.integers(VOCAB))
    prompt, output, trace = [last], [], []
    for _ in range(STEPS):
        context, drafted, coins, probs = last, [], [], []
        for _ in range(GAMMA):
            noise = rng.random()
            token = pick(drawn_from[context], noise)
            probs.append(float(declared[context][token]))
            coins.append(noise if shared else float(rng.random()))
            drafted.append(token)
            context = token
        context, kept = last, []
        for token, coin in zip(drafted, coins, strict=True):
            if coin >= P[context][token] / declared[context][token]:
                left = np.clip(P[context] - declared[context], 0, None)
                emitted = [*kept, pick(left, rng.random())]
                break
            kept.append(token)
            context = token
        else:
            emitted = [*kept, pick(P[context], rng.random())]
        trace.append(
            {
                "draft_tokens": drafted, "draft_probs": probs, "accept_coins": coins,
                "num_accepted": len(kept), "emitted": emitted,
            }
        )  # fmt: skip
        output += emitted
        last = output[-1]
    return {
        "prompt_token_ids": prompt,
        "output_token_ids": output,
        "sampling": {"temperature": 1.0},
        "drafted": GAMMA * STEPS,
        "verification": "token",
        "trace": trace,
    }


def report(seed=0, scorer=None, rows=ROWS, **how):
    rng = np.random.default_rng(seed)
    rows = [{**decode(rng, **how), "order_index": index} for index in range(rows)]
    scorer = scorer or ToyScorer(TARGET, DRAFT, shake=1e-5)
    return audit_with(scorer, {"rows": rows}, 0.01, baseline_arm=None)["rows"]


@pytest.fixture(autouse=True)
def _fewer_tokens(monkeypatch):
    monkeypatch.setattr("specdecode.audit.report.min_sampled_tokens", lambda _: 1500)


def test_an_honest_draft_is_honest_and_its_output_lossless():
    found = report()

    honesty = found.draft_honesty
    assert honesty["verdict"] == "honest", honesty["reasons"]
    assert honesty["draws"]["read"] >= 1500
    assert honesty["coins"]["read"] == ROWS * STEPS * GAMMA
    assert honesty["declared"]["apart"] == 0
    assert honesty["declared"]["compared"] == honesty["draws"]["read"]
    assert found.verdict == "lossless", found.reasons
    assert {"bonus: draft", "after rejection: flatter"} <= set(found.directions)
    assert {"bonus", "after rejection", "first", "inside"} == set(found.carried_by["places"])


def test_draft_tokens_drawn_from_another_law_than_declared_are_found():
    honesty = report(drawn_from=SHARP).draft_honesty

    assert honesty["verdict"] == "dishonest"
    assert "were not drawn from the declared draft" in honesty["reasons"][0]
    assert "towards 'sharper'" in honesty["reasons"][0]


def test_declared_probabilities_that_are_not_the_draft_s_are_found():
    """Drawn and declared agree with each other, and with nothing the declared draft says."""
    found = report(drawn_from=SHARP, declared=SHARP)

    assert any("recorded draft probabilities" in why for why in found.draft_honesty["reasons"])
    # The output is lossless all the same; the draft keeps it from being called so.
    assert found.sampled["verdict"] == "lossless"
    assert found.verdict == "undecided"
    assert found.reasons[0].startswith("the draft is not what it says")


def test_coins_shared_with_the_draft_are_found():
    honesty = report(shared=True).draft_honesty

    assert honesty["verdict"] == "dishonest"
    assert "coins are not independent" in honesty["reasons"][-1]
    assert honesty["draws"]["crossed_at"] is None


def test_coins_are_read_without_the_draft_and_draws_are_not():
    honesty = report(scorer=ToyScorer(TARGET, shake=1e-5), rows=5).draft_honesty

    assert honesty["verdict"] == "undecided"
    assert honesty["draws"]["read"] == 0
    assert honesty["coins"]["read"] == 5 * STEPS * GAMMA


def test_an_honest_draft_is_seldom_called_dishonest():
    verdicts = [report(seed, rows=4).draft_honesty["verdict"] for seed in range(100, 140)]

    # P(more than this | rate = alpha) < 0.001.
    assert verdicts.count("dishonest") <= stats.binom.ppf(0.999, 40, 0.01)


def test_rows_without_traces_tell_nothing_about_the_draft():
    row = decode(np.random.default_rng(0))
    del row["trace"]
    found = audit_with(ToyScorer(TARGET, DRAFT), {"rows": [row]}, 0.01, baseline_arm=None)["rows"]

    assert found.draft_honesty is None
    assert set(found.carried_by["places"]) == {"unknown"}


def test_block_verification_shows_the_first_draft_token_of_each_step_only():
    rows = [{**decode(np.random.default_rng(0)), "verification": "block"}]
    found = audit_with(ToyScorer(TARGET, DRAFT), {"rows": rows}, 0.01, baseline_arm=None)["rows"]

    assert found.draft_honesty["draws"]["read"] == STEPS


class RoundingScorer(ToyScorer):
    """The draft is read exactly, and computed by an engine with kernels that round."""

    rounded = DRAFT + 0.2 * torch.randn(
        DRAFT.shape, generator=torch.Generator().manual_seed(4), dtype=DRAFT.dtype
    )

    def draft_one_by_one(self, prompt, output):
        return self._rows(self.rounded, prompt, output)


def test_noise_of_the_draft_s_own_kernels_is_no_dishonesty():
    """Measured as the target's is; where an engine has no such kernels it would be a finding."""
    law = RoundingScorer.rounded.softmax(-1).numpy()
    how = {"drawn_from": law, "declared": law}

    found = report(scorer=RoundingScorer(TARGET, DRAFT, shake=1e-5), **how).draft_honesty
    accused = report(**how).draft_honesty

    assert found["verdict"] == "honest", found["reasons"]
    assert found["declared"]["apart"] == 0
    assert found["declared"]["tolerance"]["positions"] > 400
    assert accused["verdict"] == "dishonest"
    assert accused["declared"]["tolerance"]["gap"] == 0


def test_another_law_is_found_behind_that_noise():
    scorer = RoundingScorer(TARGET, DRAFT, shake=1e-5)
    honesty = report(scorer=scorer, drawn_from=SHARP).draft_honesty

    assert honesty["verdict"] == "dishonest"
    assert "were not drawn from the declared draft" in honesty["reasons"][0]


def test_a_coin_that_waits_for_its_position_is_read_once():
    """Under sample-and-match coins belong to positions: behind a rejection they come again."""
    row = {**decode(np.random.default_rng(0)), "verification": "match"}
    found = audit_with(ToyScorer(TARGET, DRAFT), {"rows": [row]}, 0.01, baseline_arm=None)["rows"]

    used = [min(step["num_accepted"] + 1, GAMMA) for step in row["trace"]]
    assert found.draft_honesty["coins"]["read"] == sum(used) < GAMMA * STEPS
