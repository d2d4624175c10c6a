"""The numbers of the paper, in percent: (mean, std over runs) of each client; the std of Avg. is over clients (ddof 1).

Jiang et al., HarmoFL: Harmonizing Local and Global Drifts in Federated Learning on Heterogeneous Medical Images, AAAI
2022, Tables 1 and 2.
"""

from __future__ import annotations

Row = tuple[tuple[float, float], ...]


def _rows(text: str) -> dict[str, Row]:
    """``name: means, then stds`` per line."""
    found = {}
    for line in text.strip().splitlines():
        name, _, numbers = line.partition(':')
        values = [float(n) for n in numbers.split()]
        half = len(values) // 2
        found[name.strip()] = tuple(zip(values[:half], values[half:], strict=True))
    return found


NUCLEI = _rows("""
    FedAvg: 73.44 73.06 72.52 68.91 67.33 49.69 67.49 0.02 0.24 0.85 0.34 0.86 0.34 9.06
    FedProx: 73.49 73.11 72.45 69.01 67.33 49.56 67.49 0.07 0.19 0.94 0.34 0.86 0.34 9.12
    FedNova: 73.40 73.01 71.50 69.23 67.46 50.68 67.55 0.05 0.38 1.35 0.34 1.07 0.34 8.57
    FedAdam: 73.53 72.91 71.74 69.26 66.69 49.72 67.31 0.08 0.24 1.33 0.50 1.18 0.11 8.98
    FedBN: 72.50 72.51 74.25 64.84 68.39 69.11 70.27 0.81 0.13 0.28 0.93 1.13 0.94 3.47
    MOON: 72.85 71.92 69.23 69.00 65.08 48.26 66.06 0.46 0.37 2.29 0.71 0.73 0.66 9.13
    HarmoFL: 74.98 75.21 76.63 76.59 73.94 69.20 74.42 0.36 0.57 0.20 0.77 0.13 1.23 2.76
""")
PROSTATE = _rows("""
    FedAvg: 90.04 94.31 92.60 92.21 90.14 89.36 91.44 1.27 0.28 0.66 0.71 0.27 1.76 1.91
    FedProx: 90.65 94.60 92.64 92.19 89.36 87.07 91.08 1.95 0.30 1.03 0.15 0.97 1.53 2.66
    FedNova: 90.73 94.26 92.73 91.91 90.01 89.94 91.60 0.41 0.08 1.29 0.61 0.87 1.54 1.70
    FedAdam: 90.02 94.84 93.30 91.70 90.17 87.77 91.30 0.29 0.11 0.79 0.16 1.46 1.35 2.53
    FedBN: 92.68 94.83 93.77 92.32 93.20 89.68 92.75 0.52 0.47 0.41 0.19 0.45 0.60 1.74
    MOON: 91.79 93.63 93.01 92.61 91.22 91.14 92.23 1.64 0.21 0.75 0.53 0.61 0.88 1.01
    HarmoFL: 94.06 95.26 nan 93.51 94.05 93.53 94.28 0.47 0.38 nan 0.79 0.50 1.02 0.80
""")  # one client of HarmoFL cannot be read in our copy of the paper
CAMELYON = _rows("""
    FedAvg: 91.10 83.12 82.06 87.49 74.78 83.71 0.46 1.58 8.52 2.49 3.19 6.16
    FedProx: 91.03 82.88 82.78 87.07 74.93 83.74 0.50 1.63 8.56 1.76 3.05 5.99
    FedNova: 90.99 82.97 82.40 86.93 74.86 83.61 0.54 1.76 9.21 1.58 3.12 6.00
    FedAdam: 87.45 80.38 76.89 89.27 77.86 82.37 0.77 2.03 14.03 1.28 2.68 5.65
    FedBN: 89.35 90.25 94.16 94.04 68.87 87.33 8.50 1.66 1.00 2.32 22.14 10.55
    MOON: 88.92 83.52 84.71 90.02 67.79 82.99 1.54 0.31 5.14 1.56 2.06 8.93
    HarmoFL: 96.17 93.60 95.54 95.58 96.50 95.48 0.56 0.67 0.32 0.27 0.46 1.13
""")
TABLES: dict[str, dict[str, dict[str, Row]]] = {
    '1': {'nuclei': NUCLEI, 'prostate': PROSTATE},
    '2': {'Camelyon17': CAMELYON},
}
