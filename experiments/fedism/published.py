"""The settings of the paper, and its numbers in percent: (mean, std) of ACC and AUC on clean and corrupted images.

The last pair of a row is their average. Tables 1, 2, 3, 5, 6, 7 and 8 of Wu et al., From Optimization to
Generalization: Fair Federated Learning against Quality Shift via Inter-Client Sharpness Matching, IJCAI 2024. The
authors' code is wnn2000/FFL4MIA.
"""

from __future__ import annotations

from experiments.published import Setting

Row = tuple[tuple[float, float], ...]

ICH, ISIC = 'ICH', 'ISIC 2019'


def _rows(text: str) -> dict[str, Row]:
    """``name: mean std mean std ...`` per line."""
    found = {}
    for line in text.strip().splitlines():
        name, _, numbers = line.partition(':')
        values = [float(n) for n in numbers.split()]
        found[name.strip()] = tuple(zip(values[::2], values[1::2], strict=True))
    return found


NOISE = {
    ICH: _rows("""
        FedAvg: 76.77 0.68 94.58 0.20 53.66 1.28 84.37 0.73 65.21 0.75 89.48 0.34
        Agnostic-FL: 55.13 7.28 83.20 4.86 46.69 7.54 78.13 4.79 50.91 2.56 80.67 1.65
        q-FedAvg: 75.94 1.05 94.36 0.28 59.46 1.90 86.81 0.95 67.70 0.69 90.58 0.40
        FairFed: 74.13 1.15 93.55 0.30 60.27 1.08 86.74 0.63 67.20 0.79 90.15 0.38
        FedCE: 75.82 0.45 94.31 0.10 58.77 1.92 86.93 0.70 67.29 0.94 90.62 0.37
        FedGA: 71.93 1.43 92.88 0.36 60.73 1.24 87.45 0.47 66.33 0.99 90.16 0.33
        FedISM: 77.52 0.58 95.02 0.16 64.51 0.64 89.56 0.22 71.01 0.36 92.29 0.13
        FedAvg+SALT: 79.21 0.21 95.66 0.10 55.29 2.05 86.61 0.70 67.25 1.08 91.14 0.32
        FedAvg+SAGA: 75.45 1.20 93.91 0.49 61.24 1.81 87.46 0.95 68.34 0.60 90.68 0.26
    """),
    ISIC: _rows("""
        FedAvg: 64.43 1.01 91.91 0.40 38.26 1.57 78.03 1.32 51.35 0.70 84.97 0.64
        Agnostic-FL: 39.66 12.94 78.64 9.08 33.55 8.88 75.62 6.48 36.60 3.30 77.13 2.52
        q-FedAvg: 65.20 1.26 91.59 0.67 44.54 0.80 82.88 0.61 54.87 0.58 87.24 0.47
        FairFed: 60.36 1.59 90.29 0.54 49.04 1.80 84.86 0.64 54.70 1.39 87.58 0.52
        FedCE: 62.21 1.27 90.37 0.56 45.25 2.65 83.37 1.72 53.73 1.11 86.87 0.91
        FedGA: 59.56 1.55 89.53 0.55 48.16 1.38 84.64 0.47 53.86 1.03 87.08 0.47
        FedISM: 66.94 0.84 93.21 0.32 51.62 1.39 86.89 0.49 59.28 0.52 90.05 0.18
    """),
}
BLUR = {
    ICH: _rows("""
        FedAvg: 75.97 1.11 94.74 0.22 68.69 0.74 90.98 0.41 72.33 0.81 92.86 0.29
        Agnostic-FL: 63.57 3.48 89.45 1.32 57.27 7.12 86.35 3.32 60.42 3.27 87.90 1.78
        q-FedAvg: 75.68 1.59 94.77 0.34 70.53 1.18 91.87 0.53 73.10 0.54 93.32 0.17
        FairFed: 74.59 1.12 94.34 0.21 69.66 1.08 91.75 0.30 72.12 0.66 93.05 0.18
        FedCE: 76.83 0.83 95.00 0.15 70.38 0.72 92.04 0.28 73.60 0.73 93.52 0.17
        FedGA: 72.97 0.78 93.75 0.16 69.64 0.60 91.78 0.27 71.31 0.54 92.76 0.16
        FedISM: 77.86 0.67 95.60 0.07 72.38 0.75 93.59 0.18 75.12 0.53 94.60 0.08
    """),
    ISIC: _rows("""
        FedAvg: 67.16 1.15 92.60 0.37 54.98 1.72 88.16 0.54 61.07 1.31 90.38 0.41
        Agnostic-FL: 51.24 5.49 87.90 1.91 50.11 3.85 86.56 1.64 50.67 2.93 87.23 1.18
        q-FedAvg: 71.39 0.73 93.88 0.30 60.79 1.38 90.03 0.39 66.09 0.96 91.95 0.30
        FairFed: 63.94 1.58 91.89 0.48 56.27 1.59 89.58 0.58 60.11 1.48 90.73 0.49
        FedCE: 72.29 0.64 94.26 0.28 61.85 1.28 90.95 0.40 67.07 0.74 92.61 0.31
        FedGA: 66.35 1.53 92.78 0.45 59.22 1.46 90.20 0.36 62.79 1.31 91.49 0.34
        FedISM: 73.44 0.88 95.07 0.18 63.45 0.75 92.21 0.29 68.45 0.68 93.64 0.16
    """),
}
RATIOS = {  # of corrupted clients; ICH (one std cannot be read in our copy of the paper)
    0.1: _rows("""
        FedAvg: 78.17 0.55 95.26 0.07 42.72 2.12 78.26 1.35 60.44 1.05 86.76 0.68
        FedAvg+SALT: 80.04 0.34 96.00 0.11 46.91 1.28 83.37 0.82 63.48 0.67 89.68 0.43
        FedAvg+SAGA: 75.35 1.03 94.16 0.28 55.15 2.37 84.68 1.06 65.25 1.26 89.42 0.55
        FedISM: 78.91 0.59 95.54 0.10 58.84 1.72 87.61 nan 68.88 1.03 91.57 0.25
    """),
    0.2: NOISE[ICH],
    0.3: _rows("""
        FedAvg: 75.56 0.69 94.36 0.22 57.14 1.86 85.95 0.83 66.35 0.88 90.16 0.41
        FedAvg+SALT: 78.57 0.50 95.63 0.12 62.16 0.80 89.14 0.20 70.37 0.53 92.39 0.12
        FedAvg+SAGA: 75.70 0.70 94.08 0.26 62.41 1.89 88.20 0.67 69.06 1.01 91.14 0.32
        FedISM: 78.74 0.56 95.32 0.23 66.86 1.22 90.66 0.18 72.80 0.44 92.99 0.10
    """),
}
SALT = _rows("""
    FedAvg: 55.29 2.05 86.61 0.70
    Agnostic-FL: 45.91 10.89 78.23 6.90
    q-FedAvg: 61.30 1.57 88.66 0.51
    FairFed: 62.86 1.08 89.14 0.39
    FedCE: 62.34 0.94 88.81 0.41
    FedGA: 61.76 0.78 88.56 0.15
""")  # corrupted ICH images: ACC, AUC
SHARPNESS = {
    'FedAvg': (0.67370, 0.56693),
    'Agnostic-FL': (1.01556, 0.65518),
    'q-FedAvg': (0.63291, 0.16827),
    'FairFed': (1.07346, 0.22205),
    'FedCE': (0.66945, 0.29507),
    'FedGA': (1.06669, 0.28508),
    'FedISM': (0.44165, 0.09966),
}  # mean and std over clients; rho is not given

CODE, TRAINING, DATA = 'code/utils/options.py', '4.1, Implement Details', '4.1, Datasets'
TRANSFORMS, ROUND = 'code/datasets/dataset.py', 'code/train_Baseline.py'
_UNTUNED = 'the authors tune it and report the best; ours is the default of their code, chosen before any result'
_EVERY_PRESET = {
    'data_seed': Setting(2024, TRANSFORMS),
    'image_size': Setting(224, DATA),
    'num_clients': Setting(20, DATA),
    'alpha': Setting(1.0, DATA),
    'corrupted_ratio': Setting(0.2, '4.2'),
    'corruption': Setting('gaussian_noise', DATA),
    'severity': Setting(3, ROUND),
    'model': Setting('resnet18', '4.1, Model'),
    'norm': Setting('batch', '4.1, Model: that of ResNet-18'),
    'normalize': Setting('imagenet', TRANSFORMS),
    'pretrained': Setting('$DATA/resnet18.npz', '4.1, Model: pretrained; ImageNet weights of torchvision in the code'),
    'augment': Setting('affine+flip', TRANSFORMS),
    'affine.degrees': Setting(10.0, TRANSFORMS),
    'affine.translate': Setting(0.02, TRANSFORMS),
    'rounds': Setting(300, TRAINING),
    'local_epochs': Setting(1, TRAINING),
    'batch_size': Setting(32, TRAINING),
    'local_optimizer': Setting('adam', TRAINING),
    'lr': Setting(0.0003, TRAINING),
    'lr_decay': Setting(1.0, f'{TRAINING}: constant'),
    'momentum': Setting(0.0, f'{TRAINING}: Adam has none'),
    'adam_b1': Setting(0.9, TRAINING),
    'adam_b2': Setting(0.999, TRAINING),
    'weight_decay': Setting(0.0005, TRAINING),
    'keep_optimizer': Setting(False, 'code/utils/local_training.py: a new Adam in every round'),
    'participation': Setting(1.0, 'Algorithm 1'),
    'seeds': Setting((0, 1, 2), '4.1, Evaluation Strategy: three; their numbers in code/train_Baseline.py'),
    'validation': Setting(0.0, DATA),
    'select': Setting('last_k', '4.1, Evaluation Strategy'),
    'eval_every': Setting(1, ROUND),
    'last_k': Setting(5, '4.1, Evaluation Strategy'),
    'eval_batch_size': Setting(64, 'code/utils/evaluation.py: twice the batch of training'),
    'fedism.q': Setting(2.0, TRAINING),
    'fedism.beta': Setting(0.5, TRAINING),
    'fedism.rho': Setting(0.05, CODE),
    'fedism.alpha': Setting(0.1, f'{CODE}; the paper names GSAM and prints SAM'),
    'fedism.tau': Setting(1.0, 'code/utils/losses.py'),
    'saga.augment': Setting(
        True, f'{ROUND}: compute_loss sees augmented images', False, 'sharpness that is not negative by chance'
    ),
    'qfedavg.q': Setting('0.5, 1, 2 or 5', 'Appendix C.1', 1.0, _UNTUNED),
    'fairfed.beta': Setting('0.1, 0.5 or 1', 'Appendix C.1', 1.0, _UNTUNED),
}
SETTINGS = {
    preset: {'scenario': Setting(f'quality_shift:ffl4mia:$DATA/{folder}', f'{DATA}; {TRANSFORMS}'), **_EVERY_PRESET}
    for preset, folder in {'paper': 'ICH_20', 'paper_isic': 'ISIC2019_20'}.items()
}
