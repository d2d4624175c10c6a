"""The program that makes the records of the deciding experiments."""

import pathlib

import pytest

from experiments import records
from experiments.claims import outcomes
from experiments.papers import LISTS, Part, module_of
from experiments.published import HERE
from experiments.records import RECORDS, Record

STUB = [Record(Part('stub', 'table', choice, 'decide'), 'decide') for choice in ('1', 'other')]


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """Commands that were run; each writes its table, or ends with the exit code that the test gives."""
    monkeypatch.chdir(tmp_path)
    called, codes = [], {}

    def run(words):
        name = words[3].removeprefix('--table=')
        called.append(name)
        if name not in codes:
            folder = pathlib.Path('runs/stub-decide')
            folder.mkdir(parents=True, exist_ok=True)
            for ending in ('.json', '.md', '.tmp'):
                (folder / f'{"table1" if name == "1" else name}{ending}').write_text(name)
        return codes.get(name, 0)

    monkeypatch.setattr(records, 'run', run)
    return called, codes


def test_records_are_collected_once(commands, tmp_path, capsys):
    called, _ = commands
    assert records.make_all(STUB, tmp_path / 'out') == records.make_all(STUB, tmp_path / 'out') == 0
    assert called == ['1', 'other']
    found = sorted(path.relative_to(tmp_path / 'out').as_posix() for path in (tmp_path / 'out').rglob('*.*'))
    assert found == [f'stub/results/decide/{name}' for name in ('other.json', 'other.md', 'table1.json', 'table1.md')]
    assert '[2/2] python -m experiments.stub.tables --table=other --preset=decide' in capsys.readouterr().err


def test_what_fails_is_told_and_the_next_is_made(commands, tmp_path, capsys):
    called, codes = commands
    codes['1'] = 2
    assert records.make_all(STUB, tmp_path / 'out') == 1
    assert called == ['1', 'other'] and 'not made: stub table 1, preset decide' in capsys.readouterr().err


def test_a_stopped_command_stops_the_program(commands, tmp_path):
    called, codes = commands
    codes['1'] = 130
    assert records.make_all(STUB, tmp_path / 'out') == 130
    assert called == ['1'] and not (tmp_path / 'out').exists()


def test_the_exit_code_of_a_command_is_returned():
    assert records.run(['sh', '-c', 'exit 3']) == 3


def test_every_record_that_a_claim_rests_on_is_made():
    made = {f'{record.place}.json' for record in RECORDS}
    claims = {
        f'{paper}/results/{place.record}'
        for paper, each in outcomes().items()
        for one in each
        for place in one.claim.places
    }
    assert claims <= made and len(made) == len(RECORDS)


@pytest.mark.parametrize('record', RECORDS, ids=lambda record: record.part.name)
def test_every_record_has_a_command_and_a_preset(record):
    part = record.part
    assert part.choice in getattr(module_of(part.paper, part.kind), LISTS[part.kind])
    assert (HERE / part.paper / f'{part.preset}.flags').exists()
