"""What the paper claims, and the differences of our deciding runs that say something to it."""

from __future__ import annotations

from experiments.claims import Claim, Place, Published, Says
from experiments.fedld.published import MANY, TABLE1, TABLE2, TABLE3

DECIDE, LARGE, LOSSES = 'decide/decide.json', 'decide/table3.json', 'decide/figure2.json'
UNEVEN, GROUP = 'Dirichlet 0.5, batch norm', 'Dirichlet 0.5, group norm'
SPLIT = 'Split-3'
LONGER = 'steps x 1.2 for FedAvg'


def table1(other: str) -> Published:
    """FedLD beside another method."""
    return Published('Table 1', {SPLIT: (TABLE1['FedLD'][2], TABLE1[other][2])})


def table2(margin: bool, principal: bool) -> Published:
    """A half of FedLD alone beside neither."""
    return Published('Table 2', {SPLIT: (TABLE2[margin, principal][2], TABLE2[False, False][2])})


def beside_fedavg(method: str) -> dict[str, Place]:
    """Without the statistics of batches, which averaging may spoil."""
    return {'group norm': Place(DECIDE, GROUP, 'avg', method)}


def step(method: str) -> dict[str, Place]:
    """Beside steps of another length, which principal aggregation takes too."""
    return {LONGER: Place(DECIDE, f'{UNEVEN}, beside FedAvg, step x 1.2', 'avg', method)}


def loss(term: str, way: str) -> dict[str, Place]:
    """The same in an earlier round."""
    return {'round 5': Place(LOSSES, f'{term} with {way}, round 5', 'alpha 0.1', way)}


CLAIMS = (
    Claim(
        'FedLD is more accurate than FedAvg where classes are unevenly dealt out (Dirichlet 0.5).',
        table1('FedAvg'),
        Place(DECIDE, UNEVEN, 'avg', 'FedLD'), Says.HIGHER, beside_fedavg('FedLD') | step('FedLD'),
    ),
    Claim(
        'FedLD is more accurate than FedGH, the best of the others there.',
        table1('FedGH'),
        Place(DECIDE, f'{UNEVEN}, beside FedGH', 'avg', 'FedLD'), Says.HIGHER,
        {'group norm': Place(DECIDE, f'{GROUP}, beside FedGH', 'avg', 'FedLD')},
    ),
    Claim(
        "The same as the authors' code has it (Dirichlet 0.5): more accurate than FedAvg.",
        table1('FedAvg'),
        Place(DECIDE, UNEVEN, 'avg', 'FedLD, code'), Says.HIGHER, beside_fedavg('FedLD, code'),
    ),
    Claim(
        'Margin control alone makes FedAvg more accurate.',
        table2(margin=True, principal=False),
        Place(DECIDE, UNEVEN, 'avg', 'margin alone'), Says.HIGHER, beside_fedavg('margin alone'),
    ),
    Claim(
        'Principal aggregation alone makes FedAvg more accurate.',
        table2(margin=False, principal=True),
        Place(DECIDE, UNEVEN, 'avg', 'principal alone'), Says.HIGHER,
        beside_fedavg('principal alone')
        | {'eigenvalues by the sum of all': Place(DECIDE, UNEVEN, 'avg', 'principal, sum of all')}
        | step('principal alone'),
    ),
    Claim(
        'With 50 clients of which a tenth takes part FedLD is more accurate than FedAvg.',
        Published('Table 3', {MANY: (TABLE3['FedLD'], TABLE3['FedAvg'])}),
        Place(LARGE, MANY, 'avg', 'FedLD'), Says.HIGHER,
        {
            'group norm': Place(LARGE, f'{MANY}, group norm', 'avg', 'FedLD'),
            "the reading of the authors' code": Place(LARGE, MANY, 'avg', 'FedLD, code'),
        },
    ),
    Claim(
        'Margin control lowers the distribution shift term (Dirichlet 0.1, round 20).',
        Published('drawn, no numbers (Fig. 2, red)'),
        Place(LOSSES, 'shift with margin, round 20', 'alpha 0.1', 'margin'), Says.LOWER, loss('shift', 'margin'),
    ),
    Claim(
        'Principal aggregation lowers the aggregation term, and so the loss of the global model (Dirichlet 0.1, '
        'round 20).',
        Published('drawn as an absolute value, no numbers (Fig. 2, blue)'),
        Place(LOSSES, 'aggregation with principal, round 20', 'alpha 0.1', 'principal'), Says.LOWER,
        loss('aggregation', 'principal'),
    ),
)  # fmt: skip
