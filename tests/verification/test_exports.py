"""The package's front door lists exactly what it has."""

from __future__ import annotations

import types

import specdecode.verification as package


def order(name):
    """Constants, then classes, then functions; alphabetical within."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, name


def test_all_is_sorted_and_equals_the_public_names():
    public = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_")
        and name != "annotations"
        and not isinstance(value, types.ModuleType)
    }

    assert package.__all__ == sorted(public, key=order)


def test_the_contracts_names_are_there():
    contract = {
        "Coins",
        "Verification",
        "block_verification",
        "greedy_block_verification",
        "multi_draft_verification",
        "sample_and_match",
        "token_verification",
        "traversal_verification",
    }

    assert contract <= set(package.__all__)


def test_rules_are_registered_under_their_mode_names():
    assert {
        "token": package.token_verification,
        "block": package.block_verification,
        "greedy-block": package.greedy_block_verification,
        "match": package.sample_and_match,
    } == package.RULES


def test_greedy_block_says_it_is_not_lossless_alone():
    assert "Not lossless by itself" in package.greedy_block_verification.__doc__
    assert "modified_target" in package.greedy_block_verification.__doc__


def test_rules_over_several_continuations_stand_beside_the_chain_rules():
    for name in ("multi_draft_verification", "traversal_verification"):
        assert getattr(package, name) not in package.RULES.values()
        assert name in package.__doc__
