# SPDX-License-Identifier: GPL-2.0-only
"""The claims ledger: what three mails assert, computed.

``data/claims.toml`` has the claims: a statement in our own words, where it was made, and the value
it asserts.  Each has a *scenario* that computes the value, as one or more trials: one for each
setting that the mail leaves open (where the counter stood, the orders of probing and of requests,
which revision ran, how ties sort).  The verdict follows from the comparison alone:

* every trial gives the asserted value: *reproduced*;
* some do: *reproduced under stated assumptions*, namely theirs;
* none does: *contradicted*;
* nothing is asserted, since it is a question or a suggestion: *answered*;
* there is no trial, because a model cannot compute the value: *measured elsewhere*.

The scenarios are in modules by mail: `rotation` (the patch; `rule` for one sentence of it),
`thread` (what was measured and asked), `answers` (what was agreed and assumed), `cluster`, `mana`.
"""

from groupcpus.studies.claims import answers, cluster, mana, rotation, rule, thread
from groupcpus.studies.claims.ledger import VERDICTS, Claim, Result, check_claims, load_claims
from groupcpus.studies.claims.texts import (
    Ledger,
    claims_document,
    claims_table,
    claims_text,
    entries,
)
from groupcpus.studies.claims.trials import Outcome, Trial

__all__ = [
    "VERDICTS",
    "Claim",
    "Ledger",
    "Outcome",
    "Result",
    "Trial",
    "answers",
    "check_claims",
    "claims_document",
    "claims_table",
    "claims_text",
    "cluster",
    "entries",
    "load_claims",
    "mana",
    "rotation",
    "rule",
    "thread",
]
