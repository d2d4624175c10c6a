"""Tables of run folders, and how to read what they are written to."""

import csv
import io
import re

from fedjax_fair import report


def table_of(*paths, **options):
    return report.make_table(report.load_runs(paths), **options)


def read_csv(table):
    return list(csv.DictReader(io.StringIO(report.to_csv(table))))


def check_latex(text):
    """Braces and environments close in order, dollars pair up, and all rows have as many cells as columns."""
    text = re.sub(r'\\shortstack\[r\]\{(.*?)\}(?= &| \\\\)', lambda found: found[1].replace(r' \\ ', ' '), text)
    bare = re.sub(r'\\[\\{}$&%#_]', lambda found: '\n' if found[0] == '\\\\' else '', re.sub(r'(?m)^%.*$', '', text))
    assert '%' not in bare and '#' not in bare
    depth = 0
    for char in bare:
        depth += (char == '{') - (char == '}')
        assert depth >= 0
    assert depth == 0 and bare.count('$') % 2 == 0
    environments = []
    for what, name in re.findall(r'\\(begin|end)\{(\w+)\}', bare):
        assert what == 'begin' or environments.pop() == name
        if what == 'begin':
            environments.append(name)
    assert not environments
    blocks = re.findall(r'(?s)\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}', bare)
    assert blocks
    for columns, body in blocks:
        rows = [row for row in body.split('\n') if '&' in row]
        assert rows and {row.count('&') + 1 for row in rows} == {len(columns)}
