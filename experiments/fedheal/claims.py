"""What FedHEAL claims, and the recorded differences that say something to it."""

from __future__ import annotations

from experiments.claims import Claim, Says
from experiments.fedheal.study import FEDAVG, FEDHEAL, MASKED, RESTARTED, UNIFORM

TABLE, EPOCHS, DISTANCES = 'decide/decide.json', 'decide_epochs/norms.json', 'decide/distances.json'
BESIDE_FEDAVG, BESIDE_UNIFORM, BESIDE_FEDHEAL = (f'beside {name}' for name in (FEDAVG, UNIFORM, FEDHEAL))

CLAIMS = (
    Claim(
        'FedHEAL raises the mean accuracy over domains',
        'Table 2, Digits: 76.00 -> 78.09',
        TABLE, BESIDE_FEDAVG, 'avg', FEDHEAL, Says.HIGHER,
    ),
    Claim(
        'FedHEAL makes domains more equal',
        'Table 2, Digits: STD 23.82 -> 22.08',
        TABLE, BESIDE_FEDAVG, 'spread', FEDHEAL, Says.LOWER,
    ),
    Claim(
        'FedHEAL raises the accuracy on the worst domain (here MNIST-M in the place of SYN)',
        'Table 2, Digits, SYN: 41.35 -> 46.45',
        TABLE, BESIDE_FEDAVG, 'site:mnist_m', FEDHEAL, Says.HIGHER,
    ),
    Claim(
        'FedHEAL has a higher mean than equal weights',
        'Sec. 1: equal weights emphasise small clients too much; no number',
        TABLE, BESIDE_UNIFORM, 'avg', FEDHEAL, Says.HIGHER,
    ),
    Claim(
        'Masks of inconsistent parameters (FPHL) alone raise the mean',
        'Table 5, Digits: 76.00 -> 77.05',
        TABLE, BESIDE_FEDAVG, 'avg', MASKED, Says.HIGHER,
    ),
    Claim(
        'AFL (restarted every round) has a lower mean than FedHEAL',
        'Table 2, Digits: 76.49 beside 78.09',
        TABLE, BESIDE_FEDHEAL, 'avg', RESTARTED, Says.LOWER,
    ),
    Claim(
        'FedHEAL makes the variance of distances to the global model smaller than weights by examples do',
        'Sec. 3.3.2, Eq. 10: the simplified method strives to minimise the variance; no number',
        DISTANCES, 'Eq. 10', 'variance', FEDHEAL, Says.LOWER,
    ),
    Claim(
        'With ten local epochs FedHEAL raises the mean accuracy over domains',
        'Table 2, Digits: 76.00 -> 78.09',
        EPOCHS, BESIDE_FEDAVG, 'avg', FEDHEAL, Says.HIGHER,
    ),
)  # fmt: skip
