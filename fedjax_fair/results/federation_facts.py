"""What summary.json says of the data: how large test sets are, what guessing scores, and which patients are divided."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedjax_fair.data.federation import Federation
from fedjax_fair.data.problems import patients_of_several
from fedjax_fair.metrics import chance_levels


def federation_facts(federation: Federation, score: str) -> dict[str, Any]:
    """Test sets, chance levels and problems of a federation, ready for JSON.

    ``tests`` has the names of the test sets, their numbers of ``examples``, and of ``patients`` where these are known.
    ``split`` has the ``options`` of the scheme that dealt the examples to clients, and says whether test examples were
    drawn at random (``tests_drawn``); None where the scenario or a file says who holds what.
    ``class_names`` is empty where the source has none.
    ``chance`` is what :func:`~fedjax_fair.metrics.chance_levels` gives.
    """
    tests, groups, group_of = federation.tests, federation.groups, federation.group_of
    return {
        'split': _split(federation),
        'tests': {
            'names': list(tests.names),
            'examples': [int(n) for n in np.asarray(tests.mask).sum(1)],
            'patients': _patients(federation),
        },
        'class_names': list(federation.class_names),
        'chance': chance_levels(score, tests.y, tests.mask, tests.test_of, groups, group_of),
        'problems': [problem.sentence for problem in patients_of_several(federation)],
    }


def _split(federation: Federation) -> dict[str, Any] | None:
    """How the examples were dealt out."""
    dealt = federation.partition
    if dealt is None or dealt.split is None:
        return None
    return {'options': dict(dealt.split), 'tests_drawn': dealt.tests_drawn}


def _patients(federation: Federation) -> list[int] | None:
    """The number of patients of every test set."""
    if federation.test_patient_of is None:
        return None
    rows = zip(federation.test_patient_of, np.asarray(federation.tests.mask), strict=True)
    return [len(np.unique(row[real])) for row, real in rows]
