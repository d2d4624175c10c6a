"""The headline claims of FedTilt, and the recorded differences that decide them."""

from __future__ import annotations

from experiments.claims import Claim, Place, Published, Says
from experiments.fedtilt.published import FASHION, NUMBERS
from experiments.fedtilt.study import COLUMNS, CONDITIONS, TITLES, WITH_DITTO, WITH_GLOBAL

TABLES = dict(zip(CONDITIONS, ('Table II', 'Table III', 'Table VII'), strict=True))
RECORDS = {table: f'decide/table{table}.json' for table in CONDITIONS}
PROTOCOLS, TILTS, SWEEP, Q = (f'decide/{name}.json' for name in ('protocols', 'figure4', 'mu', 'q'))


def beside(method: str, column: str, table: str = '2') -> Published:
    """What the paper prints of FedTilt beside another method."""
    rows, place = NUMBERS[table][FASHION], COLUMNS.index(column)
    return Published(TABLES[table], {f'F-MNIST, {column}': (rows['FedTilt'][place], rows[method][place])})


def on_clean_data(column: str, entry: str = 'classes') -> dict[str, Place]:
    """What the paper does not say of its training, and other tilts: without any, FedTilt is Ditto."""
    return {
        'momentum 0.5': Place(PROTOCOLS, f'clean, momentum 0.5, {entry}', column, 'FedTilt'),
        'fixed pairs of classes': Place(PROTOCOLS, f'clean, fixed pairs, {entry}', column, 'FedTilt'),
        'tilts of 1 beside none': Place(TILTS, 'personal models', column, 'tau 1, lambda 1'),
    }


def beside_ditto(column: str) -> dict[str, Place]:
    """The same, and mu chosen for both methods."""
    chosen = Place(SWEEP, f'chosen, {TITLES["2"]}', column, 'FedTilt')
    return {**on_clean_data(column, WITH_DITTO), 'mu of both chosen': chosen}


CLAIMS = (
    Claim(
        "On clean data FedTilt's personal models are more accurate than FedAvg's global model after local training.",
        beside('FedAvg', 'acc'),
        Place(RECORDS['2'], 'classes', 'acc', 'FedTilt'), Says.HIGHER,
        {
            "FedAvg's global model as it is": Place(RECORDS['2'], WITH_GLOBAL, 'acc', 'FedTilt'),
            **on_clean_data('acc'),
        },
    ),
    Claim(
        "On clean data FedTilt's personal models are more accurate than Ditto's.",
        beside('Ditto', 'acc'),
        Place(RECORDS['2'], WITH_DITTO, 'acc', 'FedTilt'), Says.HIGHER, beside_ditto('acc'),
    ),
    Claim(
        "On clean data FedTilt's clients are served more evenly than Ditto's (personal models).",
        beside('Ditto', 'sigma'),
        Place(RECORDS['2'], WITH_DITTO, 'sigma', 'FedTilt'), Says.LOWER, beside_ditto('sigma'),
    ),
    Claim(
        'On clean data the classes of a client are served more evenly by FedTilt than by Ditto (personal models).',
        beside('Ditto', 'mu_sigma'),
        Place(RECORDS['2'], WITH_DITTO, 'mu_sigma', 'FedTilt'), Says.LOWER, beside_ditto('mu_sigma'),
    ),
    Claim(
        "Ditto's personal models are not robust to persistent random corruptions.",
        Published(
            'corrupted beside clean data, Tables III and II',
            {'F-MNIST, acc': (NUMBERS['3'][FASHION]['Ditto'][0], NUMBERS['2'][FASHION]['Ditto'][0])},
        ),
        Place(PROTOCOLS, 'what it costs Ditto, classes', 'acc', 'pixels'), Says.LOWER,
        {'outliers that pile up': Place(PROTOCOLS, 'what it costs Ditto, classes', 'acc', 'pixels, cumulative')},
    ),
    Claim(
        "Under persistent random corruptions FedTilt's personal models are more accurate than Ditto's.",
        beside('Ditto', 'acc', '3'),
        Place(RECORDS['3'], WITH_DITTO, 'acc', 'FedTilt'), Says.HIGHER,
        {
            'outliers that pile up': Place(PROTOCOLS, f'pixels, cumulative, {WITH_DITTO}', 'acc', 'FedTilt'),
            'momentum 0.5': Place(PROTOCOLS, f'pixels, momentum 0.5, {WITH_DITTO}', 'acc', 'FedTilt'),
            'mu of both chosen': Place(SWEEP, f'chosen, {TITLES["3"]}', 'acc', 'FedTilt'),
        },
    ),
    Claim(
        'A positive q (1 beside 0) makes clients more alike under the global model.',
        Published('Table I: client fairness is high for q > 0, medium for q = 0'),
        Place(Q, 'global', 'sigma', '1'), Says.LOWER,
        {'q of 10': Place(Q, 'global', 'sigma', '10')},
    ),
    Claim(
        'Higher values of both lambda and tau (50 beside 0) make personal models more accurate on clean data.',
        Published('Figure 4, F-MNIST; drawn, no numbers'),
        Place(TILTS, 'personal models', 'acc', 'tau 50, lambda 50'), Says.HIGHER,
        {'1 in the place of 50': Place(TILTS, 'personal models', 'acc', 'tau 1, lambda 1')},
    ),
)  # fmt: skip
