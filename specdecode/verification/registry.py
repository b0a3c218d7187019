"""The rules by name: a new rule is one file and one line here."""

from __future__ import annotations

from typing import Final

from specdecode.verification.block import block_verification
from specdecode.verification.greedy_block import greedy_block_verification
from specdecode.verification.match import sample_and_match
from specdecode.verification.token import token_verification
from specdecode.verification.types import VerificationRule

RULES: Final[dict[str, VerificationRule]] = {
    "token": token_verification,
    "block": block_verification,
    "greedy-block": greedy_block_verification,
    "match": sample_and_match,
}
