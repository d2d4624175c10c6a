"""The headline claims of FedISM, each with the recorded differences that decide it."""

from __future__ import annotations

from experiments.claims import Claim, Place, Published, Says
from experiments.fedism.published import ICH, ISIC, NOISE, SHARPNESS

CLEAN, CORRUPTED = 'site:clean', 'site:corrupted'
PARTS, SHARP, MATCHED, RADIUS, BATCH_NORM = (
    f'fashion-mnist/{name}.json' for name in ('decide', 'sharpness', 'matched', 'radius', 'batch_norm')
)
PLACES = {CLEAN: 0, CORRUPTED: 2}  # of the accuracy in a published row
FEDAVG, SALT, FEDISM = (f'ACC against {method}' for method in ('FedAvg', 'FedAvg+SALT', 'FedISM'))


def beside(table: str, site: str, method: str, other: str, *data: str) -> Published:
    """The published accuracies of two methods on clean or on corrupted images."""
    numbers = {name: (NOISE[name][method][PLACES[site]][0], NOISE[name][other][PLACES[site]][0]) for name in data}
    return Published(table, numbers)


def sharpness(what: str, place: int) -> Published:
    """The published sharpness of clients with FedISM and with FedAvg."""
    return Published('Table 7', {f'ICH, {what}': (SHARPNESS['FedISM'][place], SHARPNESS['FedAvg'][place])})


def beside_fedavg(site: str) -> dict[str, Place]:
    """A radius that fits the length of the parameters, one between it and the published one, and the paper's norm."""
    return {
        'rho matched to the network': Place(MATCHED, FEDAVG, site, 'FedISM'),
        'rho 0.01': Place(RADIUS, FEDAVG, site, 'FedISM, rho 0.01'),
        'batch norm': Place(BATCH_NORM, FEDAVG, site, 'FedISM'),
    }


def matched(entry: str, method: str) -> dict[str, Place]:
    """The same parts with a radius that fits the length of the parameters."""
    return {'rho matched to the network': Place(MATCHED, entry, CORRUPTED, method)}


CLAIMS = (
    Claim(
        'On corrupted images FedISM is more accurate than FedAvg.',
        beside('Table 1', CORRUPTED, 'FedISM', 'FedAvg', ICH, ISIC),
        Place(PARTS, FEDAVG, CORRUPTED, 'FedISM'), Says.HIGHER, beside_fedavg(CORRUPTED),
    ),
    Claim(
        'That costs no accuracy on clean images.',
        beside('Table 1', CLEAN, 'FedISM', 'FedAvg', ICH, ISIC),
        Place(PARTS, FEDAVG, CLEAN, 'FedISM'), Says.NOT_LOWER, beside_fedavg(CLEAN),
    ),
    Claim(
        'On corrupted images SAGA alone gains more accuracy than SALT alone.',
        beside('Table 2', CORRUPTED, 'FedAvg+SAGA', 'FedAvg+SALT', ICH),
        Place(PARTS, SALT, CORRUPTED, 'FedAvg+SAGA'), Says.HIGHER, matched(SALT, 'FedAvg+SAGA'),
    ),
    Claim(
        'On corrupted images SALT and SAGA together are more accurate than SALT alone.',
        beside('Table 2', CORRUPTED, 'FedISM', 'FedAvg+SALT', ICH),
        Place(PARTS, SALT, CORRUPTED, 'FedISM'), Says.HIGHER, matched(SALT, 'FedISM'),
    ),
    Claim(
        'On corrupted images q-FedAvg (q = 1; the paper tunes q, here it is not tuned) is less accurate than FedISM.',
        beside('Table 1', CORRUPTED, 'q-FedAvg', 'FedISM', ICH, ISIC),
        Place(PARTS, FEDISM, CORRUPTED, 'q-FedAvg'), Says.LOWER,
    ),
    Claim(
        'On corrupted images FairFed (beta = 1; the paper tunes beta, here it is not tuned) is less accurate than '
        'FedISM.',
        beside('Table 1', CORRUPTED, 'FairFed', 'FedISM', ICH, ISIC),
        Place(PARTS, FEDISM, CORRUPTED, 'FairFed'), Says.LOWER,
    ),
    Claim(
        'Clients are less sharp on average with FedISM than with FedAvg.',
        sharpness('mean', 0),
        Place(SHARP, 'sharpness', 'mean', 'FedISM'), Says.LOWER,
    ),
    Claim(
        'Clients are more equally sharp with FedISM than with FedAvg.',
        sharpness('standard deviation', 1),
        Place(SHARP, 'sharpness', 'std', 'FedISM'), Says.LOWER,
    ),
)  # fmt: skip
