"""What the paper claims, and the differences of our deciding runs that say something to it."""

from __future__ import annotations

from experiments.claims import Claim, Says
from experiments.fedld.published import MANY

DECIDE, LARGE, LOSSES = 'decide/decide.json', 'decide/table3.json', 'decide/figure2.json'
UNEVEN = 'Dirichlet 0.5, batch norm'

CLAIMS = (
    Claim(
        'FedLD is more accurate than FedAvg where classes are unevenly dealt out (Dirichlet 0.5).',
        '82.30 beside 81.13 (Table 1, Split-3)',
        DECIDE, UNEVEN, 'avg', 'FedLD', Says.HIGHER,
    ),
    Claim(
        'FedLD is more accurate than FedGH, the best of the others there.',
        '82.30 beside 81.56 (Table 1, Split-3)',
        DECIDE, f'{UNEVEN}, beside FedGH', 'avg', 'FedLD', Says.HIGHER,
    ),
    Claim(
        "The same as the authors' code has it (Dirichlet 0.5): more accurate than FedAvg.",
        '82.30 beside 81.13 (Table 1, Split-3)',
        DECIDE, UNEVEN, 'avg', 'FedLD, code', Says.HIGHER,
    ),
    Claim(
        'Margin control alone makes FedAvg more accurate.',
        '81.96 beside 81.13 (Table 2, Split-3)',
        DECIDE, UNEVEN, 'avg', 'margin alone', Says.HIGHER,
    ),
    Claim(
        'Principal aggregation alone makes FedAvg more accurate.',
        '81.66 beside 81.13 (Table 2, Split-3)',
        DECIDE, UNEVEN, 'avg', 'principal alone', Says.HIGHER,
    ),
    Claim(
        'With 50 clients of which a tenth takes part FedLD is more accurate than FedAvg.',
        '71.30 beside 67.43 (Table 3)',
        LARGE, MANY, 'avg', 'FedLD', Says.HIGHER,
    ),
    Claim(
        'Margin control lowers the distribution shift term (Dirichlet 0.1).',
        'drawn, no numbers (Fig. 2, red)',
        LOSSES, 'shift with margin, round 20', 'alpha 0.1', 'margin', Says.LOWER,
    ),
    Claim(
        'Principal aggregation lowers the aggregation term, and so the loss of the global model (Dirichlet 0.1).',
        'drawn as an absolute value, no numbers (Fig. 2, blue)',
        LOSSES, 'aggregation with principal, round 20', 'alpha 0.1', 'principal', Says.LOWER,
    ),
)  # fmt: skip
