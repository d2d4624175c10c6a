"""Everything that is printed with rich goes through one console, for which names of others are only text."""

import io
import pathlib
import re

import fedjax_fair
from fedjax_fair.consoles import plain_console

PACKAGE = pathlib.Path(fedjax_fair.__file__).parent


def test_a_console_prints_names_as_they_are():
    console = plain_console(file=io.StringIO(), width=80)
    console.print('npz:ten:[red]x[/red] :smile:')
    assert console.file.getvalue() == 'npz:ten:[red]x[/red] :smile:\n'


def test_nobody_makes_another_console():
    own = [path.name for path in PACKAGE.rglob('*.py') if re.search(r'(?<!\w)(Console|TextColumn)\(', path.read_text())]
    assert own == ['consoles.py']
