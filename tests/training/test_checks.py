"""Settings of a wrong kind are refused by name, before anything is loaded."""

import pytest

from fedjax_fair.data import make_scenario
from fedjax_fair.errors import UserError
from fedjax_fair.methods import make_methods
from fedjax_fair.metrics import make_task
from fedjax_fair.models import make_model
from fedjax_fair.registry import models, register
from fedjax_fair.training import Config, checked
from fedjax_fair.training.config import options_from_text, text_of_options


@pytest.mark.parametrize(
    ('settings', 'told'),
    [
        ({'data': 3}, 'data=3: expected a mapping'),
        ({'hyper': {3: 4}}, 'hyper={3: 4}: expected a mapping'),
        ({'model_options': 'features=3'}, "model_options='features=3': expected a mapping"),
        ({'plugins': None}, 'plugins=None: expected a sequence'),
        ({'seeds': 3}, 'seeds=3: expected whole numbers'),
        ({'seeds': (2**33,)}, 'seeds=8589934592 must be different whole numbers'),
        ({'data_seed': 10**30}, 'data_seed=1'),
        ({'model': 'mlp', 'model_options': {'widths': -1}}, 'model_options: widths=-1'),
        ({'adam_b1': 0.5}, 'adam_b1=0.5 is of local_optimizer=adam or local_optimizer=adamw; local_optimizer=sgd'),
        ({'adam_b2': 0.99, 'local_optimizer': 'rmsprop'}, 'adam_b2=0.99 is of local_optimizer=adam or'),
        ({'adam_b2': 1, 'local_optimizer': 'adam'}, 'adam_b2=1'),
        ({'eval_batch_size': 0}, 'eval_batch_size=0 must be at least 1'),
    ],
)
def test_settings(settings, told):
    with pytest.raises(UserError) as error:
        checked(Config(**settings))
    assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    ('make', 'told'),
    [
        (lambda: make_methods(3), 'recipe=3: expected a text'),
        (lambda: make_methods('fedprox', 3), 'hyper=3: expected a mapping'),
        (lambda: make_model('mlp', '3'), "num_classes='3': expected a whole number"),
        (lambda: make_model('mlp', 0), 'num_classes=0 must be at least 1'),
        (lambda: make_task('classification', 2.5), 'num_classes=2.5: expected a whole number'),
        (lambda: make_scenario('gaussian_toy_1', data_seed=-1), 'data_seed=-1 must be at least 0'),
    ],
)
def test_arguments_of_functions(make, told):
    with pytest.raises(UserError) as error:
        make()
    assert str(error.value).startswith(told)


def test_options_of_a_network_are_read_by_the_network_that_has_them():
    @register.model
    def labelled(num_classes, tag: str = 'a', bias: bool = True, widths: tuple[int, ...] = (8,)):
        return make_model('logreg', num_classes)

    try:
        options = options_from_text('tag=12,bias=false,widths=4x5')
        read = {'tag': '12', 'bias': False, 'widths': (4, 5)}
        config = checked(Config(model='labelled', model_options=options))
        assert config.model_options == read == config.recorded('labelled')['model_options']
        assert checked(config) == config
        assert checked(Config(model='labelled', model_options=options_from_text(text_of_options(read)))) == config
        auto = checked(Config(model_options=options))
        assert auto.model_options == options and auto.recorded('labelled')['model_options'] == read
    finally:
        del models['labelled']


@pytest.mark.parametrize(
    ('options', 'told'),
    [
        ({'norm': 'batch'}, 'model_options: norm is a setting of its own; write norm=batch'),
        ({'name': 'x'}, "model_options: name=x: mlp has no option 'name'"),
        ({'conv': 'exact'}, "model_options: conv=exact: mlp has no option 'conv'"),
    ],
)
def test_options_that_no_network_has(options, told):
    with pytest.raises(UserError) as error:
        checked(Config(model='mlp', model_options=options))
    assert str(error.value).startswith(told)
