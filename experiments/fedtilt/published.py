"""The paper's numbers in percent (accuracy, its std over clients, mu_sigma, sigma_sigma), its tilts and its settings.

Zhang et al., FedTilt: Towards Multi-Level Fairness-Preserving and Robust Federated Learning, arXiv 2503.13537, Tables
II, III and VII.
"""

from __future__ import annotations

from experiments.published import Setting

Row = tuple[float, float, float, float]

MNIST, FASHION, CIFAR = 'MNIST', 'F-MNIST', 'CIFAR10'
# (tau, lambda) by table and data set.
TILTS = {
    '2': {MNIST: (50.0, 100.0), FASHION: (50.0, 100.0), CIFAR: (2.0, 1.0)},
    '3': {MNIST: (-0.5, 1.0), FASHION: (-1.0, 10.0), CIFAR: (-0.1, -0.1)},
    '7': {MNIST: (50.0, -10.0), FASHION: (50.0, -10.0), CIFAR: (-0.1, -0.1)},
}
# Of Figures 5 to 7 (Gaussian noise). The paper contradicts itself: by the captions of 5 and 6 tau = -50 is better, by
# Table VII and its text tau = 50 is the best.
NOISE_TAUS = {MNIST: (50.0, -50.0), FASHION: (50.0, -50.0), CIFAR: (-0.1,)}
# Table I, what the tilts are said to do: client fairness by q; data fairness and robustness by (tau, lambda).
CLIENT_FAIRNESS = {10.0: 'high', 0.0: 'medium', -10.0: 'low'}
SIGNS = {
    (1.0, 1.0): ('very high', 'low'),
    (1.0, -1.0): ('high', 'high'),
    (-1.0, 1.0): ('high', 'high'),
    (0.0, 0.0): ('medium', 'medium'),
    (-1.0, -1.0): ('low', 'very high'),
}
NUMBERS: dict[str, dict[str, dict[str, Row]]] = {
    '2': {
        MNIST: {
            'FedAvg': (95.69, 2.91, 6.84, 4.90),
            'Ditto': (99.25, 1.27, 4.37, 4.23),
            'FedTilt': (98.53, 1.67, 4.33, 3.33),
        },
        FASHION: {
            'FedAvg': (93.67, 1.97, 11.96, 3.52),
            'Ditto': (93.77, 5.30, 10.89, 7.18),
            'FedTilt': (96.35, 1.85, 7.61, 3.06),
        },
        CIFAR: {
            'FedAvg': (82.20, 4.58, 17.96, 3.88),
            'Ditto': (74.15, 9.35, 18.62, 3.9),
            'FedTilt': (85.24, 3.87, 15.68, 3.69),
        },
    },
    '3': {
        MNIST: {
            'FedAvg': (95.60, 2.86, 8.31, 1.99),
            'Ditto': (98.95, 1.72, 3.86, 5.35),
            'FedTilt': (98.46, 1.50, 2.79, 3.36),
        },
        FASHION: {
            'FedAvg': (95.81, 3.96, 10.01, 5.35),
            'Ditto': (34.83, 24.37, 21.71, 19.93),
            'FedTilt': (95.96, 3.16, 8.96, 4.55),
        },
        CIFAR: {
            'FedAvg': (81.70, 2.27, 17.81, 2.94),
            'Ditto': (52.73, 4.71, 19.02, 3.20),
            'FedTilt': (82.01, 2.17, 17.36, 2.39),
        },
    },
    '7': {
        MNIST: {
            'FedAvg': (95.41, 3.66, 7.36, 5.84),
            'Ditto': (98.97, 1.80, 3.08, 4.92),
            'FedTilt': (98.25, 1.00, 4.39, 1.67),
        },
        FASHION: {
            'FedAvg': (91.70, 3.51, 8.07, 6.14),
            'Ditto': (92.91, 6.82, 11.61, 7.50),
            'FedTilt': (94.67, 3.37, 6.92, 2.51),
        },
        CIFAR: {
            'FedAvg': (65.61, 6.83, 14.09, 6.07),
            'Ditto': (52.43, 12.22, 18.45, 4.64),
            'FedTilt': (66.80, 4.80, 14.00, 4.84),
        },
    },
}


_SILENT = 'the paper does not say'
_G, _F = 'appendix G, parameter setting', 'appendix F.1'
_COMMON: dict[str, Setting] = {
    'image_size': Setting('as given', _F, None, 'the files have the size of the paper'),
    'norm': Setting('none', f'{_F}: layers and ReLU are named', None, 'this network has no such layer to choose'),
    'normalize': Setting(None, _SILENT, '', 'pixels in [0, 1]'),
    'pretrained': Setting('', 'algorithm 1, line 1'),
    'augment': Setting('', f'{_F} names none'),
    'local_epochs': Setting(10, _G),
    'batch_size': Setting(10, _G),
    'local_optimizer': Setting('sgd', _G),
    'lr': Setting(0.01, _G),
    'lr_decay': Setting(1.0, f'{_G}: one learning rate'),
    'momentum': Setting(None, _SILENT, 0.0, 'SGD alone is named; the preset decide has 0 and 0.5'),
    'weight_decay': Setting(None, _SILENT, 0.0, 'SGD alone is named'),
    'keep_optimizer': Setting(None, _SILENT, False, 'plain SGD keeps nothing'),
    'num_clients': Setting(100, _G),
    'classes_per_client': Setting(2, _G),
    'participation': Setting(0.1, _G),
    'examples_per_class': Setting(None, _SILENT, None, 'all training images are dealt; the preset decide has 20'),
    'whole_tests': Setting(None, _SILENT, None, 'the test set is cut like the training set; decide has whole classes'),
    'outlier_share': Setting(0.3, 'section IV-B.2: of training samples', None, 'not asked for: it is the default'),
    'outlier_strength': Setting(
        '30 % of the pixels; standard Gaussian noise',
        'section IV-B.2',
        None,
        'not asked for: these are the defaults. New pixels are uniform and noise is not cut off, of which the paper is '
        'silent, as it is of the share of noisy samples',
    ),
    'outliers_once': Setting(False, 'section IV-B.2: outliers are injected in every global round'),
    'outliers_cumulative': Setting(None, _SILENT, False, 'drawn from clean data; the preset decide has both'),
    'seeds': Setting(None, _SILENT, (0, 1, 2), 'three show how far seeds differ'),
    'validation': Setting(None, _SILENT, 0.0, 'nothing is chosen by our runs'),
    'select': Setting('last_k', 'algorithm 1, line 9: the models of the last round'),
    'last_k': Setting(1, 'algorithm 1, line 9'),
    'eval_batch_size': Setting(None, _SILENT, 128, 'without batch statistics it changes no number'),
    'fedtilt.mu': Setting(0.01, _G),
    'fedtilt.q': Setting(None, _SILENT, 0.0, 'no value is given for images'),
    'fedtilt.distance': Setting('l2', f'{_G}: Euclidean', 'sq', 'its square, which the theorems are about'),
    'fedtilt.steps': Setting(None, _SILENT, 1, 'with step_size 0.5 and q 0 this is the mean of the clients'),
    'fedtilt.step_size': Setting(None, _SILENT, 0.5, 'see steps'),
    'study.DITTO_MU': Setting(
        'tuned', 'section IV-B.3, footnote 5', 0.01, 'no value is given; this is that of FedTilt, and not tuned'
    ),
    **{
        f'published.TILTS[{table}]': Setting(TILTS[table], f'{where}, and the text beside it: (tau, lambda)')
        for table, where in (('2', 'Table II'), ('3', 'Table III'), ('7', 'Table VII'))
    },
}
SETTINGS: dict[str, dict[str, Setting]] = {
    'paper': {
        **_COMMON,
        'scenario': Setting(
            'MNIST and F-MNIST', 'section IV-B', 'idx:$DATA/fashion-mnist', 'one at a time; --scenario names the other'
        ),
        'model': Setting('mlp', _F),
        'model_options': Setting(
            '3 linear layers', _F, {'widths': (200, 200)}, 'hidden widths are not given; these are those of FedAvg'
        ),
        'rounds': Setting(50, _G),
        'eval_every': Setting(50, 'algorithm 1, line 9'),
    },
    'cifar10': {
        **_COMMON,
        'scenario': Setting('CIFAR10', 'section IV-B', 'cifar10:$DATA/cifar-10-binary.tar.gz', 'its archive'),
        'model': Setting('cnn', _F),
        'model_options': Setting(
            '3 convolutional blocks and a linear layer', _F, {'widths': (32, 64, 128)}, 'widths are not given'
        ),
        'rounds': Setting(500, _G),
        'eval_every': Setting(500, 'algorithm 1, line 9'),
    },
}
