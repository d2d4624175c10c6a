"""Data sets of TensorFlow Datasets: prepared by our command, read by our source, without TensorFlow or a network."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tiny_sets
from PIL import Image
from pools import assert_same_pool
from tiny_sets import SITES

from fedjax_fair.cli import data
from fedjax_fair.data import read_pool
from fedjax_fair.data.blocks import TEST, TRAIN, UNKNOWN
from fedjax_fair.data.resize import resize_images
from fedjax_fair.data.sources import tfds_records
from fedjax_fair.data.sources.pixels import fit
from fedjax_fair.data.sources.tfds import read_tfds
from fedjax_fair.data.sources.tfds_store import open_prepared, prepare
from fedjax_fair.errors import UserError


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Sets prepared once for all tests."""
    place = tmp_path_factory.mktemp('sets')
    for name in ('tiny_tiles', 'tiny_photos', 'tiny_configs/one', 'tiny_configs/two', 'tiny_broken'):
        prepare(name, str(place))
    return place


@pytest.fixture
def own(folder, tmp_path):
    """A copy of a set, to be damaged: the folder of its files, and a reader of it."""
    shutil.copytree(folder / 'tiny_tiles', tmp_path / 'tiny_tiles')
    return tmp_path / 'tiny_tiles' / '1.0.0', lambda: read_tfds('tiny_tiles', str(tmp_path)).decode(None)


def parts_of(name, folder, image_size=None, **options):
    return read_tfds(name, str(folder), **options).decode(image_size).blocks


def one_line(act, *words):
    with pytest.raises(ValueError) as caught:
        act()
    message = str(caught.value)
    assert isinstance(caught.value, UserError)
    assert message.startswith(('scenario', 'source_options')) and '\n' not in message
    assert all(word in message for word in words), message


# --- what comes back -------------------------------------------------------------------------------------------------


def test_what_was_prepared_comes_back_pixel_by_pixel(folder):
    train, test = parts_of('tiny_tiles', folder, site='hospital', patient='patient')
    for part, use, keys in ((train, TRAIN, range(12)), (test, TEST, range(12, 17))):
        found = part.patient.astype(int)
        assert sorted(found) == list(keys)
        assert set(part.split) == {use}
        assert part.images.dtype == np.uint8
        np.testing.assert_array_equal(part.images, [tiny_sets.tile(key) for key in found])
        np.testing.assert_array_equal(part.labels, found % 3)
        assert part.site.tolist() == [SITES[key % 2] for key in found]


def test_records_are_decoded_once(folder, monkeypatch):
    how = {'source_options': f'data_dir={folder},site=hospital,group=patient'}
    first = read_pool('tfds', 'tiny_tiles', **how)
    monkeypatch.setattr(tfds_records, 'decode_splits', lambda *_: pytest.fail('decoded again'))
    assert_same_pool(first, read_pool('tfds', 'tiny_tiles', **how))


def test_the_command_prepares_what_the_scenario_reads(tmp_path, capsys):
    place = tmp_path / 'sets'
    assert data.data(['prepare', 'tiny_tiles', f'--data_dir={place}']) == 0
    told = capsys.readouterr().out
    assert told.startswith(str(place / 'tiny_tiles' / '1.0.0'))
    assert f'--scenario=tfds:tiny_tiles --source_options=data_dir={place}' in told
    pool = read_pool('tfds', 'tiny_tiles', source_options=f'data_dir={place},site=hospital')
    assert pool.x.shape == (17, 8, 8, 3)
    assert pool.held_out.sum() == 5
    assert pool.class_names == ('cat', 'dog', 'owl')
    assert set(pool.sites) == {'north', 'south'}


def test_preparing_again_keeps_what_is_there(folder):
    before = {path: path.stat().st_mtime_ns for path in (folder / 'tiny_tiles').rglob('*')}
    assert prepare('tiny_tiles', str(folder)) == folder / 'tiny_tiles' / '1.0.0'
    assert before == {path: path.stat().st_mtime_ns for path in (folder / 'tiny_tiles').rglob('*')}


def test_the_order_is_always_the_same_and_nothing_is_said(folder, capfd):
    first, second = (parts_of('tiny_photos', folder, patient='patient')[0] for _ in range(2))
    assert first.patient.tolist() == second.patient.tolist()
    np.testing.assert_array_equal(first.images, second.images)
    assert capfd.readouterr() == ('', '')


def test_encoded_images_of_any_mode_become_colour_of_the_commonest_size(folder):
    (part,) = parts_of('tiny_photos', folder, patient='patient')
    assert part.images.shape == (18, 6, 5, 3)
    for key, image in zip(part.patient.astype(int), part.images, strict=True):
        if key % 3 != 2 and tiny_sets.photo(key).mode not in ('RGBA', 'LA'):  # neither resized nor transparent
            np.testing.assert_array_equal(image, tiny_sets.photo(key).convert('RGB'))


@pytest.mark.parametrize('image_size', [None, 4])
def test_the_same_pictures_in_files_have_the_same_bytes(folder, tmp_path, image_size):
    (part,) = parts_of('tiny_photos', folder, image_size, patient='patient', mask='classes_of_pixels')
    for what, picture in (('images', tiny_sets.photo), ('masks', tiny_sets.classes_of_pixels)):
        (tmp_path / what).mkdir()
        for place, key in enumerate(part.patient.astype(int)):
            picture(key).save(tmp_path / what / f'{place:02}.png')
    pool = read_pool('masks', str(tmp_path), image_size=image_size)
    np.testing.assert_array_equal(part.images, pool.x)
    np.testing.assert_array_equal(part.masks, pool.masks)


def test_channels_beyond_colour_are_resized_each_for_itself():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 4), dtype=np.uint8)
    out = np.zeros((4, 4, 4), np.uint8)
    fit(pixels, out)
    np.testing.assert_array_equal(out, resize_images(pixels[None], (4, 4))[0])


def test_images_are_fitted_into_the_size_asked_for(folder):
    assert read_pool('tfds', 'tiny_tiles', image_size=5, source_options=f'data_dir={folder}').x.shape[1:] == (5, 5, 3)


def test_one_split_is_for_both_and_classes_that_are_numbers_have_no_names(folder):
    found = read_tfds('tiny_photos', str(folder)).decode(None)
    assert set(found.blocks[0].split) == {UNKNOWN}
    assert found.class_names == ()


@pytest.mark.parametrize(
    ('label', 'expected'),
    [
        ('', lambda key: key % 2),
        ('place', lambda key: key % 3),
        ('attributes/smiling', lambda key: key % 3 == 0),
        ('attributes/marks', lambda key: [key % 2, 1, 0, 1]),
    ],
)
def test_labels_may_be_any_whole_numbers(folder, label, expected):
    (part,) = parts_of('tiny_photos', folder, label=label, patient='patient', site='place')
    keys = part.patient.astype(int)
    assert part.labels.dtype == np.int32
    np.testing.assert_array_equal(part.labels, [expected(key) for key in keys])
    assert part.site.tolist() == [SITES[key % 3] for key in keys]


def test_masks_are_classes_whatever_colours_show_them(folder):
    (part,) = parts_of('tiny_photos', folder, mask='classes_of_pixels', patient='patient')
    for key, mask in zip(part.patient.astype(int), part.masks, strict=True):
        if key % 3 != 2:  # not resized
            np.testing.assert_array_equal(mask, np.asarray(tiny_sets.classes_of_pixels(key)))
    assert part.masks.max() == 2 and not part.unlabelled


def test_masks_without_classes_are_learned_and_black_and_white_are_two_classes(folder):
    options = f'data_dir={folder},mask=right,image=left'
    pool = read_pool('tfds', 'tiny_configs/two', source_options=options)
    assert pool.task == 'segmentation'
    np.testing.assert_array_equal(pool.masks, pool.x[..., 0] > 99)


def test_another_split_can_be_tested_on(folder):
    train, test = parts_of('tiny_tiles', folder, test='validation', patient='patient')
    assert (len(train.labels), set(train.split)) == (12, {TRAIN})
    assert (sorted(test.patient.astype(int)), set(test.split)) == ([17, 18, 19, 20], {TEST})


def test_without_a_test_split_one_is_drawn_from_training(folder):
    (part,) = parts_of('tiny_configs/one', folder, image='left', mask='right')
    assert (len(part.labels), set(part.split)) == (6, {UNKNOWN})


def test_the_newest_version_is_read_unless_one_is_named(own):
    place, _ = own
    for version in ('1.9.0', '1.10.0'):
        shutil.copytree(place, place.parent / version)
        info = place.parent / version / 'dataset_info.json'
        info.write_text(info.read_text().replace('1.0.0', version))
    root = str(place.parents[1])
    assert str(open_prepared('tiny_tiles', root).data_dir).endswith('/1.10.0')
    assert str(open_prepared('tiny_tiles:1.9.0', root).data_dir).endswith('/1.9.0')


def test_importing_the_package_imports_none_of_it():
    code = 'import sys, fedjax_fair.data; print(*{"tensorflow_datasets", "PIL", "grain"} & set(sys.modules))'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.strip() == ''


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize('name', ['tiny_nothing', 'mnist', 'tiny_tiles:2.0.0', 'tiny_configs/three'])
def test_a_set_that_is_not_prepared_names_the_command(folder, name):
    command = f'fedjax-fair data prepare {name} --data_dir={folder}'
    one_line(lambda: read_tfds(name, str(folder)), f'scenario=tfds:{name}', command, 'tiny_configs/one:1.0.0')


@pytest.mark.parametrize('name', ['', '../tiny_tiles', 'tiny_tiles/1.0.0/..', 'tiny_tiles:new', 'a b', 'hub:mnist'])
def test_a_name_that_is_none(folder, name):
    one_line(lambda: read_tfds(name, str(folder)), f'scenario=tfds:{name}')


def test_one_of_several_configurations_is_chosen_by_the_user(folder):
    one_line(lambda: read_tfds('tiny_configs', str(folder)), 'tiny_configs/one, tiny_configs/two')


@pytest.mark.parametrize(
    ('role', 'feature', 'wrong'),
    [
        ('image', 'picture', 'no such feature'),
        ('image', 'label', 'does not fit'),
        ('image', 'words', 'does not fit'),
        ('label', 'image', 'does not fit'),
        ('label', 'height', 'does not fit'),
        ('label', 'attributes', 'no such feature'),
        ('site', 'attributes/marks', 'does not fit'),
        ('patient', 'words', 'does not fit'),
        ('mask', 'image', 'does not fit'),
    ],
)
def test_features_that_are_missing_or_do_not_fit(folder, role, feature, wrong):
    told = (f'source_options={role}={feature}: {wrong}', 'attributes/smiling', 'classes_of_pixels')
    one_line(lambda: read_tfds('tiny_photos', str(folder), **{role: feature}), *told)


def test_features_that_cannot_be_guessed(folder):
    one_line(lambda: read_tfds('tiny_configs/one', str(folder)), 'source_options=image=FEATURE', 'left and right')
    one_line(lambda: read_tfds('tiny_configs/one', str(folder), image='left'), 'source_options=label=', 'number')


@pytest.mark.parametrize('split', ['holdout', 'train'])
def test_a_split_that_cannot_be_tested_on(folder, split):
    one_line(lambda: read_tfds('tiny_tiles', str(folder), test=split), f'test={split}', 'validation')


def test_negative_labels(folder):
    one_line(lambda: parts_of('tiny_configs/one', folder, image='left', label='number'), 'tiny_configs/one', '-1')


def test_a_damaged_image_is_named(folder):
    one_line(lambda: parts_of('tiny_broken', folder), 'scenario=tfds:tiny_broken: split train, example ')


def test_bombs_are_named_and_not_decoded(folder, monkeypatch):
    monkeypatch.setattr(Image, 'MAX_IMAGE_PIXELS', 40)  # every third has 63
    one_line(lambda: parts_of('tiny_photos', folder), 'scenario=tfds:tiny_photos: split train, example ', 'limit')


@pytest.mark.parametrize('kept', [0, 0.5])
def test_a_truncated_file(own, kept):
    place, read = own
    (path,) = place.glob('*train.array_record*')
    raw = path.read_bytes()
    path.write_bytes(raw[: int(kept * len(raw))])
    one_line(read, 'scenario=tfds:tiny_tiles: split train')


def test_a_missing_file(own):
    place, read = own
    next(place.glob('*test.array_record*')).unlink()
    one_line(read, 'scenario=tfds:tiny_tiles: split test', 'No such file')


@pytest.mark.parametrize('name', ['features.json', 'dataset_info.json'])
@pytest.mark.parametrize('text', ['', '{}', '[]', '{"a": '])
def test_descriptions_that_describe_nothing(own, name, text):
    place, read = own
    (place / name).write_text(text)
    one_line(read, 'scenario=tfds:tiny_tiles', str(place))


def test_another_file_format(own):
    place, read = own
    info = place / 'dataset_info.json'
    info.write_text(info.read_text().replace('array_record', 'tfrecord'))
    one_line(read, 'tfrecord', 'data prepare tiny_tiles')


@pytest.mark.parametrize('key', ['pythonClassName', 'python_class_name'])
def test_code_that_a_description_names_is_not_imported(own, monkeypatch, key):
    place, read = own
    (place / 'stranger_in_features.py').write_text('raise SystemExit("imported")')
    monkeypatch.syspath_prepend(place)
    features = place / 'features.json'
    text = features.read_text().replace('tensorflow_datasets.core.features.text_feature', 'stranger_in_features')
    assert 'stranger_in_features' in text
    features.write_text(text.replace('pythonClassName', key))
    one_line(read, 'stranger_in_features')


FEATURES = 'tensorflow_datasets.core.features.features_dict.FeaturesDict'
STRANGER = {'type': 'stranger_in_features.C', 'content': {}}
PROTO = {'pythonClassName': 'stranger_in_features.C', 'tensor': {'shape': {}, 'dtype': 'int64'}}


@pytest.mark.parametrize(
    'hidden',
    [
        {'pythonClassName': FEATURES, 'jsonFeature': {'json': json.dumps({'x': STRANGER})}},
        {'python_class_name': FEATURES, 'json_feature': {'json': f' {json.dumps({"x": STRANGER})}'}},
        {
            'type': FEATURES,
            'proto_cls': 'tensorflow_datasets.FeaturesDict',
            'content': json.dumps({'features': {'x': PROTO}}),
        },
    ],
)
def test_code_that_is_named_in_a_text_of_a_description_is_not_imported(own, monkeypatch, hidden):
    place, read = own
    (place / 'stranger_in_features.py').write_text('raise SystemExit("imported")')
    monkeypatch.syspath_prepend(place)
    (place / 'features.json').write_text(json.dumps(hidden))
    one_line(read, 'stranger_in_features.C, a class from outside')
    assert 'stranger_in_features' not in sys.modules


@pytest.mark.parametrize(
    ('name', 'told'),
    [
        ('tiny_nothing', 'no such set'),
        ('tiny tiles', 'NAME[/CONFIG][:VERSION]'),
        ('tiny_configs/three', 'three'),
        ('tiny_needy', "package_that_nobody_has is missing; pip install 'fedjax-fair[tfds]'"),
    ],
)
def test_what_cannot_be_prepared(tmp_path, name, told):
    with pytest.raises(ValueError) as caught:
        prepare(name, str(tmp_path))
    message = str(caught.value)
    assert message.startswith(f'data prepare {name}: ') and told in message and '\n' not in message
    assert not list(tmp_path.rglob('*.array_record*'))
