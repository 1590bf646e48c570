"""How a run's page looks, light and dark; nothing else."""

CSS = """
:root { color-scheme: light dark; --bg: #fff; --fg: #1c2430; --dim: #66707e; --rule: #e3e6ea;
  --card: #f6f7f9; --ok: #2f9e73; --fail: #e3a32b; --unknown: #d64550; --fault: #b9483e;
  --write: #2b6cb0; --read: #8a63b8; --good: #1f7a56; --bad: #b3262f; --doubt: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --bg: #14181e; --fg: #e4e8ee; --dim: #98a2b0;
  --rule: #2b323c; --card: #1c222a; --ok: #38a97e; --fail: #d89a2b; --unknown: #e5606a;
  --fault: #d0655a; --write: #5b9bd8; --read: #ab88d6; --good: #3fbf8f; --bad: #f07178;
  --doubt: #e0b050; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px 28px 60px; max-width: 1280px; background: var(--bg);
  color: var(--fg); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 4px; display: flex; gap: 14px; align-items: center; }
h2 { font-size: 17px; margin: 34px 0 10px; }
p { margin: 6px 0; }
.dim, .small { color: var(--dim); }
.verdict { font-size: 15px; letter-spacing: .04em; padding: 3px 12px; border-radius: 99px;
  color: #fff; background: var(--doubt); }
.verdict.valid { background: var(--good); } .verdict.invalid { background: var(--bad); }
code, .mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13px; }
pre { background: var(--card); padding: 10px 14px; border-radius: 6px; overflow-x: auto;
  margin: 8px 0; font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { text-align: left; font-weight: 600; color: var(--dim); font-size: 13px; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule); vertical-align: top; }
td.num, th.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .doubt { color: var(--doubt); }
.finding { border-left: 4px solid var(--bad); background: var(--card); padding: 10px 16px 4px;
  margin: 12px 0; border-radius: 0 6px 6px 0; }
.finding b { color: var(--bad); }
.state { white-space: nowrap; } summary { cursor: pointer; color: var(--dim); margin: 10px 0; }
.facts { display: flex; flex-wrap: wrap; gap: 6px 26px; margin: 10px 0; }
.facts span b { font-weight: 600; }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--dim); }
.key i { display: inline-block; width: 12px; height: 10px; border-radius: 2px; margin-right: 5px; }
.scroll { overflow-x: auto; } .scroll svg { min-width: 900px; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--fg); }
svg text.small { font-size: 10px; fill: var(--dim); }
svg text.label { font-size: 12px; font-weight: 600; }
svg text.in-bar { font-size: 10px; fill: #fff; pointer-events: none; }
svg text.mono { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; }
.rule { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--dim); stroke-width: 1; }
.shade { fill: var(--fault); opacity: .07; } .fault { fill: var(--fault); }
.phase { fill: var(--dim); } .phase-faults { fill: var(--fault); }
.phase-quiet { fill: var(--ok); } .phase-recovery { fill: var(--fail); }
.out-ok { fill: var(--ok); background: var(--ok); }
.out-fail { fill: var(--fail); background: var(--fail); }
.out-unknown { fill: var(--unknown); background: var(--unknown); } .open { opacity: .6; }
.band { opacity: .28; } .write { fill: var(--write); background: var(--write); }
.read { fill: var(--read); background: var(--read); }
.median { fill: none; stroke-width: 1.4; opacity: 1; } .median.write { stroke: var(--write); }
.median.read { stroke: var(--read); } .dot { opacity: .9; }
.double { fill: var(--unknown); stroke: var(--bg); stroke-width: .6; }
.lease { opacity: .3; }
.held { opacity: .85; stroke: var(--bg); stroke-width: .6; }
.node-0 { fill: #3f83c8; } .node-1 { fill: #c2703d; } .node-2 { fill: #4c9a6a; }
.node-3 { fill: #9067b8; } .node-4 { fill: #b5598a; } .node-5 { fill: #6f7f35; }
.node-6 { fill: #3a9aa5; } .node-7 { fill: #8a8f98; }
.gap { height: 9px; border-radius: 2px; min-width: 2px; display: inline-block; }
"""
