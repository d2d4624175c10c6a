"""The paper's settings beside those of our presets, and its test accuracies in percent; one number each, no seeds.

Zeng et al., Tackling Data Heterogeneity in Federated Learning via Loss Decomposition, MICCAI 2024, Tables 1 to 3:
Retina in three Dirichlet splits over 5 clients, COVID-FL by its 12 sites, Retina over 50 clients of which a tenth
takes part. "Code" is Zeng-Shuang/FedLD, whose data are those of rui-yan/SSL-FL.
"""

from __future__ import annotations

from experiments.published import Setting
from fedjax_fair.core.spec import EVAL_BATCH_SIZE

SPLITS = ('Split-1', 'Split-2', 'Split-3')
PRINTED = 'Split-2 as printed'  # its concentration is; the split that was run may be another
SITES = 'COVID-FL'
MANY = '50 clients'
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

EXPERIMENTS = 'Sec. 3.1'
GENERALIZATION = 'Sec. 3.3, Generalization to Multiple Clients'
COMMON = {
    'model': Setting('resnet50', EXPERIMENTS),
    'norm': Setting('batch', f'{EXPERIMENTS}: ResNet-50'),
    'pretrained': Setting('$DATA/resnet50.npz', "code: torchvision's ImageNet weights, here as a file of arrays"),
    'rounds': Setting(200, EXPERIMENTS),
    'local_epochs': Setting(1, EXPERIMENTS),
    'batch_size': Setting(50, EXPERIMENTS),
    'local_optimizer': Setting('sgd', EXPERIMENTS),
    'lr_decay': Setting(1.0, f'{EXPERIMENTS}: one learning rate'),
    'momentum': Setting(0.5, 'code; not in the paper'),
    'weight_decay': Setting(0.0005, 'code; not in the paper'),
    'keep_optimizer': Setting(False, 'code: a new optimiser in every round'),
    'participation': Setting(1.0, f'{EXPERIMENTS}: client sampling rate 1'),
    'seeds': Setting((520,), 'code: one seed', (0, 1, 2), 'one seed says nothing about chance'),
    'validation': Setting(0.0, 'code: no validation set'),
    'select': Setting('last_k', 'Table 1: final test accuracy'),
    'last_k': Setting(1, 'Table 1: final test accuracy (in the code: of the model that the last round starts from)'),
    'eval_every': Setting(1, 'code: every round', 20, 'only the last evaluation is reported'),
    'eval_batch_size': Setting(None, 'neither paper nor code tells', EVAL_BATCH_SIZE, 'it changes no number'),
    'checkpoint_every': Setting(None, 'not published', 10, 'a run that is stopped loses little'),
    'fedld.keep': Setting(0.8, f'{EXPERIMENTS}: L = 0.8 m'),
    'fedld_code.keep': Setting(0.8, f'{EXPERIMENTS}: L = 0.8 m'),
    'fedld_code.frozen': Setting(
        True,
        'code: all methods train batch norm in evaluation mode, because a test before training is not undone',
        False,
        "the paper does not say so, and only pretrained statistics make sense then; rows 'frozen statistics' have it",
    ),
    'warm-up of the other methods': Setting(
        'min(1, (round + step) / 5)',
        "code: the learning rate of FedAvg, FedProx, FedBN, FedGH and of FedPAC's head",
        None,
        'the paper has one learning rate; it concerns 15 steps of each client, all in the first five rounds',
    ),
    'fedld_code.warmed_up': Setting(True, "code: the learning rate of the authors' FedLD grows over five rounds"),
}
RETINA = {
    'scenario': Setting('ssl_fl:$DATA/Retina', f'{EXPERIMENTS}: Retina of SSL-FL'),
    'source_options': Setting('split=split_1', 'code: 5_clients/split_1 to split_3; columns choose theirs'),
    'split_by': Setting('capped_dirichlet', 'SSL-FL: its splitter; used where the paper draws a split of its own'),
    'num_clients': Setting(5, f'{EXPERIMENTS}: 5 clients (50 in Table 3)'),
    'image_size': Setting('256, then 384', 'code', 384, 'images are resized once, when they are read'),
    'normalize': Setting('retina', 'code: mean and deviation of Retina'),
    'augment': Setting('resized_crop+rotate+flip', 'code: crops of 0.6 to 1 of the area, 10 degrees, mirrored'),
    'lr': Setting(0.01, EXPERIMENTS),
    'study.LAMBDAS[Split-1]': Setting(0.1, EXPERIMENTS),
    'study.LAMBDAS[Split-2]': Setting(0.03, EXPERIMENTS),
    'study.LAMBDAS[Split-3]': Setting(0.03, EXPERIMENTS),
    'study.LAMBDAS[50 clients]': Setting(None, GENERALIZATION, 0.03, 'that of the split of the same concentration'),
    'study.ALPHAS[Split-1]': Setting(100.0, EXPERIMENTS),
    'study.ALPHAS[Split-2]': Setting(
        0.1,
        EXPERIMENTS,
        1.0,
        "SSL-FL's splits, which the paper takes, have 1; this is called moderate, 0.5 severe. --table=printed: 0.1",
    ),
    'study.ALPHAS[Split-3]': Setting(0.5, EXPERIMENTS),
    'study.ALPHAS[50 clients]': Setting(0.5, GENERALIZATION),
    'study.FIFTY[num_clients]': Setting(50, GENERALIZATION),
    'study.FIFTY[participation]': Setting(0.1, 'Table 3: sampling rate 0.1'),
    'figures.ALPHAS': Setting((100.0, 10.0, 1.0, 0.1, 0.01), 'Sec. 3.3, Ability of Loss Reduction'),
}
COVID = {
    'scenario': Setting('ssl_fl:$DATA/COVID-FL', f'{EXPERIMENTS}: COVID-FL of SSL-FL'),
    'source_options': Setting('split=split_real', 'code: 12_clients/split_real'),
    'split_by': Setting('site', f'{EXPERIMENTS}: real sites'),
    'num_clients': Setting(12, EXPERIMENTS, None, 'the split says how many; the number is not asked for'),
    'image_size': Setting(384, 'code'),
    'normalize': Setting('imagenet', 'code: mean and deviation of ImageNet'),
    'augment': Setting('resized_crop_covid+rotate+flip', 'code: crops of 0.8 to 1.2 of the area, 10 degrees, mirrored'),
    'lr': Setting(0.005, EXPERIMENTS),
    'study.LAMBDAS[COVID-FL]': Setting(0.01, EXPERIMENTS),
}
SETTINGS = {'paper': {**COMMON, **RETINA}, 'paper_covid': {**COMMON, **COVID}}
