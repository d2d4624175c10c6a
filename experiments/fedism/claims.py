"""The headline claims of FedISM, each with the recorded difference that decides it."""

from __future__ import annotations

from experiments.claims import Claim, Says

CLEAN, CORRUPTED = 'site:clean', 'site:corrupted'
PARTS, SHARPNESS = 'fashion-mnist/decide.json', 'fashion-mnist/sharpness.json'
CLAIMS = (
    Claim(
        'On corrupted images FedISM is more accurate than FedAvg.',
        '53.66 to 64.51 (ICH), 38.26 to 51.62 (ISIC 2019), Table 1',
        PARTS, 'ACC against FedAvg', CORRUPTED, 'FedISM', Says.HIGHER,
    ),
    Claim(
        'That costs no accuracy on clean images.',
        '76.77 to 77.52 (ICH), 64.43 to 66.94 (ISIC 2019), Table 1',
        PARTS, 'ACC against FedAvg', CLEAN, 'FedISM', Says.NOT_LOWER,
    ),
    Claim(
        'On corrupted images SAGA alone gains more accuracy than SALT alone.',
        '61.24 against 55.29 (ICH), Table 2',
        PARTS, 'ACC against FedAvg+SALT', CORRUPTED, 'FedAvg+SAGA', Says.HIGHER,
    ),
    Claim(
        'On corrupted images SALT and SAGA together are more accurate than SALT alone.',
        '64.51 against 55.29 (ICH), Table 2',
        PARTS, 'ACC against FedAvg+SALT', CORRUPTED, 'FedISM', Says.HIGHER,
    ),
    Claim(
        'On corrupted images q-FedAvg is less accurate than FedISM.',
        '59.46 against 64.51 (ICH), 44.54 against 51.62 (ISIC 2019), Table 1',
        PARTS, 'ACC against FedISM', CORRUPTED, 'q-FedAvg', Says.LOWER,
    ),
    Claim(
        'On corrupted images FairFed is less accurate than FedISM.',
        '60.27 against 64.51 (ICH), 49.04 against 51.62 (ISIC 2019), Table 1',
        PARTS, 'ACC against FedISM', CORRUPTED, 'FairFed', Says.LOWER,
    ),
    Claim(
        'Clients are less sharp on average with FedISM than with FedAvg.',
        '0.442 against 0.674 (ICH), Table 7',
        SHARPNESS, 'sharpness', 'mean', 'FedISM', Says.LOWER,
    ),
    Claim(
        'Clients are more equally sharp with FedISM than with FedAvg.',
        'standard deviation 0.100 against 0.567 (ICH), Table 7',
        SHARPNESS, 'sharpness', 'std', 'FedISM', Says.LOWER,
    ),
)  # fmt: skip
