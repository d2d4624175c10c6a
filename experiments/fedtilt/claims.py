"""The headline claims of FedTilt, and the recorded differences that decide them."""

from __future__ import annotations

from experiments.claims import Claim, Says

CLEAN, PIXELS, PROTOCOLS = 'decide/table2.json', 'decide/table3.json', 'decide/protocols.json'
CLAIMS = (
    Claim(
        'On clean data FedTilt is more accurate than FedAvg.',
        'F-MNIST 96.35 and 93.67 % (Table II)',
        CLEAN, 'classes', 'acc', 'FedTilt', Says.HIGHER,
    ),
    Claim(
        'On clean data FedTilt is more accurate than Ditto.',
        'F-MNIST 96.35 and 93.77 % (Table II)',
        CLEAN, 'clients, with Ditto', 'avg', 'FedTilt', Says.HIGHER,
    ),
    Claim(
        "On clean data FedTilt's clients are served more evenly than Ditto's.",
        'F-MNIST sigma 1.85 and 5.30 (Table II)',
        CLEAN, 'clients, with Ditto', 'spread', 'FedTilt', Says.LOWER,
    ),
    Claim(
        "On clean data the classes of a client are served more evenly by FedTilt than by Ditto.",
        'F-MNIST mu_sigma 7.61 and 10.89 (Table II)',
        CLEAN, 'classes, with Ditto', 'mu_sigma', 'FedTilt', Says.LOWER,
    ),
    Claim(
        'Ditto is not robust to persistent random corruptions.',
        'F-MNIST 93.77 % on clean and 34.83 % on corrupted data (Tables II and III)',
        PROTOCOLS, 'what it costs Ditto', 'avg', 'pixels', Says.LOWER,
    ),
    Claim(
        'Under persistent random corruptions FedTilt is more accurate than Ditto.',
        'F-MNIST 95.96 and 34.83 % (Table III)',
        PIXELS, 'clients, with Ditto', 'avg', 'FedTilt', Says.HIGHER,
    ),
    Claim(
        'A positive q makes clients more alike.',
        'Table I: client fairness is high for q > 0, medium for q = 0',
        'decide/q.json', 'global', 'sigma', '1', Says.LOWER,
    ),
    Claim(
        'Higher values of both lambda and tau give better results on clean data.',
        'F-MNIST (Figure 4)',
        'decide/figure4.json', 'personal models', 'acc', 'tau 50, lambda 50', Says.HIGHER,
    ),
)  # fmt: skip
