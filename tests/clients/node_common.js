// What the two node programs share: checks by name, and writing through a failover.
"use strict";

const readline = require("node:readline");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const RECOVER_BOUND_MS = 25000;

const describe = (error) => {
  const inner = error.errors?.[0] ?? error;
  const text = String(inner.message || inner.code || inner).replace(/\s+/g, " ");
  return `${inner.name ?? "Error"}: ${text}`;
};

async function runChecks(checks) {
  const results = {};
  for (const [name, check] of Object.entries(checks)) {
    try {
      // No client here has a timeout of its own for a command.
      const late = sleep(8000).then(() => { throw new Error("no answer in 8 s"); });
      await Promise.race([check(), late]);
      results[name] = "works";
    } catch (error) {
      results[name] = describe(error);
    }
  }
  return results;
}

// connect(port) gives {write(key), isThere(key)}.
async function runFailover(connect, survivor, leader) {
  let stopped = false;
  const results = {};
  const writeLoop = async (name, port) => {
    const { write } = await connect(port);
    const acknowledged = [], failures = {};
    let last = Date.now(), gap = 0, number = 0, giveUp = null, recovered = false;
    while (!recovered) {
      const key = `failover:${port}:${process.pid}:${++number}`;
      const final = stopped;
      if (final && giveUp === null) giveUp = Date.now() + RECOVER_BOUND_MS;
      if (giveUp !== null && Date.now() > giveUp) break;
      try {
        const late = sleep(2 * RECOVER_BOUND_MS).then(() => { throw new Error("no answer"); });
        await Promise.race([write(key), late]);
      } catch (error) {
        const text = describe(error).slice(0, 90);
        failures[text] = (failures[text] ?? 0) + 1;
        await sleep(100);
        continue;
      }
      gap = Math.max(gap, Date.now() - last);
      last = Date.now();
      acknowledged.push(key);
      recovered = final;
      await sleep(20);
    }
    results[name] = { acknowledged, recovered, gap_ms: gap, failures };
  };
  const loops = [writeLoop("survivor", survivor), writeLoop("leader", leader)];
  console.log("running");
  await new Promise((resolve) => readline.createInterface(process.stdin).once("line", resolve));
  stopped = true;
  await Promise.all(loops);
  const { isThere } = await connect(survivor);
  for (const result of Object.values(results)) {
    const there = await Promise.all(result.acknowledged.map(isThere));
    result.ok = there.length;
    result.lost = there.filter((each) => !each).length;
    delete result.acknowledged;
  }
  return results;
}

async function main(version, check, connect) {
  const [what, ...ports] = process.argv.slice(3);
  const result = what === "check"
    ? await check(Number(ports[0]))
    : await runFailover(connect, Number(ports[0]), Number(ports[1]));
  console.log(JSON.stringify({ version, result }));
  process.exit(0);
}

function assertEqual(got, wanted) {
  if (JSON.stringify(got) !== JSON.stringify(wanted)) {
    throw new Error(`got ${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
  }
}

module.exports = { assertEqual, main, runChecks, sleep };
