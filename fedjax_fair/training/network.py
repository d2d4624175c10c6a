"""The network of a run: built, checked against the data, and given the weights to start from."""

from __future__ import annotations

import jax
import jax.extend.core as jex
import jax.numpy as jnp

from fedjax_fair import registry
from fedjax_fair.core.platform import current
from fedjax_fair.core.tree import num_bytes
from fedjax_fair.core.types import Array, Model, Task, Variables
from fedjax_fair.data import Federation
from fedjax_fair.errors import UserError
from fedjax_fair.foreign import check_room
from fedjax_fair.models import in_precision, make_model
from fedjax_fair.models.normalize import normalized, parse_statistics
from fedjax_fair.models.pretrained import LAYERS, Start, load_pretrained, weights_file
from fedjax_fair.models.rematerialization import rematerialized
from fedjax_fair.options import AUTO
from fedjax_fair.training.config import Config, text_of_options

RANDOM = 'none'  # for `pretrained`, where a flag file asks for weights
LEAST_MODELS = 2  # that are in memory at once: the model and its update


def model_name(config: Config, federation: Federation) -> str:
    """The network asked for; ``auto`` is unet for masks, lenet for colour images, mlp for grey ones, else logreg."""
    if config.model != AUTO:
        return config.model
    shape = federation.x.shape[1:]
    if federation.y.ndim == 3:
        return 'unet'
    if len(shape) == 1:
        return 'logreg'
    return 'lenet' if shape[-1] == 3 else 'mlp'


def build_model(config: Config, federation: Federation, task: Task, lanes: int = 1) -> Model:
    """The network of a run; one that cannot take the inputs, or gives the wrong outputs, is refused.

    So is one of which the memory cannot hold as many as there are ``lanes``.
    """
    name, shape = model_name(config, federation), federation.x.shape[1:]
    options = config.network_options(name)
    model = make_model(name, federation.num_classes, config.norm, config.conv, **options)
    model = _normalized(config, in_precision(model, config.precision), shape)
    model = rematerialized(model) if config.remat else model

    def run() -> tuple[Array, Variables]:
        x, mask, key = jnp.zeros((1, *shape)), jnp.ones(1, bool), jax.random.key(0)
        variables = model.init(key, x)
        return model.apply(variables, x, mask, False, key).logits, variables

    try:
        traced, (logits, variables) = jax.make_jaxpr(run, return_shape=True)()
    except (ValueError, TypeError, ZeroDivisionError) as error:
        if name in registry.models and registry.models.entry(name).origin != registry.BUILT_IN:
            raise  # the author of a plug-in needs the traceback
        why = str(error).splitlines()[0] if isinstance(error, ValueError) else 'they are too small'
        raise UserError(f'`model`={name} cannot take inputs of shape {shape}: {why}') from error
    wanted = federation.y.shape[1:3] if federation.y.ndim == 3 else ()
    if logits.shape != (1, *wanted, federation.num_classes):
        raise UserError(f'`model`={name} does not fit `task`={task.name}; choose one of {_fitting(bool(wanted))}')
    given = f' with `model_options`={text_of_options(options)}' if options else ''
    _check_memory(f'`model`={name}{given}', num_bytes(variables), lanes, _largest_array(traced.jaxpr))
    return model


def _check_memory(what: str, weights: int, lanes: int, largest: int) -> None:
    """Refuse what cannot run in the memory, whatever else is in it; ``largest`` is an array of one example."""
    times = f', {lanes} times at once,' if lanes > 1 else ''
    check_room(max(LEAST_MODELS * weights * lanes, largest), f'{what}{times}', current().memory)


def _largest_array(jaxpr: jex.Jaxpr) -> int:
    """Bytes of the largest array in a traced program."""
    sizes = [num_bytes([out.aval for out in one.outvars if hasattr(out.aval, 'shape')]) for one in jaxpr.eqns]
    inner = [_largest_array(sub) for one in jaxpr.eqns for sub in jex.jaxprs_in_params(one.params)]
    return max([*sizes, *inner], default=0)


def _fitting(per_pixel: bool) -> str:
    """The networks that give logits for every pixel, which their note ``per_pixel`` says, or for every image."""
    notes = {name: registry.models.entry(name).notes for name in registry.models}
    return ', '.join(name for name, own in notes.items() if bool(own.get('per_pixel')) == per_pixel)


def _normalized(config: Config, model: Model, shape: tuple[int, ...]) -> Model:
    if not config.normalize:
        return model
    statistics = parse_statistics(config.normalize)
    channels = len(statistics.mean)
    if len(shape) != 3 or shape[-1] != channels:
        raise UserError(f'`normalize`={config.normalize} is for images of {channels} channels, not for shape {shape}')
    return normalized(model, statistics)


def is_pretrained(config: Config) -> bool:
    """Whether a file of weights is given to start from."""
    return config.pretrained not in ('', RANDOM)


def check_weights(config: Config) -> None:
    """Look for the file of weights to start from: its absence shows before any data is read."""
    if is_pretrained(config) and config.model in LAYERS:
        weights_file(config.pretrained, config.model)


def starting_weights(config: Config, federation: Federation, model: Model) -> Start:
    """Weights to begin with, where a file of them is given."""
    if not is_pretrained(config):
        return Start({}, ('starts from random weights',) if config.pretrained else ())
    example = jnp.zeros((1, *federation.x.shape[1:]))
    shapes = jax.eval_shape(model.init, jax.random.key(0), example)
    return load_pretrained(config.pretrained, model_name(config, federation), shapes)
