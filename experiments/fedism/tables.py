"""``python -m experiments.fedism.tables --table=1``: the paper's tables, and those that decide what it claims.

``--preset`` and all flags of a run apply.
"""

from __future__ import annotations

from typing import Any

from experiments.fedism import deciding, published
from experiments.fedism.sharpness import sharpness
from experiments.fedism.study import (
    ABLATION,
    COLUMNS,
    HERE,
    METHODS,
    SALTED,
    evidence_of,
    folders_of,
    scores,
    why_not_comparable,
)
from experiments.study import Cell, Study, cell, main

LESIONS = ('isic', 'ham10000', 'digits')  # images of skin lesions, and the digits, which stand in for them


def place(name: str) -> str:
    """The data set of the paper that a federation of this name is, or whose place it takes.

    >>> place('quality_shift:ffl4mia:ISIC2019_20'), place('quality_shift:npz:ham10000_sites_64')
    ('ISIC 2019', 'ISIC 2019')
    >>> place('quality_shift:ffl4mia:ICH_20'), place('quality_shift:tissue')
    ('ICH', 'ICH')
    """
    return published.ISIC if any(word in name.lower() for word in LESIONS) else published.ICH


def comparison(study: Study, name: str, paper: dict[str, dict[str, published.Row]], **changes) -> None:
    """Seven methods: Tables 1 and 8."""
    where = place(study.data()['name'])
    folders = folders_of(study, METHODS, **changes)
    ours = {method: scores(folder) for method, folder in folders.items()}
    rows = []
    for method, found in ours.items():
        rows.append([method, 'ours', *(cell(found[column]) for column in COLUMNS)])
        rows.append(['', f'paper, {where}', *map(cell, paper[where][method])])
    head = ['method', 'from', *COLUMNS]
    study.table(name, head, rows, why_not_comparable(study), ours, evidence=evidence_of(folders, 'FedAvg'))


def ablation(study: Study, name: str, ratio: float) -> None:
    """SALT and SAGA alone and together, with differences to FedAvg: Tables 2, 5 and 6."""
    folders = folders_of(study, ABLATION, **with_ratio(study, ratio))
    ours = {method: scores(folder) for method, folder in folders.items()}
    paper = {method: dict(zip(COLUMNS, published.RATIOS[ratio][method], strict=True)) for method in ABLATION}
    rows = []
    for method in ABLATION:
        for origin, found in (('ours', ours), ('paper, ICH', paper)):
            cells = [text for column in COLUMNS for text in _with_difference(found, method, 'FedAvg', column)]
            rows.append([method if origin == 'ours' else '', origin, *cells])
    head = ['method', 'from', *(text for column in COLUMNS for text in (column, 'Δ'))]
    evidence = evidence_of(folders, 'FedAvg', 'FedAvg+SALT')
    study.table(name, head, rows, why_not_comparable(study), ours, evidence=evidence)


def with_ratio(study: Study, ratio: float) -> dict[str, float]:
    """Nothing changes where the ratio is that of the other tables, so that their runs are found again."""
    return {} if ratio == study.config.data.get('corrupted_ratio', 0.2) else {'corrupted_ratio': ratio}


def _with_difference(found: dict[str, dict[str, Cell]], method: str, base: str, column: str) -> tuple[str, str]:
    gain = found[method][column][0] - found[base][column][0]
    return cell(found[method][column]), '' if method == base else f'{gain:+.2f}'


def salted(study: Study, name: str) -> None:
    """Every baseline with SALT, corrupted images: Table 3."""
    columns = [column for column in COLUMNS if column.startswith('corrupted')]
    plain, flat = folders_of(study, {method: METHODS[method] for method in SALTED}), folders_of(study, SALTED)
    ours, rows = {}, []
    evidence: dict[str, dict[str, Any]] = {}
    for method in SALTED:
        before, after = scores(plain[method]), scores(flat[method])
        ours[method] = {column: {'plain': before[column], 'salt': after[column]} for column in columns}
        evidence |= evidence_of({method: plain[method], f'{method}+SALT': flat[method]}, method)
        paper = zip(published.NOISE[published.ICH][method][2:4], published.SALT[method], strict=True)
        pairs = {'ours': [(before[column], after[column]) for column in columns], 'paper, ICH': list(paper)}
        for origin, shown in pairs.items():
            cells = [text for old, new in shown for text in (cell(old), cell(new), f'{new[0] - old[0]:+.2f}')]
            rows.append([method if origin == 'ours' else '', origin, *cells])
    head = ['method', 'from', *(text for column in columns for text in (column, '+ SALT', 'Δ'))]
    study.table(name, head, rows, why_not_comparable(study), ours, evidence=evidence)


TABLES = {
    '1': lambda study: comparison(study, 'table1', published.NOISE),
    '2': lambda study: ablation(study, 'table2', 0.2),
    '3': lambda study: salted(study, 'table3'),
    '5': lambda study: ablation(study, 'table5', 0.3),
    '6': lambda study: ablation(study, 'table6', 0.1),
    '7': lambda study: sharpness(study, 'table7', METHODS | ABLATION),
    '8': lambda study: comparison(study, 'table8', published.BLUR, corruption='motion_blur', severity=1),
    **deciding.TABLES,
}
PRESETS = {'tuned': None}  # not at every size: eight trials, of one preset

if __name__ == '__main__':
    main('table', TABLES, HERE)
