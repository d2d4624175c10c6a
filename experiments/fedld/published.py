"""The paper's test accuracies in percent; one number each, no seeds.

Zeng et al., Tackling Data Heterogeneity in Federated Learning via Loss Decomposition, MICCAI 2024, Tables 1 to 3:
Retina in three Dirichlet splits over 5 clients, COVID-FL by its 12 sites, Retina over 50 clients of which a tenth
takes part.
"""

from __future__ import annotations

SPLITS = ('Split-1', 'Split-2', 'Split-3')
PRINTED = 'Split-2 as printed'  # its concentration is; the split that was run may be another
SITES = 'COVID-FL'
TABLE1: dict[str, tuple[float, float, float, float]] = {
    'FedAvg': (83.63, 82.26, 81.13, 79.86),
    'FedProx': (84.17, 83.53, 81.20, 81.88),
    'FedBN': (83.91, 75.91, 65.25, 56.34),
    'FedPAC': (78.01, 71.64, 52.81, 81.63),
    'FedGH': (83.90, 83.33, 81.56, 82.26),
    'FedLD': (85.20, 83.83, 82.30, 83.87),
}
# (margin, principal): accuracies by split.
TABLE2: dict[tuple[bool, bool], tuple[float, float, float]] = {
    (False, False): (83.63, 82.26, 81.13),
    (False, True): (84.76, 82.67, 81.66),
    (True, False): (84.63, 83.5, 81.96),
    (True, True): (85.20, 83.83, 82.30),
}
TABLE3: dict[str, float] = {
    'FedAvg': 67.43,
    'FedProx': 69.87,
    'FedBN': 68.40,
    'FedPAC': 66.59,
    'FedGH': 70.33,
    'FedLD': 71.30,
}
