"""The headlines of HarmoFL, each beside the recorded difference that decides it."""

from __future__ import annotations

from experiments.claims import Claim, Says
from experiments.harmofl.study import NETWORK

TISSUE, MONUSEG, BANDS, DRIFT = (
    'decide/causes.json', 'decide_segmentation/causes.json', 'decide/bands.json', 'decide/drift.json',
)  # fmt: skip
FEDAVG, FEDBN, ITS_NETWORK = 'against FedAvg', 'against FedBN', f'against {NETWORK}'
CODE = 'HarmoFL, released code'  # what the published numbers most probably are of

CLAIMS = (
    Claim(
        'HarmoFL classifies more accurately than FedAvg where hospitals differ in look.',
        'Camelyon17: 95.48 % against 83.71 % (Table 2)',
        TISSUE, FEDAVG, 'avg', CODE, Says.HIGHER,
    ),
    Claim(
        'HarmoFL classifies more accurately than FedBN, the best method before it.',
        'Camelyon17: 95.48 % against 87.33 % (Table 2)',
        TISSUE, FEDBN, 'avg', CODE, Says.HIGHER,
    ),
    Claim(
        'Hospitals differ less in accuracy with HarmoFL than with FedAvg.',
        'Camelyon17: deviation of 1.13 against 6.16 points (Table 2)',
        TISSUE, FEDAVG, 'spread', CODE, Says.LOWER,
    ),
    Claim(
        'HarmoFL finds nuclei better than FedAvg.',
        'nuclei: Dice of 74.42 % against 67.49 % (Table 1)',
        MONUSEG, FEDAVG, 'avg', CODE, Says.HIGHER,
    ),
    Claim(
        'Hospitals differ less in Dice with HarmoFL than with FedAvg.',
        'nuclei: deviation of 2.76 against 9.06 points (Table 1)',
        MONUSEG, FEDAVG, 'spread', CODE, Says.LOWER,
    ),
    Claim(
        'Replacing the whole amplitude spectrum makes one network more accurate.',
        'Eq. 4 and Figure 1; no number without weight perturbation',
        BANDS, ITS_NETWORK, 'avg', 'band full', Says.HIGHER,
    ),
    Claim(
        'Weight perturbation makes one network more accurate.',
        'Figure 5c: best at alpha = 0.05; no number without amplitude normalisation',
        TISSUE, ITS_NETWORK, 'avg', 'perturbation alone', Says.HIGHER,
    ),
    Claim(
        'Clients stray less from the global model with HarmoFL.',
        'Theorem 0.1 bounds the drift Gamma (Eq. 9); no number',
        DRIFT, ITS_NETWORK, 'drift', 'HarmoFL', Says.LOWER,
    ),
)  # fmt: skip
