// node-redis with its defaults: `node node_redis.js DIRECTORY check PORT`, or `failover PORT PORT`.
"use strict";

const { createRequire } = require("node:module");
const { assertEqual, main, runChecks, sleep } = require("./node_common.js");

const theirs = createRequire(`${process.argv[2]}/`);
const { createClient } = theirs("redis");

async function connected(port) {
  const client = createClient({ url: `redis://127.0.0.1:${port}` });
  client.on("error", () => {});
  const late = sleep(5000).then(() => { throw new Error("it does not connect"); });
  await Promise.race([client.connect(), late]);
  return client;
}

async function connect(port) {
  const client = await connected(port);
  return {
    write: (key) => client.set(key, key),
    isThere: async (key) => (await client.get(key)) === key,
  };
}

async function check(port) {
  const client = await connected(port);
  const name = `node-redis:${theirs("redis/package.json").version}:${port}`;
  return runChecks({
    strings: async () => {
      assertEqual(await client.set(name, "v", { EX: 100 }), "OK");
      assertEqual(await client.get(name), "v");
      assertEqual(await client.del(name), 1);
    },
    counters: async () => {
      await client.del(name);
      assertEqual(await client.incr(name), 1);
    },
    claim: async () => {
      await client.del(`c:${name}`);
      const claim = ["GOBLIN.CLAIM", `c:${name}`, `r:${name}`, "worker", "30"];
      assertEqual(await client.sendCommand(claim), "CLAIMED");
      assertEqual(await client.sendCommand(claim), null);
    },
    "hashes and sorted sets": async () => {
      await client.del([`h:${name}`, `z:${name}`]);
      assertEqual(await client.hSet(`h:${name}`, "a", "1"), 1);
      assertEqual(await client.zAdd(`z:${name}`, { score: 1.5, value: "m" }), 1);
      assertEqual(await client.zScore(`z:${name}`, "m"), 1.5);
    },
    pipeline: async () => {
      assertEqual(await client.multi().set(name, "1").get(name).exec(), ["OK", "1"]);
      const values = await Promise.all(
        Array.from({ length: 50 }, (_, n) => client.set(`${name}:${n}`, `${n}`)));
      assertEqual(values.every((each) => each === "OK"), true);
    },
    scan: async () => {
      let found = 0;
      for await (const keys of client.scanIterator({ MATCH: `${name}:*` })) {
        found += Array.isArray(keys) ? keys.length : 1;
      }
      assertEqual(found, 50);
    },
    server: async () => {
      assertEqual((await client.info()).includes("role:master"), true);
      assertEqual(await client.ping(), "PONG");
    },
    "pub/sub": async () => {
      const subscriber = client.duplicate();
      subscriber.on("error", () => {});
      await subscriber.connect();
      const heard = new Promise((resolve) => subscriber.subscribe(`ch:${name}`, resolve)
        .then(() => client.publish(`ch:${name}`, "hello"))
        .catch((error) => resolve(`refused: ${error.message}`)));
      assertEqual(await heard, "hello");
    },
    script: async () => {
      await client.eval("return redis.call('incrby', KEYS[1], 2)", { keys: [name] });
    },
  });
}

main(theirs("redis/package.json").version, check, connect);
