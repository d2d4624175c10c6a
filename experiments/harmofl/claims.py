"""The headlines of HarmoFL, each beside the recorded differences that decide it."""

from __future__ import annotations

from experiments.claims import Claim, Place, Published, Says
from experiments.harmofl.published import CAMELYON, NUCLEI
from experiments.harmofl.study import NETWORK

TISSUE, MONUSEG, BANDS, DRIFT = (
    'decide/causes.json', 'decide_segmentation/causes.json', 'decide/bands.json', 'decide/drift.json',
)  # fmt: skip
FEDAVG, FEDBN, ITS_NETWORK = 'against FedAvg', 'against FedBN', f'against {NETWORK}'
CODE, PAPER = 'HarmoFL, released code', 'HarmoFL'  # the published numbers most probably are of the former


def average(other: str) -> Published:
    """HarmoFL's mean over hospitals beside that of another method."""
    return Published('Table 2', {'Camelyon17': (CAMELYON['HarmoFL'][-1][0], CAMELYON[other][-1][0])})


def readings(record: str, entry: str, measure: str) -> dict[str, Place]:
    """A baseline whose network is HarmoFL's, without which batch norm differs too, and the paper's reading."""
    return {
        'the same network for FedAvg': Place(record, ITS_NETWORK, measure, CODE),
        "the paper's reading": Place(record, entry, measure, PAPER),
    }


CLAIMS = (
    Claim(
        'HarmoFL (released code, with another batch norm than FedAvg) classifies more accurately than FedAvg where '
        'hospitals differ in look.',
        average('FedAvg'),
        Place(TISSUE, FEDAVG, 'avg', CODE), Says.HIGHER, readings(TISSUE, FEDAVG, 'avg'),
    ),
    Claim(
        'HarmoFL (released code, with another batch norm than FedBN) classifies more accurately than FedBN, the best '
        'method before it.',
        average('FedBN'),
        Place(TISSUE, FEDBN, 'avg', CODE), Says.HIGHER, readings(TISSUE, FEDBN, 'avg'),
    ),
    Claim(
        'Hospitals differ less in accuracy with HarmoFL (released code, with another batch norm) than with FedAvg.',
        Published('Table 2', {'Camelyon17, deviation': (CAMELYON['HarmoFL'][-1][1], CAMELYON['FedAvg'][-1][1])}),
        Place(TISSUE, FEDAVG, 'spread', CODE), Says.LOWER, readings(TISSUE, FEDAVG, 'spread'),
    ),
    Claim(
        'HarmoFL (released code) classifies more accurately than FedAvg with the same network.',
        Published("no number: the paper's baselines have another batch norm than HarmoFL"),
        Place(TISSUE, ITS_NETWORK, 'avg', CODE), Says.HIGHER,
        {"the paper's reading": Place(TISSUE, ITS_NETWORK, 'avg', PAPER)},
    ),
    Claim(
        'HarmoFL (released code, with another batch norm than FedAvg) finds nuclei better than FedAvg.',
        Published('Table 1', {'nuclei, Dice': (NUCLEI['HarmoFL'][-1][0], NUCLEI['FedAvg'][-1][0])}),
        Place(MONUSEG, FEDAVG, 'avg', CODE), Says.HIGHER, readings(MONUSEG, FEDAVG, 'avg'),
    ),
    Claim(
        "Replacing the whole amplitude spectrum (the paper's reading) makes one network more accurate.",
        Published('Eq. 4 and Figure 1; no number without weight perturbation'),
        Place(BANDS, ITS_NETWORK, 'avg', 'band full'), Says.HIGHER,
        {'the mean alone (released code)': Place(TISSUE, ITS_NETWORK, 'avg', 'mean alone')},
    ),
    Claim(
        'Weight perturbation (the same in both readings) makes one network more accurate.',
        Published('Figure 5c: best at alpha = 0.05; no number without amplitude normalisation'),
        Place(TISSUE, ITS_NETWORK, 'avg', 'perturbation alone'), Says.HIGHER,
        {'nuclei in the place of tissue': Place(MONUSEG, ITS_NETWORK, 'avg', 'perturbation alone')},
    ),
    Claim(
        "Clients stray less from the global model with HarmoFL (the paper's reading) than with FedAvg and the same "
        'network.',
        Published('Theorem 0.1 bounds the drift Gamma (Eq. 9); no number'),
        Place(DRIFT, ITS_NETWORK, 'drift', PAPER), Says.LOWER,
        {'the reading of the released code': Place(DRIFT, ITS_NETWORK, 'drift', CODE)},
    ),
)  # fmt: skip
