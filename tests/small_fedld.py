"""The study of FedLD on a handful of digits, and made-up terms of its losses."""

import json

from experiments.fedld import terms
from experiments.study import Study
from fedjax_fair.training import Config

CONFIG = Config().changed(
    scenario='digits_common',
    split_by='capped_dirichlet',
    num_clients=5,
    model='logreg',
    rounds=1,
    local_epochs=1,
    batch_size=50,
    seeds=(0, 1),
    eval_every=1,
    last_k=1,
    devices=1,
)


def small(tmp_path, **changes):
    return Study(CONFIG.changed(**changes), tmp_path, quiet=True)


def read(path):
    return json.loads(path.read_text())


def invented(value):
    """Terms of three seeds in every round that is measured, as :func:`terms.decomposed` gives them."""
    ways = {
        way: {term: [value, value + place, value - place] for term in terms.TERMS}
        for place, way in enumerate(terms.WAYS)
    }
    return {str(number): ways for number in terms.MOMENTS}
