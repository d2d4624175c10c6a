#!/usr/bin/env bash
# Build the wheel and the source distribution, install the wheel into an empty environment and run the demo with it, from
# a folder that does not hold the source. Needs a package index: pip installs everything that constraints.txt pins.
set -euo pipefail
cd "$(dirname "$0")/.."
source_folder=$PWD
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH  # or the source would be imported instead of what was installed

echo "building in $work"
"$python" -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet --disable-pip-version-check build
"$work/tools/bin/python" -m build --quiet --outdir "$work/dist" .
ls "$work/dist"

echo 'looking into the wheel'
"$work/tools/bin/python" -m zipfile --list "$work"/dist/*.whl > "$work/contents"
for file in 'fedjax_fair/py.typed' 'licenses/LICENSE'; do
  grep -q "$file" "$work/contents" || { echo "the wheel lacks $file" >&2; exit 1; }
done
if grep -Eq '^(tests|experiments|benchmarks)/' "$work/contents"; then
  echo 'the wheel holds more than the package' >&2
  exit 1
fi

echo 'installing the wheel'
"$python" -m venv "$work/installed"
PIP_CONSTRAINT="$source_folder/constraints.txt" "$work/installed/bin/python" -m pip install --quiet --disable-pip-version-check "$work"/dist/*.whl

mkdir "$work/empty"
cd "$work/empty"
"$work/installed/bin/python" - <<'PYTHON'
import pathlib, sys
import fedjax_fair

home = pathlib.Path(fedjax_fair.__file__)
assert home.is_relative_to(pathlib.Path(sys.prefix)), f'{home} is not the installed package'
print('installed', fedjax_fair.__version__)
PYTHON
"$work/installed/bin/fedjax-fair" list > /dev/null
"$work/installed/bin/fedjax-fair" compare --config="$source_folder/experiments/demo.flags" --out=runs/demo --quiet
test -s runs/demo/report.html
echo 'the package works'
