"""The numbers of the paper, in percent: (mean, std over runs) of each client; the std of Avg. is over clients (ddof 1).

Jiang et al., HarmoFL: Harmonizing Local and Global Drifts in Federated Learning on Heterogeneous Medical Images, AAAI
2022, Tables 1 and 2; ``SETTINGS`` are those of its section Dataset and Experimental Settings, and of the authors'
public code (github.com/med-air/HarmoFL, files as named).
"""

from __future__ import annotations

from experiments.published import Setting

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

PAPER, CODE = 'Dataset and Experimental Settings', 'public code, federated/fed_train.py'
NOT_USED = 'no other setting chooses the reported evaluation'
BYTES = '|'.join(['0.00392156862745098'] * 3)  # 1 / 255, so that networks see 0 to 255

# What the three tasks have in common.
COMMON = {
    'norm': Setting(
        'stateless', 'public code, nets/models.py', 'batch',
        'the baselines keep ordinary batch normalisation, without which FedBN is FedAvg; HarmoFL and its parts run '
        'with norm=stateless',
    ),
    'pretrained': Setting('', 'public code, nets/models.py'),
    'local_epochs': Setting(1, PAPER),
    'lr_decay': Setting(1.0, CODE),
    'weight_decay': Setting(0.0001, PAPER),
    'keep_optimizer': Setting(True, CODE),
    'split_by': Setting('site', PAPER),
    'participation': Setting(1.0, 'Algorithm 1'),
    'seeds': Setting((0, 1, 2), 'Experiments: three repeating runs; the code has 0 as its default'),
    'validation': Setting(0.2, CODE),
    'select': Setting('best_validation', PAPER),
    'eval_every': Setting(1, CODE),
    'last_k': Setting(None, PAPER, None, NOT_USED),
    'harmofl.alpha': Setting(0.05, PAPER),
    'harmofl.decay': Setting(0.1, PAPER),
    'harmofl_release.alpha': Setting(0.05, PAPER),
}  # fmt: skip
SGD = {
    'local_optimizer': Setting('sgd', PAPER),
    'momentum': Setting(0.9, PAPER),
}
OF_PIXELS = {
    'score': Setting('dice_with_background', 'public code, utils/loss.py'),
    'model': Setting('unet', PAPER),
    'eval_batch_size': Setting(16, 'public code, train.sh'),
}
SETTINGS = {
    'paper': {
        **COMMON,
        **SGD,
        'scenario': Setting(
            'Camelyon17, lists of patches in data.pkl', 'public code, utils/dataset.py',
            'camelyon17:$DATA/camelyon17',
            'the lists are not public: a fifth of the patches of every hospital is drawn for testing, by whole slides',
        ),
        'truncate': Setting(True, PAPER),
        'num_clients': Setting(5, PAPER, None, 'the clients are the sites in the data, five'),
        'image_size': Setting(96, CODE),
        'model': Setting('densenet121', PAPER),
        'model_options': Setting({'pad': 2}, 'public code, nets/models.py'),
        'normalize': Setting('', 'public code, utils/dataset.py'),
        'augment': Setting('', 'public code, utils/dataset.py'),
        'rounds': Setting(100, PAPER),
        'batch_size': Setting(128, CODE),
        'lr': Setting(0.001, PAPER),
        'eval_batch_size': Setting(128, CODE),
    },
    'paper_segmentation': {
        **COMMON,
        **SGD,
        **OF_PIXELS,
        'scenario': Setting(
            'four hospitals of MoNuSAC2020, MoNuSAC2018 (MoNuSeg), TNBC', PAPER, 'csv:$DATA/nuclei/nuclei.csv',
            'the paper does not name the four hospitals: the table has the three of most images and all others as one',
        ),
        'task': Setting('segmentation', PAPER),
        'num_clients': Setting(6, PAPER, None, 'the clients are the sites in the data, six'),
        'image_size': Setting(None, PAPER, 256, 'images differ in size; the published code has no nuclei'),
        'normalize': Setting(None, PAPER, '', 'as for the other histology task'),
        'augment': Setting(None, PAPER, '', 'as for the other histology task'),
        'validation': Setting(None, PAPER, 0.2, 'as for the other two tasks'),
        'loss': Setting('dice_batch', PAPER + ', Dice as in the public code, utils/loss.py'),
        'rounds': Setting(500, PAPER),
        'batch_size': Setting(None, PAPER, 16, 'as for the other segmentation task'),
        'lr': Setting(0.0001, PAPER),
    },
    'paper_prostate': {
        **COMMON,
        **OF_PIXELS,
        'scenario': Setting(
            'six hospitals, split by slices as listed beside them', 'public code, utils/dataset.py',
            'prostate:$DATA/prostate',
            'by slices a patient is both trained on and tested; here patients are drawn, to the same 64/16/20 % '
            '(source_options=split=slice has the published test slices)',
        ),
        'truncate': Setting(True, PAPER),
        'num_clients': Setting(6, PAPER, None, 'the clients are the sites in the data, six'),
        'image_size': Setting(384, CODE),
        'normalize': Setting(f'0|0|0/{BYTES}', 'public code, utils/dataset.py: 0 to 255, not rescaled'),
        'augment': Setting(
            'rot90 by 0, 0, 1, 2 or 3 turns, then none, one or both mirrorings', 'public code, utils/dataset.py',
            'symmetries', 'the same eight images; the published draw favours the four without a quarter turn, 3 to 2',
        ),
        'loss': Setting('joint_batch', 'public code, utils/loss.py'),
        'rounds': Setting(500, CODE + '; the paper does not tell'),
        'batch_size': Setting(16, 'public code, train.sh'),
        'local_optimizer': Setting('adam', PAPER),
        'lr': Setting(0.0001, PAPER),
        'adam_b1': Setting(0.9, PAPER),
        'adam_b2': Setting(0.99, PAPER),
        'momentum': Setting(0.9, PAPER, 0.0, 'of Adam it is adam_b1; momentum is a setting of sgd'),
    },
}  # fmt: skip
