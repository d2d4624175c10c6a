"""What FedHEAL claims, and the recorded differences that say something to it."""

from __future__ import annotations

from experiments.claims import WORST_SITE, Claim, Place, Published, Says
from experiments.fedheal.published import DIGITS, rows_of
from experiments.fedheal.study import FEDAVG, FEDHEAL, MASKED, PRINTED, RESTARTED, UNIFORM

TABLE, EPOCHS, DISTANCES = 'decide/decide.json', 'decide_epochs/norms.json', 'decide/distances.json'
BESIDE_FEDAVG, BESIDE_UNIFORM, BESIDE_FEDHEAL = (f'beside {name}' for name in (FEDAVG, UNIFORM, FEDHEAL))
BATCH_NORM = ', batch norm'
SYN, AVG, STD = 3, 4, 5  # columns of a published row


def table2(column: int, method: str = FEDHEAL, other: str = FEDAVG, table: str = 'Table 2') -> Published:
    """Two published rows in one column."""
    rows = rows_of(DIGITS)
    return Published(table, {'Digits': (rows[method][column], rows[other][column])})


def batch_norm(measure: str) -> dict[str, Place]:
    """The norm of the paper's network, whose parameters are masked too."""
    place = Place(EPOCHS, f'{BESIDE_FEDAVG}{BATCH_NORM}', measure, f'{FEDHEAL}{BATCH_NORM}')
    return {'ten local epochs and batch norm': place}


def beside_fedavg(measure: str) -> dict[str, Place]:
    """The other reading, the published number of local epochs, and the norm of the paper's network."""
    return {
        'the equations as printed': Place(TABLE, BESIDE_FEDAVG, measure, PRINTED),
        'ten local epochs': Place(EPOCHS, BESIDE_FEDAVG, measure, FEDHEAL),
        **batch_norm(measure),
    }


CLAIMS = (
    Claim(
        'FedHEAL raises the mean accuracy over domains',
        table2(AVG),
        Place(TABLE, BESIDE_FEDAVG, 'avg', FEDHEAL), Says.HIGHER, beside_fedavg('avg'),
    ),
    Claim(
        'FedHEAL makes domains more equal',
        table2(STD),
        Place(TABLE, BESIDE_FEDAVG, 'spread', FEDHEAL), Says.LOWER, beside_fedavg('spread'),
    ),
    Claim(
        'FedHEAL raises the accuracy on the domain on which FedAvg is worst (SYN in the paper)',
        table2(SYN),
        Place(TABLE, BESIDE_FEDAVG, WORST_SITE, FEDHEAL), Says.HIGHER, beside_fedavg(WORST_SITE),
    ),
    Claim(
        'FedHEAL has a higher mean than equal weights',
        Published('Sec. 1: equal weights emphasise small clients too much; no number'),
        Place(TABLE, BESIDE_UNIFORM, 'avg', FEDHEAL), Says.HIGHER,
        {'ten local epochs': Place(EPOCHS, BESIDE_UNIFORM, 'avg', FEDHEAL)},
    ),
    Claim(
        'Masks of inconsistent parameters (FPHL) alone raise the mean',
        table2(AVG, 'FPHL', table='Table 5'),
        Place(TABLE, BESIDE_FEDAVG, 'avg', MASKED), Says.HIGHER,
    ),
    Claim(
        'AFL (restarted every round) has a lower mean than FedHEAL',
        table2(AVG, 'FedAvg+AFL', FEDHEAL),
        Place(TABLE, BESIDE_FEDHEAL, 'avg', RESTARTED), Says.LOWER,
    ),
    Claim(
        'FedHEAL makes the variance of distances to the global model smaller than weights by examples do',
        Published('Sec. 3.3.2, Eq. 10: the simplified method strives to minimise the variance; no number'),
        Place(DISTANCES, 'Eq. 10', 'variance', FEDHEAL), Says.LOWER,
        {'the equations as printed': Place(DISTANCES, 'Eq. 10', 'variance', PRINTED)},
    ),
    Claim(
        'With ten local epochs FedHEAL raises the mean accuracy over domains',
        table2(AVG),
        Place(EPOCHS, BESIDE_FEDAVG, 'avg', FEDHEAL), Says.HIGHER, batch_norm('avg'),
    ),
)  # fmt: skip
