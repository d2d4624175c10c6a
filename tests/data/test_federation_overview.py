"""Text and pictures of a federation."""

import matplotlib.colors
import matplotlib.image
import numpy as np
import pytest

from fedjax_fair.data import class_counts, describe, federate, make_scenario, make_split
from fedjax_fair.data.pool import Pool
from fedjax_fair.viz import style
from fedjax_fair.viz.federations import contact_sheet, draw_partition


@pytest.fixture(scope='module')
def domains():
    return make_scenario('digits_domains', clients_per_domain=1, client_sizes=[12, 13, 14, 15], test_size=5)


def test_counts_are_the_labels_each_client_holds(domains):
    counts = class_counts(domains)
    np.testing.assert_array_equal(counts.sum(1), domains.sizes)
    for n in range(4):
        labels = domains.y[domains.index[n, : domains.sizes[n]]].tolist()
        assert counts[n].tolist() == [labels.count(c) for c in range(10)]


def test_description_states_sizes_groups_and_totals(domains):
    text = describe(domains)
    assert 'clients   4, sizes min 12, median 13.5, max 15' in text and '32x32x3 uint8, 10 classes' in text
    assert 'handwritten  1 client, 12 training, 5 test examples' in text
    total = next(line for line in text.splitlines() if line.split()[:1] == ['all']).split()
    assert total[1:] == [*map(str, class_counts(domains).sum(0)), '54']


def test_description_abbreviates_many_clients_and_classes():
    y = np.tile(np.arange(30), 20).astype(np.int32)
    pool = Pool(np.zeros((600, 2), np.float32), y, np.arange(600) < 60)
    text = describe(federate(pool, 'many', make_split('iid', num_clients=50)))
    assert '... and 30 more clients' in text and ' ...  ' in text
    assert len(text.splitlines()) < 32 and max(map(len, text.splitlines())) < 120


def test_partition_picture_shows_every_group_in_colour(domains, tmp_path):
    draw_partition(domains, tmp_path / 'p.png')
    picture = matplotlib.image.imread(tmp_path / 'p.png')[..., :3]
    for place in range(4):
        rgb = np.array(matplotlib.colors.to_rgb(style.colour(place)))
        assert (np.abs(picture - rgb).max(-1) < 0.01).sum() > 200


def test_contact_sheet_shows_images_points_and_refuses_features(domains, tmp_path):
    contact_sheet(domains, tmp_path / 'c.png')
    sheet = matplotlib.image.imread(tmp_path / 'c.png')[..., :3]
    dark_rows = (sheet.max(-1) < 0.02).mean(1)
    assert dark_rows[: len(sheet) // 4].max() > 0.3 > dark_rows[len(sheet) // 2 :].max()  # handwriting is on top
    contact_sheet(make_scenario('gaussian_toy_1'), tmp_path / 'g.png')
    assert matplotlib.image.imread(tmp_path / 'g.png').std() > 0.05
    pool = Pool(np.zeros((20, 7), np.float32), (np.arange(20) % 2).astype(np.int32), np.arange(20) < 4)
    with pytest.raises(ValueError, match='not images to draw'):
        contact_sheet(federate(pool, 'features', make_split('iid', num_clients=2)), tmp_path / 'f.png')
