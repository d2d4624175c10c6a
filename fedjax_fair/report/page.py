"""The fixed parts of the HTML report: its style sheet and how to read its numbers."""

STYLE = """
:root { color-scheme: light; --ink: #1f2933; --soft: #616e7c; --line: #e4e7eb; --accent: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; background: #f5f7fa; color: var(--ink); font: 15px/1.55 system-ui, 'Segoe UI', sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 28px; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 19px; margin: 0 0 12px; }
h3 { font-size: 15px; margin: 16px 0 6px; }
.lead { color: var(--soft); margin: 4px 0 24px; }
section, aside { background: white; border: 1px solid var(--line); border-radius: 10px; padding: 22px 24px;
  margin: 0 0 22px; }
aside { border-color: #e0a458; background: #fff8ec; }
.remarks { margin: 16px 0 0; padding: 12px 18px; font-size: 14px; }
aside ul { margin: 6px 0 0; padding-left: 20px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
.wide table { width: 100%; }
th, td { padding: 7px 12px; border-bottom: 1px solid var(--line); white-space: nowrap; text-align: right; }
th:first-child, tbody th { text-align: left; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); }
tbody th { font-weight: 600; }
tbody tr:hover { background: #f5f9fc; }
.best { color: var(--accent); font-weight: 700; }
.head { color: var(--soft); margin: 0; }
.note { color: var(--soft); font-size: 13px; margin: 12px 0 0; }
.figures { display: flex; flex-wrap: wrap; gap: 20px; margin-top: 20px; justify-content: center; }
figure { margin: 0; flex: 1 1 480px; max-width: 100%; text-align: center; }
figure.accuracy { flex-basis: 100%; }
figure img { max-width: 100%; max-height: 640px; }
figcaption { color: var(--soft); font-size: 13px; }
details { border-top: 1px solid var(--line); padding: 8px 0; }
summary { cursor: pointer; font-weight: 600; }
summary span { color: var(--soft); font-weight: 400; }
.settings { margin: 8px 0 8px 14px; }
.settings th { color: var(--soft); font-weight: 500; text-align: left; vertical-align: top; }
.settings td { text-align: left; white-space: normal; word-break: break-word; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 6px 18px; margin: 0; }
dt { font-weight: 700; }
dd { margin: 0; }
@media print { body { background: white; } section { border: 0; padding: 0; } }
"""

GUIDE = """<section><h2>How to read the numbers</h2><dl>
<dt>a ± b</dt><dd>Mean and population standard deviation (ddof 0) over seeds; a single seed shows no ±.</dd>
<dt>score</dt><dd>What fairness is about: accuracy; for segmentation the Dice of the foreground, the mean over images of
the mean over classes without the background (a class that neither prediction nor truth has counts as 1); for
multi-label tasks AUC. Dice with background is HarmoFL's: all classes count, and an absent one counts as 0.</dd>
<dt>AVG</dt><dd>Mean test score over the groups (domains, sites) of the federation, each group counting once; over
clients where there are no groups. A group's score is the mean over its clients.</dd>
<dt>STD</dt><dd>Standard deviation of these scores, in percentage points: with groups the sample one (ddof 1), over
clients the population one (ddof 0). Lower is fairer, but a model equally bad everywhere is fair too: read it beside
AVG.</dd>
<dt>worst</dt><dd>The lowest of these scores: what the worst-served group or client gets.</dd>
<dt>client std</dt><dd>Standard deviation over all clients (ddof 0), groups or not.</dd>
<dt>worst 10 %</dt><dd>Mean score of the worst tenth of the clients, rounded up to whole clients.</dd>
<dt>global, deployed, adapted</dt><dd>The server's model; the model each client would use, personal parts included; the
global model after local training on the client's own data. Numbers are those of the model that clients would use: the
deployed ones of recipes with personal parts, with the global model's AVG beside them, else the global one.</dd>
<dt>rounds</dt><dd>The line below a table names the rounds that are averaged. Each group's and client's score is
averaged first and AVG, STD and worst are computed from the averages.</dd>
</dl></section>"""
