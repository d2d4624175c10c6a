"""The paper's numbers in percent, and its settings beside those of our presets.

Chen et al., Fair Federated Learning under Domain Skew with Local Consistency and Domain Diversity, CVPR 2024, Tables 2
to 5. Every row: accuracy on the four domains, their mean, their sample standard deviation.
"""

from __future__ import annotations

import math

from experiments.published import Setting, Settings

Row = tuple[float, ...]

DIGITS, OFFICE = 'Digits', 'Office-Caltech'
DOMAINS = {DIGITS: ('MNIST', 'USPS', 'SVHN', 'SYN'), OFFICE: ('Amazon', 'DSLR', 'Caltech', 'Webcam')}
TAU = {DIGITS: 0.3, OFFICE: 0.4}  # Sec. 4.2
PLUGINS = ('', '+AFL', '+q-FFL', '+FedHEAL')
UNREADABLE = math.nan

# Table 2: [data][base], a row for each of PLUGINS.
TABLE2: dict[str, dict[str, tuple[Row, ...]]] = {
    DIGITS: {
        'FedAvg': (
            (89.84, 93.25, 79.54, 41.35, 76.00, 23.82),
            (90.59, 95.83, 75.13, 44.42, 76.49, 23.12),
            (91.44, 94.10, 76.33, 44.48, 76.59, 22.79),
            (90.27, 95.69, 79.94, 46.45, 78.09, 22.08),
        ),
        'FedProx': (
            (90.27, 93.93, 80.04, 42.82, 76.76, 23.38),
            (92.86, 96.17, 74.47, 42.22, 76.43, 24.72),
            (88.58, 93.49, 75.58, 44.23, 75.47, 22.15),
            (89.06, 95.52, 79.44, 46.67, 77.67, 21.70),
        ),
        'Scaffold': (
            (94.15, 94.44, 76.87, 44.22, 77.42, 23.61),
            (91.77, 96.05, 78.60, 46.39, 78.20, 22.47),
            (87.73, 94.59, 74.00, 43.76, 75.02, 22.53),
            (92.68, 96.25, 78.54, 47.72, 78.80, 22.08),
        ),
        'MOON': (
            (90.46, 92.65, 80.48, 40.58, 76.04, 24.23),
            (91.25, 96.03, 75.31, 44.34, 76.73, 23.34),
            (90.43, 94.84, 76.48, 43.95, 76.42, 23.02),
            (91.34, 94.94, 81.32, 44.96, 78.14, 22.86),
        ),
        'FedDyn': (
            (91.23, 92.36, 80.15, 41.55, 76.32, 23.83),
            (92.11, 96.10, 71.46, 41.52, 75.30, 24.97),
            (92.53, 95.17, 76.37, 44.75, 77.20, 23.18),
            (89.87, 95.00, 80.18, 44.23, 77.32, 22.90),
        ),
        'FedProc': (
            (91.86, 91.16, 78.54, 39.87, 75.36, 24.44),
            (87.85, 94.28, 78.52, 41.54, 75.55, 23.58),
            (92.09, 92.09, 74.97, 45.21, 76.15, 22.17),
            (94.23, 92.93, 81.43, 48.67, 79.31, 21.22),
        ),
        'FedProto': (
            (89.99, 92.90, 81.09, 40.93, 76.23, 24.06),
            (85.27, 92.90, 67.16, 42.36, 71.92, 22.47),
            (93.35, 94.92, 77.08, 46.31, 77.91, 22.56),
            (88.49, 94.62, 81.39, 48.46, 78.24, 20.58),
        ),
    },
    OFFICE: {
        'FedAvg': (
            (72.63, 56.67, 58.57, 45.52, 58.35, 11.13),
            (64.21, 65.37, 57.50, 48.28, 58.83, 7.84),
            (60.00, 64.01, 53.39, 51.72, 57.28, 5.73),
            (67.90, 66.00, 59.28, 66.21, 64.85, 3.80),
        ),
        'FedProx': (
            (69.90, 58.00, 60.27, 45.52, 58.42, 10.03),
            (68.10, 62.67, 59.29, 52.41, 60.62, 6.57),
            (61.37, 72.66, 54.91, 55.52, 61.11, 8.23),
            (66.11, 72.67, 57.50, 67.59, 65.97, 6.30),
        ),
        'Scaffold': (
            (69.37, 59.33, 59.55, 46.21, 58.62, 9.50),
            (66.42, 63.33, 59.11, 49.31, 59.54, 7.45),
            (61.79, 73.33, 55.18, 55.86, 61.54, 8.40),
            (64.11, 67.99, 55.18, 62.41, 62.42, 5.37),
        ),
        'MOON': (
            (74.00, 59.33, 60.63, 46.90, 60.21, 11.08),
            (66.74, 67.33, 60.80, 55.17, 62.51, 5.71),
            (64.32, 65.33, 54.28, 61.03, 61.24, 4.99),
            (67.68, 65.33, 59.11, 64.14, 64.07, 3.62),
        ),
        'FedDyn': (
            (71.16, 62.00, 59.20, 48.62, 60.24, 9.28),
            (70.10, 58.67, 59.82, 51.03, 59.91, 7.84),
            (62.10, 67.33, 54.82, 56.21, 60.12, 5.76),
            (67.47, 60.66, 59.02, 54.83, 60.50, 5.26),
        ),
        'FedProc': (
            (60.21, 46.00, 55.98, 46.90, 52.27, 6.95),
            (52.63, 52.67, 55.09, 43.45, 50.96, 5.14),
            (65.79, 42.01, 55.80, 50.69, 53.57, 9.94),
            (67.58, 66.00, 56.79, 61.38, 62.94, 4.87),
        ),
        'FedProto': (
            (71.48, 42.67, 62.23, 60.34, 59.18, 12.04),
            (70.74, 56.67, 57.77, 79.65, 66.21, 11.01),
            (72.74, 54.67, 64.20, 82.76, 68.59, 11.99),
            (75.68, 76.00, 65.18, 80.34, 74.30, 6.44),
        ),
    },
}
# Table 3: [data][method]; of the office's rows only a part is in the text we have.
TABLE3: dict[str, dict[str, Row]] = {
    DIGITS: {
        'Ditto': (90.59, 92.98, 79.20, 41.89, 76.16, 23.62),
        'FedFV': (91.76, 94.70, 77.26, 44.14, 76.97, 23.17),
        'FedHEAL': (90.27, 95.69, 79.94, 46.45, 78.09, 22.08),
    },
    OFFICE: {
        'Ditto': (58.00, 70.00, UNREADABLE, UNREADABLE, 61.92, 6.20),
        'FedFV': (UNREADABLE,) * 6,
        'FedHEAL': (67.90, 66.00, 59.28, 66.21, 64.85, 3.80),
    },
}
# Table 4: AVG and STD of the client weights alone on Digits, by beta.
TABLE4: dict[float, tuple[float, float]] = {
    0.0: (76.00, 23.82),
    0.2: (76.88, 22.70),
    0.4: (77.20, 22.64),
    0.6: (76.83, 22.83),
    0.8: (76.96, 22.71),
    1.0: (77.13, 22.70),
}
# Table 5: [data][parts].
TABLE5: dict[str, dict[str, Row]] = {
    DIGITS: {
        'neither': (89.84, 93.25, 79.54, 41.35, 76.00, 23.82),
        'FPHL': (92.19, 95.32, 76.32, 44.37, 77.05, 23.32),
        'FAEL': (90.05, 95.16, 78.76, 44.83, 77.20, 22.64),
        'both': (90.27, 95.69, 79.94, 46.45, 78.09, 22.08),
    },
    OFFICE: {
        'neither': (72.63, 56.67, 58.57, 45.52, 58.35, 11.13),
        'FPHL': (68.42, 66.00, 57.95, 66.55, 64.73, 4.64),
        'FAEL': (66.73, 63.33, 57.59, 53.10, 60.19, 6.05),
        'both': (67.90, 66.00, 59.28, 66.21, 64.85, 3.80),
    },
}


def rows_of(data: str) -> dict[str, Row]:
    """The rows of Tables 2, 3 and 5 by method."""
    joined = {
        base + plugin: row for base, rows in TABLE2[data].items() for plugin, row in zip(PLUGINS, rows, strict=True)
    }
    return {**joined, **TABLE3[data], **TABLE5[data]}


CODE = 'yuhangchen0/FedHEAL'
STUDIED = 'Sec. 4.2, Hyper-parameter Study'
DETAILS, DATASETS, MODEL, METRICS = (
    f'Sec. 4.1, {part}' for part in ('Implementation Details', 'Datasets', 'Model', 'Evaluation Metrics')
)
SHARED = {
    'model': Setting('resnet10', MODEL),
    'norm': Setting('batch', f'{CODE}, backbone/ResNet.py'),
    'pretrained': Setting('', f'{CODE}, backbone/ResNet.py: random weights'),
    'normalize': Setting('imagenet', f'{CODE}, datasets/digits.py and officecaltech.py: Normalize'),
    'clients_per_domain': Setting(5, DATASETS),
    'participation': Setting(1.0, f'{CODE}, utils/args.py: online_ratio'),
    'rounds': Setting(200, DETAILS),
    'local_epochs': Setting(10, DETAILS),
    'local_optimizer': Setting('sgd', DETAILS),
    'lr': Setting(0.001, DETAILS),
    'lr_decay': Setting(1.0, f'{CODE}, models/fedavg.py: no schedule'),
    'momentum': Setting(0.9, DETAILS),
    'weight_decay': Setting(0.00001, DETAILS),
    'keep_optimizer': Setting(False, f'{CODE}, models/fedavg.py: a new optimiser in every round'),
    'seeds': Setting((0,), f'{CODE}, utils/args.py; the paper fixes a seed (Sec. 4.1, Datasets)'),
    'validation': Setting(0.0, f'{CODE}, datasets/utils/federated_dataset.py: training and test data alone'),
    'select': Setting('last_k', METRICS),
    'eval_every': Setting(1, f'{CODE}, utils/training.py'),
    'last_k': Setting(5, METRICS),
    'fedheal.beta': Setting(0.4, STUDIED),
    'fedheal.semantics': Setting(
        'paper', 'Eq. 4 to 12', 'code', f'{CODE} reads them in another way; Tables 2 and decide show both'
    ),
}
BATCHES = f'{CODE}, datasets/utils/federated_dataset.py: test sets in batches of training'
SETTINGS: Settings = {
    'paper': {
        **SHARED,
        'scenario': Setting(
            'domains:MNIST=idx:$DATA/mnist,USPS=usps:$DATA/usps,SVHN=svhn:$DATA/svhn,SYN=folders:$DATA/syn',
            f'{DATASETS}; {CODE}, datasets/digits.py',
        ),
        'num_clients': Setting(20, DATASETS),
        'client_sizes': Setting((600, 72, 732, 100), f'{DATASETS}: 1 % of 60000, 7291, 73257 and 10000'),
        'image_size': Setting(32, f'{CODE}, datasets/digits.py: Resize'),
        'augment': Setting('crop', f'{CODE}, datasets/digits.py: RandomCrop with a padding of 4'),
        'batch_size': Setting(64, DETAILS),
        'eval_batch_size': Setting(64, BATCHES),
        'fedheal.tau': Setting(TAU[DIGITS], STUDIED),
    },
    'office': {
        **SHARED,
        'scenario': Setting('office_caltech:$DATA/office_caltech_10', f'{DATASETS}; {CODE}, datasets/officecaltech.py'),
        'num_clients': Setting(
            20, DATASETS, None, 'this scenario knows clients by domain: four times clients_per_domain'
        ),
        'image_size': Setting(192, f'{CODE}, datasets/officecaltech.py: Resize'),
        'augment': Setting('flip', f'{CODE}, datasets/officecaltech.py: RandomHorizontalFlip'),
        'batch_size': Setting(16, DETAILS),
        'eval_batch_size': Setting(16, BATCHES),
        'fedheal.tau': Setting(TAU[OFFICE], STUDIED),
    },
}
