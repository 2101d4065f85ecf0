// Uses the service with ioredis, as its users do. Arguments: port, token. Prints JSON.
import { Redis } from "ioredis";

const [port, token] = process.argv.slice(2);
const client = new Redis({ host: "127.0.0.1", port: Number(port), password: token, maxRetriesPerRequest: 0 });
const allow = (p, key, ...cost) => p.call("SG.ALLOW", "default", key, ...cost);
const peek = async (key) => (await client.call("SG.PEEK", "default", key))[2];
const out = {};

const three = client.multi();
for (let i = 0; i < 3; i++) allow(three, "a");
out.pipeline = (await three.exec()).map(([err, answer]) => err ?? answer[2]);

try {
  const p = client.multi();
  allow(p, "b");
  p.call("NOSUCH");
  allow(p, "b");
  out.aborted = await p.exec();
} catch (err) {
  out.aborted = /EXECABORT/.test(String(err)) ? "EXECABORT" : String(err);
}
out.b = await peek("b");

const mixed = client.multi();
allow(mixed, "c");
mixed.call("SG.ALLOW", "nobody", "c");
allow(mixed, "c");
out.mixed = (await mixed.exec()).map(([err, answer]) => (err ?? answer) instanceof Error);

const plain = client.pipeline();
for (let i = 0; i < 3; i++) allow(plain, "d");
out.plain = (await plain.exec()).map(([err, answer]) => err ?? answer[2]);

const many = client.multi();
for (let i = 0; i < 5000; i++) allow(many, "e", "0");
out.many = (await many.exec()).length;

try {
  out.watch = await client.watch("f");
} catch (err) {
  out.watch = /not supported/.test(String(err)) ? "not supported" : String(err);
}

await client.multi({ pipeline: false }); // every command is sent by itself
await allow(client, "g");
await client.discard();
out.reset = await peek("g");

await client.quit();
console.log(JSON.stringify(out));
