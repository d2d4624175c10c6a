"""The fixed parts of the HTML report: its style sheet and how to read its numbers."""

from fedjax_fair.viz.inline import DARK, LIGHT


def _variables(colours: dict[str, str]) -> str:
    return ' '.join(f'--{name}: {colour};' for name, colour in colours.items())


STYLE = (
    f"""
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
"""
    + """
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.55 system-ui, 'Segoe UI', sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 28px; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 19px; margin: 0 0 12px; overflow-wrap: anywhere; }
h3 { font-size: 15px; margin: 22px 0 8px; }
.lead { color: var(--soft); margin: 4px 0 24px; }
section, aside { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 22px 24px;
  margin: 0 0 22px; }
aside { border-color: var(--c5); background: var(--warn); overflow-wrap: anywhere; }
.remarks { margin: 16px 0 0; padding: 12px 18px; font-size: 14px; }
.head { color: var(--soft); font-size: 13px; margin: 0; overflow-wrap: anywhere; } .head + .wide { margin-top: 14px; }
aside ul { margin: 6px 0 0; padding-left: 20px; }
.wide, .plot { overflow-x: auto; }
/* A shadow at the right end as long as there is more to scroll to; names of rows stay. */
div.wide, .plot { background: linear-gradient(to left, var(--card) 40%, transparent) right / 60px 100% no-repeat local,
  linear-gradient(to left, var(--line), transparent) right / 20px 100% no-repeat scroll; }
.wide tr > :first-child { position: sticky; left: 0; background: var(--card); text-align: left; }
.figures + .wide { margin-top: 16px; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; font-size: 14px; }
.wide table { width: 100%; }
th, td { padding: 7px 12px; border-bottom: 1px solid var(--line); white-space: nowrap; text-align: right;
  vertical-align: top; }
tbody th { text-align: left; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); vertical-align: bottom; }
thead small { display: block; font-weight: 400; }
tbody th { font-weight: 600; }
tbody tr:hover { background: var(--hover); }
.interval, .word { display: block; color: var(--soft); font-size: .89em; }
.word { white-space: normal; min-width: 110px; margin-left: auto; max-width: 170px; }
.better { color: var(--c2); } .worse { color: var(--c1); }
.dot { color: var(--c0); }
.grey td, td.grey { color: var(--soft); }
.words { padding-left: 20px; margin: 16px 0; } .words li { margin: 4px 0; }
.note { color: var(--soft); font-size: 13px; margin: 12px 0 0; }
ul.note { padding-left: 20px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 28px 24px;
  grid-auto-flow: dense; margin-top: 26px; align-items: start; }
figure { margin: 0; min-width: 0; text-align: center; }
figure.wide { grid-column: 1 / -1; overflow: visible; }
/* Where there is no room, a figure is scrolled in its own box: smaller than this nobody could read it. */
.plot > * { display: block; margin: 0 auto; width: var(--width); max-width: 100%; min-width: calc(.85 * var(--width));
  height: auto; max-height: none; }
.plot svg * { stroke-linejoin: round; stroke-linecap: butt; }
.plot text { font-family: system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif !important; }
figure img { max-width: 100%; max-height: 640px; background: white; border-radius: 6px; padding: 6px; }
figcaption { color: var(--soft); font-size: 13px; max-width: 70ch; margin: 4px auto 0; }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
summary span { color: var(--soft); font-weight: 400; }
.settings { margin: 8px 0 8px 14px; table-layout: fixed; width: calc(100% - 14px); }
.settings th { color: var(--soft); font-weight: 500; text-align: left; white-space: normal; overflow-wrap: anywhere;
  width: 34%; }
.settings td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(90px, max-content) 1fr; gap: 6px 18px; margin: 0; }
dt { font-weight: 700; }
dd { margin: 0; min-width: 0; }
@media (max-width: 600px) {
  h1 { font-size: 23px; } main { padding: 18px 10px 40px; } section, aside { padding: 16px 14px; }
  dl { display: block; } dd { margin: 0 0 10px; }
}
@media print {
  body { background: white; font-size: 12px; } main { max-width: none; padding: 0; }
  section { border: 0; padding: 0; } figure, tr, aside, dt { break-inside: avoid; } h2, h3, dt { break-after: avoid; }
  .wide, .plot { overflow: visible; } div.wide, .plot { background: none; } .plot > * { min-width: 0; }
  table { font-size: 10.5px; } th, td { padding: 3px 4px; } th { white-space: normal; }
  .many { font-size: 8px; } .word { min-width: 0; max-width: 110px; }
  .figures { grid-template-columns: 1fr 1fr; gap: 18px 14px; } figcaption, .note, .head { font-size: 10.5px; }
  .trials::details-content { content-visibility: visible; display: block; }
}
"""
)

GUIDE = """<section><h2>How to read the numbers</h2><dl>
<dt>82.0 [80.1, 83.9]</dt><dd>An estimate and its 95 % interval, in percent or points. The interval covers new seeds
(the same method trained again) and new patients of the same sites. It does not cover new sites. Two intervals that
overlap say nothing about a difference: read the columns “vs”.</dd>
<dt>vs a recipe</dt><dd>The difference with that recipe, seed by seed and patient by patient, with its 95 % interval and
a verdict. Verdicts are corrected for the number of comparisons (Holm); intervals are not.</dd>
<dt>better, worse</dt><dd>If there were no difference, a result like this one would come up in at most 5 % of
comparisons. With “below 1 point” the difference is there, and smaller than the margin.</dd>
<dt>no difference above 1 point</dt><dd>Whatever the difference is, it is smaller than the margin.</dd>
<dt>undecided</dt><dd>The data do not tell. “~12 seeds” is about how many seeds would find a difference as large as the
margin; “~3x patients” says that no number of seeds would, and how many times as many test patients would.</dd>
<dt>did not learn</dt><dd>AVG is not above that of a model that knows nothing, which always answers the most frequent
class for example. It has the same score everywhere, and is called neither fair nor best for it. A baseline that did
not learn withholds the verdicts on fairness too. “May not have learned”: the 95 % interval of AVG reaches down to
such a model.</dd>
<dt>fairer at no cost</dt><dd>The spread is smaller, and AVG is not lower by more than the margin. “Fairer, at a cost”:
AVG is lower.</dd>
<dt>• dot</dt><dd>This recipe cannot be told from the best one in the column. Any recipe with a dot may be the best
one.</dd>
<dt>score</dt><dd>What fairness is about: accuracy; for segmentation the Dice of the foreground, the mean over images of
the mean over classes without the background (a class that neither prediction nor truth has counts as 1); for
multi-label tasks AUC. Dice with background is HarmoFL's: all classes count, and an absent one counts as 0.</dd>
<dt>AVG</dt><dd>Mean test score over the groups (domains, sites) of the federation, each group counting once; over
clients where there are no groups. A group's score is the mean over its clients.</dd>
<dt>spread</dt><dd>Standard deviation of these scores (ddof 1) in points, without what small test sets add by chance; in
brackets the raw one with it. Lower is fairer, but a model that is equally bad everywhere has no spread: read it beside
AVG.</dd>
<dt>worst</dt><dd>The lowest of these scores. The lowest of several noisy numbers is too low, which is corrected; in
brackets the raw one, to which the interval belongs. Where sites share test examples there is only the raw one. Figures
show the raw one, for the sake of its interval.</dd>
<dt>chance</dt><dd>AVG of a model that knows nothing. Clients' own models may each answer the most frequent class of
their client, so that their level may be higher than that of the global model.</dd>
<dt>whole points</dt><dd>Where half an interval is wider than 5 points, tenths of a point say nothing and are not
shown.</dd>
<dt>worst 10 %</dt><dd>Mean score of the worst tenth of the clients, rounded up to whole clients.</dd>
<dt>exploratory</dt><dd>AVG and spread are what a comparison decides on. The other columns are for looking around: among
many numbers some stand out by chance.</dd>
<dt>too few patients</dt><dd>A site with fewer than ten test patients gets no verdict of its own, and no dot. Neither do
worst, best and gap where they are the numbers of such a site.</dd>
<dt>seed sd</dt><dd>Standard deviation over seeds (ddof 1), where there is no interval: it says how much training
varies, and nothing about the test patients.</dd>
<dt>global, deployed, adapted</dt><dd>The server's model; the model each client would use, personal parts included; the
global model after local training on the client's own data. Numbers are those of the model that clients would use: the
deployed ones of recipes with personal parts, with those of the global model beside them, else the global one.</dd>
<dt>rounds</dt><dd>The line below a table names the rounds that are averaged. Each group's and client's score is
averaged first and all statistics are computed from the averages.</dd>
</dl></section>"""
