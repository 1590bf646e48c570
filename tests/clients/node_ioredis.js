// ioredis with its defaults: `node node_ioredis.js DIRECTORY check PORT`, or `failover PORT PORT`.
"use strict";

const { createRequire } = require("node:module");
const { assertEqual, main, runChecks } = require("./node_common.js");

const theirs = createRequire(`${process.argv[2]}/`);
const Redis = theirs("ioredis").default ?? theirs("ioredis");

function connected(port) {
  const client = new Redis(port, "127.0.0.1");
  client.on("error", () => {});
  return client;
}

async function connect(port) {
  const client = connected(port);
  return {
    write: (key) => client.set(key, key),
    isThere: async (key) => (await client.get(key)) === key,
  };
}

async function check(port) {
  const client = connected(port);
  const name = `ioredis:${theirs("ioredis/package.json").version}:${port}`;
  return runChecks({
    strings: async () => {
      assertEqual(await client.set(name, "v", "EX", 100), "OK");
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
      assertEqual(await client.call(...claim), "CLAIMED");
      assertEqual(await client.call(...claim), null);
    },
    "hashes and sorted sets": async () => {
      await client.del(`h:${name}`, `z:${name}`);
      assertEqual(await client.hset(`h:${name}`, "a", "1"), 1);
      assertEqual(await client.zadd(`z:${name}`, 1.5, "m"), 1);
      assertEqual(Number(await client.zscore(`z:${name}`, "m")), 1.5);
    },
    pipeline: async () => {
      const both = [[null, "OK"], [null, "1"]];
      assertEqual(await client.multi().set(name, "1").get(name).exec(), both);
      assertEqual(await client.pipeline().set(name, "1").get(name).exec(), both);
    },
    scan: async () => {
      let found = 0;
      await Promise.all(Array.from({ length: 25 }, (_, n) => client.set(`${name}:${n}`, n)));
      for await (const keys of client.scanStream({ match: `${name}:*` })) found += keys.length;
      assertEqual(found, 25);
    },
    server: async () => {
      assertEqual((await client.info()).includes("role:master"), true);
      assertEqual(await client.ping(), "PONG");
    },
    "pub/sub": async () => {
      const subscriber = connected(port);
      const heard = new Promise((resolve) => {
        subscriber.on("message", (_, message) => resolve(message));
        subscriber.subscribe(`ch:${name}`)
          .then(() => client.publish(`ch:${name}`, "hello"))
          .catch((error) => resolve(`refused: ${error.message}`));
      });
      assertEqual(await heard, "hello");
    },
    script: async () => {
      await client.eval("return redis.call('incrby', KEYS[1], 2)", 1, name);
    },
  });
}

main(theirs("ioredis/package.json").version, check, connect);
